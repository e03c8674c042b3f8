"""A gap that grows along the response although the weights do not change."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from monitor.diagnosis import _profiles
from monitor.diagnosis._earlier_rules import DATA, SEMANTICS, STALE_OR_WRONG_WEIGHTS
from monitor.diagnosis._mixture import by_place
from monitor.diagnosis.case import Case
from monitor.diagnosis.outcome import Certainty, Curve, Evidence, Finding, Layer, Outcome, Passed, Severity, Skipped
from monitor.diagnosis.portrait import Portrait
from monitor.diagnosis.remedies import Remedy, fix
from monitor.diagnosis.rule import Rule, Threshold
from monitor.diagnosis.trend import rank_correlation

Floats = NDArray[np.float64]

THRESHOLDS = {
    "far": Threshold(value=32, unit="tokens", source="responses that reach beyond it show growth against their first eight tokens"),
    "factor": Threshold(value=3.0, unit="factor late over early", source="field report A52: 1.2 to 1.4 against 0.22 nats"),
    "short": Threshold(
        value=12.0, unit="factor last over first place", source="16 tokens of the lab: healthy 4, coarse caches 8, growing 30"
    ),
    "monotone": Threshold(value=0.7, unit="rank correlation", source="over places; a bump is no growth"),
    "level": Threshold(value=0.02, unit="nats", source="late tokens must matter: above the floor of field reports A11 and A27"),
    "early": Threshold(
        value=0.3, unit="mean |gap| of the first third of the steps over the run's", source="rounding is there from the first step on"
    ),
    "correlation": Threshold(value=0.7, unit="rank correlation", source="by chance 1 in 1,000 series of 20 steps reaches it"),
    "steps": Threshold(value=8, unit="steps", source="fewer show no correlation"),
    "range": Threshold(value=1.5, unit="factor", source="lengths that hardly change show nothing"),
    "time": Threshold(value=0.9, unit="rank correlation", source="lengths that only ever rise cannot be told from time"),
}
_EARLY = 8  # tokens
_SCALARS = (
    "log_ratio.discrepancy.abs_mean",
    "log_ratio.discrepancy.exp_abs_mean",
    "kl.discrepancy.k3",
    "log_ratio.total.abs_mean",
    "kl.total.k3",
    "kl.update.k3",
    "kl.update.k1",
)
_WHY = (
    "Rounding along the sequence adds up: in attention over a long context, in running sums, in positions, in a cache that is requantised. "
    "Long responses then carry the largest ratios, whatever their quality."
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Rise:
    """Mean |gap| by place, improbability taken out."""

    place: Floats  # first place of each class
    value: Floats  # 1: as tokens as improbable have on average
    factor: float
    limit: str  # name of the threshold it is compared with
    monotone: float
    late: float  # mean |gap| of the late tokens, nats


def check(case: Case) -> Outcome:
    """Under the same weights late tokens of a response are much further apart than early ones as improbable as they, and long responses
    are worse than short ones. Over a run the gap goes up and down with the mean length of the responses and not with the steps.

    Errors add up along the sequence. Attention over a long context in low precision, a kernel made for short ones, positions beyond the
    trained range, or a cache that is rounded again at every token do this.

    Change the attention kernel of the engine (no cascade attention, no special kernels) or raise the precision of the cache, and compare
    the places again. If trainer and engine split long sequences differently, make them alike.

    A stale prefix is worst at early tokens. Lag and weights changed in flight also grow along a response, so only tokens under its first
    weights are counted. Where the lengths only ever rise, growth with length cannot be told from growth with time by the step log, and
    tokens are needed.

    Field report A52 has a KL of 0.22 nats at 460 tokens and 1.2 to 1.4 at 3,400. Healthy bfloat16 runs of the lab rise by a factor of up
    to 4 over 16 tokens, because the first tokens depend on little, so short responses must show much more.
    """
    if case.portrait is not None and case.portrait.gap.is_discrepancy:
        rise = rising(case.portrait)
        if rise is None:
            return Skipped(why="too few tokens at different places of the responses to see a trend", record=("more tokens",))
        return _from_tokens(case, case.portrait, rise)
    return _from_log(case)


def rising(portrait: Portrait) -> Rise | None:
    """The gap by place; None where there are not two parts of the responses to compare."""
    own, expected = by_place(portrait.whole)
    edges, used = _profiles.PLACE_EDGES, np.flatnonzero(np.isfinite(own))
    if len(used) < 4:  # noqa: PLR2004 - a trend over fewer classes is none
        return None
    early, late = (used[part] for part in (edges[used] < _EARLY, edges[used] >= THRESHOLDS["far"].value))
    limit = "factor" if len(early) and len(late) else "short"
    if limit == "short":
        early, late = used[:1], used[-2:]
    before, after = (float(own[part].sum() / expected[part].sum()) for part in (early, late))
    n = portrait.whole.place_surprise[..., _profiles.N].sum(axis=1)
    return Rise(
        place=edges[used].astype(float),
        value=own[used] / expected[used],
        factor=after / before if before > 0 else np.inf,
        limit=limit,
        monotone=rank_correlation(edges[used].astype(float), own[used] / expected[used]),
        late=float(own[late].sum() / n[late].sum()),
    )


def _waits(portrait: Portrait) -> bool:
    """Whether the gap was small at first: then weights or caches age, and the place is not all."""
    steps = list(portrait.steps)
    first = portrait.of(steps[: max(1, len(steps) // 3)])
    return first.abs_mean < THRESHOLDS["early"].value * portrait.whole.abs_mean


def _from_tokens(case: Case, portrait: Portrait, rise: Rise) -> Outcome:
    grows = (
        rise.factor > THRESHOLDS[rise.limit].value
        and rise.monotone > THRESHOLDS["monotone"].value
        and rise.late > THRESHOLDS["level"].value
    )
    last = int(rise.place[-1])
    if not grows:
        return Passed(
            says=f"from the first tokens to place {last} the gap changes by a factor of {rise.factor:.2g}, improbability taken out"
        )
    if _waits(portrait):
        return Passed(says="late tokens are worse, but hardly in the first steps: weights or caches age, which precision does not")
    return Finding(
        severity=Severity.WARNING,
        certainty=Certainty.MEASURED,
        what=f"the gap grows along the response under the same weights: {rise.factor:.2g} times as large at place {last} as at the "
        f"beginning, for tokens "
        f"as improbable; mean |gap| {rise.late:.2g} nats there",
        why=_WHY,
        fixes=(fix(case, Remedy.PLAIN_KERNELS), fix(case, Remedy.KV_CACHE_PRECISION)),
        look_at="the mean |gap| by place in the response: flat once the kernel is right",
        evidence=(
            Evidence(
                metric="portrait.gap_by_place",
                says=f"late over early tokens {rise.factor:.2g}, rank correlation with the place {rise.monotone:.2f}",
                value=rise.factor,
                threshold=THRESHOLDS[rise.limit].value,
                source=THRESHOLDS[rise.limit].source,
                curve=Curve(
                    x=tuple(rise.place),
                    y=tuple(rise.value),
                    x_title="place in the response, from",
                    y_title="mean |gap| over what improbability explains",
                    expected=(1.0,) * len(rise.place),
                ),
            ),
        ),
        since=min(portrait.steps),
        apart_from=(
            "a stale prefix cache: that is worst at early tokens, here late ones are",
            "lag: only tokens under the first weights are counted",
        ),
    )


def _from_log(case: Case) -> Outcome:
    gap, length = case.series(*_SCALARS), case.series("response_length.mean")
    steps = np.intersect1d(gap.steps[np.isfinite(gap.values)], length.steps[np.isfinite(length.values)])
    if len(steps) < THRESHOLDS["steps"].value:
        return Skipped(
            why=f"{len(steps)} steps have both a gap and the length of the responses, 8 are needed", record=("response_length.mean",)
        )
    values, lengths = (one.values[np.isin(one.steps, steps)] for one in (gap, length))
    values = values - 1 if "exp_abs" in gap.metric else values
    with_length, with_time, together = _correlations(values, lengths)
    wide = min(float(np.ptp(np.log(np.maximum(one, 1e-12)))) for one in (_ends(lengths), _ends(values)))
    if wide < np.log(THRESHOLDS["range"].value) or with_length < THRESHOLDS["correlation"].value:
        return Passed(says=f"rank correlation of {gap.metric} with the length {with_length:.2f}; growth with length would be near 1")
    if abs(together) > THRESHOLDS["time"].value:
        return Skipped(
            why="the responses only ever get longer (or shorter): growth with length cannot be told from growth with time",
            record=("same_weights_logprob",),
        )
    if with_time < THRESHOLDS["correlation"].value:
        return Passed(says=f"{gap.metric} follows the length no better than time does ({with_time:.2f} with time taken out)")
    return _logged(case, gap.metric, gap.origin, values, lengths, steps, with_time)


def _logged(case: Case, metric: str, origin: str, values: Floats, lengths: Floats, steps: NDArray[np.int64], partial: float) -> Finding:  # noqa: PLR0913, PLR0917 - the pieces of one sentence
    order = np.argsort(lengths)
    part = max(1, len(order) // 5)
    short, long = order[:part], order[-part:]
    lag = (
        ""
        if ".discrepancy." in metric
        else " The log has the total only, and lag grows with the length as well where weights change in flight."
    )
    return Finding(
        severity=Severity.WARNING if not lag else Severity.NOTE,
        certainty=Certainty.INDICATED,
        what=f"{metric} grows with the length of the responses: {np.median(values[short]):.3g} at {np.median(lengths[short]):.0f} tokens, "
        f"{np.median(values[long]):.3g} at {np.median(lengths[long]):.0f}, rank correlation {partial:.2f} with the step taken out",
        why=_WHY + lag,
        fixes=(fix(case, Remedy.PLAIN_KERNELS), fix(case, Remedy.KV_CACHE_PRECISION)),
        look_at=f"{metric} against response_length.mean",
        evidence=(
            Evidence(
                metric=metric,
                says=f"rank correlation with the mean length {partial:.2f}, the step taken out, over {len(steps)} steps",
                value=partial,
                threshold=THRESHOLDS["correlation"].value,
                unit="rank correlation",
                source=THRESHOLDS["correlation"].source,
                steps=(int(steps[0]), int(steps[-1])),
                origin=origin,
                curve=Curve(x=tuple(lengths[order]), y=tuple(values[order]), x_title="mean length, tokens", y_title=metric),
            ),
        ),
        since=int(steps[0]),
        apart_from=(f"growth with time: with the step taken out the length still explains it ({partial:.2f})",),
    )


def _correlations(values: Floats, lengths: Floats) -> tuple[float, float, float]:
    """Rank correlation of the gap with the length, the same with the step taken out, and of the length with the step."""
    time = np.arange(len(values), dtype=float)
    both, gap, length = rank_correlation(values, lengths), rank_correlation(values, time), rank_correlation(lengths, time)
    rest = (1 - gap**2) * (1 - length**2)
    return both, (both - gap * length) / np.sqrt(rest) if rest > 0 else np.nan, length


def _ends(values: Floats) -> Floats:
    """A low and a high value: the medians of the lowest and the highest fifth."""
    ordered = np.sort(values)
    part = max(1, len(ordered) // 5)
    return np.array([np.median(ordered[:part]), np.median(ordered[-part:])])


RULE = Rule(
    id="numerics_growth_with_length",
    layer=Layer.NUMERICS,
    title="Growth with length",
    check=check,
    requires=(("tokens", *_SCALARS),),
    thresholds=THRESHOLDS,
    after=(*DATA, *SEMANTICS, *STALE_OR_WRONG_WEIGHTS, "numerics_prompt_bound_outliers", "numerics_moe_routing_flips"),
)
