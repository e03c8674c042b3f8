"""Values that are no numbers, on the trainer's side or in the step log, and in how many steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from monitor.diagnosis._engine_side import blamed
from monitor.diagnosis.case import Case
from monitor.diagnosis.outcome import Certainty, Curve, Evidence, Finding, Fix, Layer, Outcome, Passed, Severity
from monitor.diagnosis.remedies import fix
from monitor.diagnosis.remedy import Remedy
from monitor.diagnosis.rule import Rule, Threshold

THRESHOLDS = {
    "tokens": Threshold(value=0.0, unit="tokens", source="definition: every token that counts has a log-probability"),
    "many": Threshold(
        value=0.01,
        unit="share of tokens",
        source="chosen: from here on critical; field report A6 and its simulation have 0.02 % by rounding",
    ),
    "engine": Threshold(value=0.5, unit="of the engine's count", source="chosen: with fewer than that the engine's side comes first"),
    "metrics": Threshold(
        value=2.0,
        unit="metrics in one step",
        source="field report A24: one step of bad values spoils six metrics; a single one may be the mean of nothing",
    ),
    "end": Threshold(value=3.0, unit="steps at the end", source="chosen: a run that ends in values that are no numbers does not come back"),
}


@dataclass(frozen=True, kw_only=True)
class Logged:
    """Steps of the step log with values that are not finite."""

    steps: NDArray[np.int64]  # all steps of the log
    counts: NDArray[np.int64]  # metrics that are not finite, of those that are finite elsewhere
    names: tuple[str, ...]

    @property
    def bad(self) -> NDArray[np.int64]:
        """Steps with several such metrics."""
        return self.steps[self.counts >= THRESHOLDS["metrics"].value]


def check(case: Case) -> Outcome:
    """Some log-probabilities of the trainer are NaN or infinite, or several metrics of the step log are not numbers in the same steps.

    A token of probability 0 has a log-probability of minus infinity. It arises where the trainer masks out the very token that was sampled,
    most often at the edge of a replayed top-p or top-k set. NaN arises from such a value later on, from a division by an empty mask, or
    from an overflow. Comparisons with NaN are false, so clipping and rejection let it through, and most dashboards drop it from the curve.

    Count them instead of dropping them. Keep the sampled token in the trainer's kept set whatever rounding says, and guard means over empty
    masks. Where tokens are recorded, the first step given here says which responses to look at.

    Values that are bad on the engine's side alone belong to the inference path: a weight update that overlaps a forward pass with several
    pipeline stages, or a prefix cache on a hybrid model. This rule leaves those to it.

    Field reports A6, A10, A24 and A25. One such token is enough, since no healthy token is without a log-probability.
    """
    trainer, engine, tokens = (_total(case, name) for name in ("nonfinite.trainer", "nonfinite.engine", "tokens.count"))
    if trainer > THRESHOLDS["tokens"].value:
        return _in_tokens(case, trainer, tokens)
    logged = _logged(case)
    if not logged.counts.any():
        return Passed(
            says="every logged value is a number"
            + (f", and so is what the trainer gives {tokens:.0f} tokens at the same weights and now" if tokens else "")
        )
    if engine:
        return Passed(
            says=f"{len(logged.bad)} steps have values that are no numbers, and the engine's own tokens explain them (inference path)"
        )
    steps = tuple(int(step) for step in logged.steps[logged.counts > 0])
    if reason := blamed(case, logged.names, steps):
        says = f"{len(steps)} of {len(logged.steps)} steps have values that are no numbers, which are the engine's: {reason}"
        return Passed(says=says)
    return _in_log(logged)


def _total(case: Case, metric: str) -> float:
    one = case.series(metric)
    return float(np.nansum(one.values)) if one.origin == "tokens" else 0.0


def _in_tokens(case: Case, bad: float, tokens: float) -> Finding:
    series, share = case.series("nonfinite.trainer"), bad / max(tokens, 1.0)
    steps = series.steps[series.values > 0]
    kinds = case.portrait.whole.singular if case.portrait else None
    cut = bool(kinds and kinds.trainer_infinite and not kinds.trainer_nan and _truncated(case) and share < THRESHOLDS["many"].value)
    kind = (
        f" ({kinds.trainer_nan:.0f} NaN, {kinds.trainer_infinite:.0f} infinite)"
        if kinds and kinds.trainer_nan + kinds.trainer_infinite
        else ""
    )
    return Finding(
        severity=_severity(case, bad, share),
        certainty=Certainty.MEASURED,
        what=f"the trainer's log-probability is no finite number in {bad:.0f} of {tokens:.0f} tokens{kind}, "
        f"in {len(steps)} of {len(series)} steps, first in step {steps[0]}",
        why="the sampled token fell outside the trainer's own kept set by rounding (field report A6): its probability there is 0"
        if cut
        else "a token without a log-probability spoils every mean it enters, and no comparison of a ratio with its bounds catches it",
        fixes=(_keep_sampled(),) if cut else (_overflow(), fix(case, Remedy.MASK)),
        look_at="the count of such tokens by step: it should be 0",
        evidence=(
            Evidence(
                metric="nonfinite.trainer",
                says=f"{bad:.0f} tokens, {share:.2%} of those that count",
                value=bad,
                threshold=THRESHOLDS["tokens"].value,
                source=THRESHOLDS["tokens"].source,
                steps=tuple(int(step) for step in steps[:20]),
            ),
        ),
        since=int(steps[0]),
        apart_from=(f"bad values of the engine, which belong to the inference path: it has {_total(case, 'nonfinite.engine'):.0f}",),
    )


def _severity(case: Case, bad: float, share: float) -> Severity:
    if _total(case, "nonfinite.engine") * THRESHOLDS["engine"].value > bad:
        return Severity.NOTE  # most of them are the engine's, and the rule on those says so
    return Severity.CRITICAL if share >= THRESHOLDS["many"].value else Severity.WARNING


def _truncated(case: Case) -> bool:
    top_p, top_k, min_p = (case.number(f"sampling.{name}") for name in ("top_p", "top_k", "min_p"))
    return bool((top_p is not None and top_p < 1) or (top_k is not None and top_k > 0) or min_p)


def _overflow() -> Fix:
    return Fix(
        change="look in the first of these steps for what overflows: logits and log-softmax in float32, no mask of -inf over a whole row, "
        "and no weights that were NaN already",
        where="the trainer's forward pass",
    )


def _keep_sampled() -> Fix:
    return Fix(
        change="keep the sampled token's own logit when the trainer replays top-p or top-k, whatever rounding says",
        where="the trainer's code that masks logits",
    )


def _logged(case: Case) -> Logged:
    frame = case.frame.filter(pc.equal(case.frame["origin"], "logged"))
    names, steps, values = (np.asarray(frame[name].to_pylist()) for name in ("metric", "step", "value"))
    every = np.unique(steps).astype(np.int64)
    if not len(every):
        return Logged(steps=every, counts=np.zeros(0, np.int64), names=())
    finite = np.isfinite(values.astype(float))
    sometimes = np.isin(names, np.unique(names[finite]))  # a metric that never is a number was never computed
    bad = ~finite & sometimes
    pairs = {(int(step), str(name)) for step, name in zip(steps[bad], names[bad], strict=True)}
    counts = (
        np.bincount(np.searchsorted(every, [step for step, _ in pairs]), minlength=len(every)) if pairs else np.zeros(len(every), np.int64)
    )
    return Logged(steps=every, counts=counts, names=tuple(sorted({name for _, name in pairs})))


def _in_log(logged: Logged) -> Finding:
    bad = logged.bad
    shown = bad if len(bad) else logged.steps[logged.counts > 0]
    tail = int(np.argmin(np.append((logged.counts >= THRESHOLDS["metrics"].value)[::-1], False)))
    ended = tail >= THRESHOLDS["end"].value
    where = f", and from step {logged.steps[-tail]} to the end" if ended else ""
    names = ", ".join(logged.names[:6]) + (" and more" if len(logged.names) > 6 else "")  # noqa: PLR2004 - as many as fit a line
    return Finding(
        severity=Severity.CRITICAL if ended else Severity.WARNING if len(bad) else Severity.NOTE,
        certainty=Certainty.INDICATED,
        what=f"{len(shown)} of {len(logged.steps)} steps ({len(shown) / len(logged.steps):.1%}) have values that are no numbers, "
        f"in {len(logged.names)} metric{'s' if len(logged.names) > 1 else ''} ({names}), first in step {shown[0]}{where}",
        why="one bad token spoils every mean it enters; on which side it arose, only token columns tell",
        fixes=(
            Fix(
                change="count tokens without a finite log-probability on each side before averaging, and leave them out of the loss",
                where="the trainer's code, before the ratio is taken",
            ),
        ),
        look_at="the number of metrics that are not finite in each step: it should be 0",
        evidence=(
            Evidence(
                metric=logged.names[0],
                says=f"{len(shown)} steps with values that are no numbers, up to {logged.counts.max()} metrics in one of them",
                value=float(logged.counts.max()),
                threshold=THRESHOLDS["metrics"].value,
                unit="metrics",
                source=THRESHOLDS["metrics"].source,
                steps=tuple(int(step) for step in shown[:20]),
                origin="logged",
                curve=Curve(
                    x=tuple(logged.steps.astype(float)),
                    y=tuple(logged.counts.astype(float)),
                    x_title="step",
                    y_title="metrics that are no numbers",
                ),
            ),
        ),
        since=int(shown[0]),
        until=None if ended else int(shown[-1]),
    )


RULE = Rule(
    id="data_nonfinite",
    layer=Layer.DATA,
    title="Values that are no numbers",
    check=check,
    needs=("engine.weight_sync", "sampling.top_p", "sampling.top_k"),
    thresholds=THRESHOLDS,
)
