"""The numbers that the semantics rules stand on, as evidence: mean ratio, mean gap, slope, gap by improbability."""

from __future__ import annotations

import math

from monitor.diagnosis._mean_ratio import MeanRatio
from monitor.diagnosis._temperature_fit import Fit, curve
from monitor.diagnosis.outcome import Evidence
from monitor.diagnosis.portrait import StepPortrait

_IDENTITY = "1 for every trainer if the tokens were sampled under what was recorded (definitions, section 7)"


def ratio_evidence(ratio: MeanRatio) -> Evidence:
    """The mean ratio with its error."""
    says = f"the mean ratio is {ratio.words}"
    return Evidence(
        metric=ratio.metric, says=says, value=ratio.mean, threshold=1.0, source=_IDENTITY, steps=ratio.steps, origin=ratio.origin
    )


def cap_evidence(ratio: MeanRatio) -> tuple[Evidence, ...]:
    """That the ratios sit on their cap, so that their mean is a lower bound; nothing where they do not."""
    if not math.isfinite(ratio.cap):
        return ()
    says = f"the ratios sit on the cap {ratio.cap:g}: their true mean is larger"
    source = "a value that many tokens share exactly is a bound (field report A2)"
    return (Evidence(metric=ratio.metric.replace(".mean", ".max"), says=says, value=ratio.cap, source=source, origin=ratio.origin),)


def gap_evidence(ratio: MeanRatio) -> tuple[Evidence, ...]:
    """The mean gap and its sign; nothing where the log has none without lag."""
    if not math.isfinite(ratio.gap):
        return ()
    more = "more" if ratio.gap > 0 else "less"
    says = f"the trainer finds the sampled tokens {more} probable than the engine reports: {ratio.gap:+.4f} nats on average"
    metric = ratio.metric.replace("ratio_raw", "ratio").replace("ratio.", "log_ratio.", 1)
    source = "its sign tells whose temperature is missing (field reports, section 0.2)"
    return (Evidence(metric=metric, says=says, value=ratio.gap, threshold=0.0, source=source, steps=ratio.steps[:1], origin=ratio.origin),)


def slope_evidence(tested: Fit | None) -> tuple[Evidence, ...]:
    """The slope between the two sides, where there is a fit."""
    if tested is None:
        return ()
    where = "between samples of one prefix" if tested.same_prefix else "over all tokens"
    slope = f"{tested.slope:.4f} ± {tested.error:.2g}"
    says = f"the trainer's log-probabilities are {slope} times the engine's {where}: {tested.explained:.1%} of the gap"
    source = (
        "the engine's temperature over the trainer's, exactly"
        if tested.same_prefix
        else "bent towards 1 by the normalisers of many prefixes"
    )
    return (Evidence(metric="portrait.slope", says=says, value=tested.slope, threshold=1.0, source=source),)


def surprise_evidence(whole: StepPortrait) -> Evidence:
    """The gap by improbability, as a picture."""
    drawn = curve(whole)
    says = f"the mean gap runs from {drawn.y[0]:+.4f} nats at the most probable tokens to {drawn.y[-1]:+.4f} at the least probable"
    return Evidence(metric="portrait.surprise", says=says, value=drawn.y[-1] - drawn.y[0], curve=drawn)
