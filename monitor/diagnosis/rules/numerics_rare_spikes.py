"""A few tokens, or a few steps, with gigantic errors while everything else is at the floor."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from monitor.diagnosis._earlier_rules import DATA, SEMANTICS, STALE_OR_WRONG_WEIGHTS
from monitor.diagnosis._mixture import GIANT, Mixture, mixture, sizes_evidence
from monitor.diagnosis._prompts import prompts
from monitor.diagnosis.case import Case
from monitor.diagnosis.outcome import Certainty, Evidence, Finding, Layer, Outcome, Passed, Severity, Skipped
from monitor.diagnosis.portrait import FAR, Portrait
from monitor.diagnosis.remedies import Remedy, fix
from monitor.diagnosis.rule import Rule, Threshold
from monitor.metrics.series import Series

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

THRESHOLDS = {
    "giants": Threshold(value=3, unit="tokens beyond 4 nats", source="healthy runs of the lab have none"),
    "responses": Threshold(value=3, unit="responses", source="one response is an accident"),
    "several": Threshold(value=10, unit="tokens beyond ln 2", source="fewer show no pattern"),
    "share": Threshold(value=0.001, unit="share of tokens beyond ln 2", source="healthy lab runs have 0.0002 at most"),
    "uneven": Threshold(value=6.0, unit="factor between places", source="lab: routing flips 2 to 3, overflowing sums 6 to 22"),
    "bound": Threshold(value=0.5, unit="share of the variance between prompts", source="lab: routing flips 0.2, overflowing sums 0.7"),
    "most": Threshold(value=0.05, unit="share of tokens beyond ln 2", source="more is no longer rare"),
    "apart": Threshold(value=1.0, unit="distance from a broad noise", source="lab: spikes 2 to 5, coarse bodies and caches 0.2 to 0.7"),
    "floor": Threshold(value=0.05, unit="nats", source="the healthy bfloat16 spread of field report A8"),
    "last": Threshold(value=0.5, unit="share of the squared gap", source="a fault of the last token alone makes all of it"),
    "early": Threshold(value=0.1, unit="share over the run's", source="spikes need no update of the weights"),
    "usual": Threshold(value=1.05, unit="mean exp|gap|", source="NeMo-RL docs; field report A45 counts steps above it"),
    "times": Threshold(value=10, unit="times the usual excess over 1", source="field report A45: median 1.01, spikes from 700 on"),
    "steps": Threshold(value=5, unit="steps", source="fewer have no usual level"),
    "logged": Threshold(value=GIANT, unit="nats", source="field report A8: healthy bfloat16 stays under 0.7 in 4,000 tokens"),
    "flat": Threshold(value=0.09, unit="nats", source="SkyRL's gate on the mean |gap| (SkyRL#1408)"),
}
_MEASURES = ("log_ratio.discrepancy.exp_abs_mean", "log_ratio.discrepancy.abs_max")
_WHY = (
    "Most kernels agree, and one does not, for inputs of a rare kind: a fused kernel that keeps coarse intermediate results, an "
    "accumulator that "
    "overflows. A single such token outweighs a batch, and the reward does not show it."
)


def check(case: Case) -> Outcome:
    """The typical step and the typical token are at the floor, and now and then one is off by factors of hundreds to billions. Averages
    over a step jump and come back; a median never moves.

    One operation of trainer or engine goes wrong for rare inputs only. Fused kernels that keep intermediate results in bfloat16 and
    accumulators that overflow are the known ones. The reward looks as usual, until an update made of one token ruins the policy.

    Turn fused and special kernels off one at a time, on the side that was changed last, and count the steps with a mean exp|gap| above
    1.05. Until then truncate the ratio, so that no single token can make an update.

    Routing flips are many moderate jumps, spread evenly; a fault bound to prompts takes whole responses; retokenised rows are off from
    one token to the end; damaged weights jump once and stay. Values that are no numbers have a rule of their own.

    Field report A45 has the median at 1.01 with 6 to 25 % of steps above 1.05 and a largest of 6.6e9; 1.05 is from NeMo-RL docs, which
    read very spiky curves as a fault of inference or of the weight update. Healthy runs of the lab have no token beyond 3 nats.
    """
    portrait = case.portrait
    if portrait is not None and portrait.gap.is_discrepancy:
        return _from_tokens(case, portrait)
    for metric in _MEASURES:
        found = case.series(metric)
        if np.isfinite(found.values).sum() >= THRESHOLDS["steps"].value:
            return _from_log(case, found)
    return Skipped(
        why="neither tokens at the same weights nor five steps of a mean factor or a largest gap",
        record=("same_weights_logprob", *_MEASURES),
    )


def _from_tokens(case: Case, portrait: Portrait) -> Outcome:
    found, table = mixture(portrait), portrait.whole.sequences
    giants = found.giants >= THRESHOLDS["giants"].value and (table.worst > GIANT).sum() >= THRESHOLDS["responses"].value
    if not (giants or _of_a_kind(found, portrait)):
        return Passed(
            says=f"{found.giants:.0f} of {found.tokens:.0f} tokens are off by more than {GIANT:g} nats, {found.far:.0f} by more than ln 2"
        )
    broad = found.share > THRESHOLDS["share"].value and found.apart < THRESHOLDS["apart"].value
    if broad or found.share > THRESHOLDS["most"].value or found.floor > THRESHOLDS["floor"].value:
        return Passed(says=f"{found.far:.0f} tokens are off by more than ln 2, but the others are no better than such a tail allows")
    if found.last > THRESHOLDS["last"].value:
        return Passed(says=f"last tokens make {found.last:.0%} of the squared gap: that is a boundary")
    if found.early < THRESHOLDS["early"].value:
        return Passed(says="the first third of the steps has none: weights or caches come before kernels")
    return _finding_in_tokens(case, portrait, found)


def _of_a_kind(found: Mixture, portrait: Portrait) -> bool:
    """Moderate errors of few tokens that come back at certain places or prompts: inputs of a rare kind."""
    several = found.far >= THRESHOLDS["several"].value and found.share > THRESHOLDS["share"].value
    tied = found.uneven > THRESHOLDS["uneven"].value or prompts(portrait.whole.sequences).bound > THRESHOLDS["bound"].value
    return several and tied


def _finding_in_tokens(case: Case, portrait: Portrait, found: Mixture) -> Finding:
    steps, values = portrait.over_steps(lambda step: step.multiplicative_error)
    above = values > THRESHOLDS["usual"].value
    peak = int(np.nanargmax(values))
    worst = portrait.whole.sequences.worst
    size, beyond = (GIANT, found.giants) if found.giants >= THRESHOLDS["giants"].value else (FAR, found.far)
    return Finding(
        severity=Severity.WARNING,
        certainty=Certainty.MEASURED,
        what=f"{beyond:.0f} of {found.tokens:.0f} tokens are off by more than {size:.2g} nats (largest "
        f"{worst.max():.3g}) while half of the uncertain ones agree within {found.floor:.2g}; {above.mean():.0%} of the steps have "
        f"a mean exp|gap| above 1.05",
        why=_WHY,
        fixes=(fix(case, Remedy.PLAIN_KERNELS),),
        look_at="the largest |gap| of a step and the share of steps with a mean exp|gap| above 1.05",
        evidence=(
            sizes_evidence(portrait.whole, found),
            Evidence(
                metric=_MEASURES[0],
                says=f"mean exp|gap| is {np.median(values):.4g} in the median step and {values[peak]:.3g} at step {steps[peak]}",
                value=float(values[peak]),
                threshold=THRESHOLDS["usual"].value,
                source=THRESHOLDS["usual"].source,
                steps=tuple(int(step) for step in steps[above][:20]),
            ),
        ),
        since=int(steps[above][0]) if above.any() else int(steps[0]),
        apart_from=(
            f"routing flips: over 0.1 % of tokens, spread evenly; here {found.share:.2%}, places differ by a factor of {found.uneven:.1f}",
            f"a coarse body: it moves all tokens, here half of the uncertain ones stay within {found.floor:.2g} nats",
        ),
    )


def _from_log(case: Case, found: Series) -> Outcome:
    use = np.isfinite(found.values)
    steps, values = found.steps[use], found.values[use]
    usual = float(np.median(values))
    spikes = _spikes(case, found.metric, values, usual)
    share = float(spikes.mean())
    if not spikes.any():
        return Passed(says=f"{found.metric} is {usual:.4g} in the median step and {values.max():.4g} at most, without spikes")
    if _stays(spikes):
        return Passed(says=f"{found.metric} rises once and stays: a level, not spikes")
    peak = int(np.argmax(values))
    unit = "" if "exp_abs" in found.metric else " nats"
    return Finding(
        severity=Severity.WARNING,
        certainty=Certainty.INDICATED,
        what=f"{found.metric} is {usual:.4g}{unit} in the median step and {values[peak]:.3g}{unit} at step {steps[peak]}; "
        f"{share:.0%} of {len(values)} steps have such spikes and the others do not",
        why=_WHY,
        fixes=(fix(case, Remedy.PLAIN_KERNELS),),
        look_at=f"{found.metric}: its largest values, not its mean",
        evidence=(
            Evidence(
                metric=found.metric,
                says=f"{int(spikes.sum())} of {len(values)} steps are above; the median step has {usual:.4g}",
                value=float(values[peak]),
                threshold=THRESHOLDS["usual" if "exp_abs" in found.metric else "logged"].value,
                source=THRESHOLDS["usual" if "exp_abs" in found.metric else "logged"].source,
                steps=tuple(int(step) for step in steps[spikes][:20]),
                origin=found.origin,
            ),
        ),
        since=int(steps[spikes][0]),
        apart_from=("a coarse body or damaged weights: their level stays, here it returns to the floor between spikes",),
    )


def _spikes(case: Case, metric: str, values: Floats, usual: float) -> Flags:
    """Which steps are spikes; none where the usual step is no floor."""
    if "exp_abs" in metric:
        high = max(THRESHOLDS["usual"].value - 1, THRESHOLDS["times"].value * (usual - 1))
        return np.asarray((values - 1 > high) & (usual <= THRESHOLDS["usual"].value))
    level = case.series("log_ratio.discrepancy.abs_mean").values
    flat = np.isfinite(level).any() and float(np.nanmedian(level)) < THRESHOLDS["flat"].value
    return np.asarray((values > THRESHOLDS["logged"].value) & (usual < THRESHOLDS["logged"].value / 2) & flat)


def _stays(spikes: Flags) -> bool:
    """Whether everything after the first spike is one: a change of level."""
    first = int(np.argmax(spikes))
    after = spikes[first:]
    return bool(len(after) > 2 and after.mean() > 0.8)  # noqa: PLR2004 - two may be neighbours by chance


RULE = Rule(
    id="numerics_rare_spikes",
    layer=Layer.NUMERICS,
    title="Rare giant errors",
    check=check,
    requires=(("tokens", *_MEASURES),),
    thresholds=THRESHOLDS,
    after=(*DATA, *SEMANTICS, *STALE_OR_WRONG_WEIGHTS, "numerics_prompt_bound_outliers", "numerics_moe_routing_flips"),
)
