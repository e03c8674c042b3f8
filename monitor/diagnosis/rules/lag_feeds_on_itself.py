"""Whether the lag grows by itself, as it does where the generator is never brought up to date."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from monitor.diagnosis._extrapolation import Fit, exponential
from monitor.diagnosis._idle_loss import idle_loss
from monitor.diagnosis._lag_term import VERSIONS
from monitor.diagnosis.case import Case
from monitor.diagnosis.outcome import Certainty, Curve, Evidence, Finding, Layer, Outcome, Passed, Severity, Skipped
from monitor.diagnosis.remedies import Remedy, fix
from monitor.diagnosis.rule import Rule, Threshold
from monitor.diagnosis.trend import growth
from monitor.metrics.series import Series

SIZES = ("kl.lag.k3", "kl.lag.k2", "kl.lag.k1", "log_ratio.lag.abs_mean")  # the preferred first
FEWEST = 12  # steps; a queue of a few batches fills for as long
ESS = ("ess.lag.sequence", "ess.lag.token")  # the one that falls first
THRESHOLDS = {
    "z": Threshold(
        value=4.0, unit="standard errors", source="Kendall's tau of a series without trend (Mann 1945); 12 rising steps have 4.5"
    ),
    "half": Threshold(
        value=2.0, unit="standard errors of the rate", source="a queue that fills grows at first and is flat in the second half"
    ),
    "factor": Threshold(value=2.0, unit="times", source="last fifth over first fifth; seeds of one setting differ by less"),
    "filling": Threshold(
        value=0.5, unit="versions a step", source="a generator that is never updated falls behind by 1, one in a bounded queue by 0"
    ),
    "ess": Threshold(value=0.5, unit="fraction", source="half of the sample is lost (definitions, section 5)"),
}


@dataclass(frozen=True, kw_only=True)
class _Crossing:
    metric: Series
    fitted: Fit
    step: float  # at which the fit crosses 1/2, or the last step where it has
    early: float
    late: float

    @property
    def crossed(self) -> bool:
        """Whether the fit is there already."""
        return self.step <= float(self.metric.steps[-1])


def check(case: Case) -> Outcome:
    """The lag term grows from step to step and does not level off, and the version lag grows with it.

    The generator gets no new weights, or too seldom. Its samples are worth less at every step, the updates made from them carry the
    trainer further away, and so the lag feeds on itself.

    Send the weights, and send them when ESS(lag) comes near one half instead of on a fixed schedule. The step at which it would cross one
    half is an extrapolation of the growth so far, and no more than that.

    A queue that fills grows too, but only until it is full: then version lag and lag term stay level, and this rule passes. Weights said to
    have arrived and have not show a growing gap at version lag 0, which is the inference path and not lag.

    The trend is tested by Kendall's tau (Mann 1945) over the run and by the fitted rate over its second half; the threshold on ESS is that
    of the definitions.
    """
    size = case.series(*SIZES)
    finite = size.values[np.isfinite(size.values)]
    if not len(finite):
        return Skipped(why="this log does not separate the lag", record=("same_weights_logprob",))
    second = exponential(*_second_half(size))
    trend, filling = growth(size.values), _filling(case)
    grows = trend.z >= THRESHOLDS["z"].value and trend.factor >= THRESHOLDS["factor"].value
    if filling < THRESHOLDS["filling"].value:
        return Passed(says=f"the version lag is bounded: it changes by {filling:.2f} a step in the second half of the run")
    if not grows or second is None or second.rate < THRESHOLDS["half"].value * second.rate_error:
        return _held(case, size, filling) or Passed(says=_level(size, second, trend.z))
    crossing = _crossing(case, size)
    return Finding(
        severity=Severity.WARNING if idle_loss(case) is None else Severity.NOTE,
        certainty=Certainty.MEASURED if size.origin == "tokens" else Certainty.INDICATED,
        what=f"the lag grows by {second.rate:.1%} ± {second.rate_error:.1%} a step and does not level off{_words(crossing)}",
        why="Old samples make worse updates, which carry the trainer further from the generator, which makes the samples older still.",
        fixes=(fix(case, Remedy.SYNC_WEIGHTS), fix(case, Remedy.RESYNC)),
        look_at="the lag's KL and the version lag: both must come down at each weight update and stay within a band",
        evidence=(_grown(size, second, trend.factor), *_projected(crossing), *_versions(case, filling)),
        since=int(size.steps[0]),
        apart_from=_apart(filling),
    )


def _second_half(found: Series) -> tuple[np.ndarray, np.ndarray]:
    half = len(found) // 2
    return found.steps[half:], found.values[half:]


def _filling(case: Case) -> float:
    """Versions the samples fall further behind at each step of the second half; infinite where versions are not known."""
    found = case.series(*VERSIONS)
    steps, values = _second_half(found)
    use = np.isfinite(values)
    if use.sum() < 3:  # noqa: PLR2004 - a line needs more than its two ends
        return math.inf
    return float(np.polyfit(steps[use].astype(float), values[use], 1)[0])


def _held(case: Case, size: Series, filling: float) -> Finding | None:
    """A generator that falls behind while the lag term does not follow; None where versions are not known, or hardly any."""
    if not math.isfinite(filling) or len(size) < FEWEST:
        return None
    return Finding(
        severity=Severity.NOTE,
        certainty=Certainty.MEASURED if size.origin == "tokens" else Certainty.INDICATED,
        what=f"the samples fall behind by {filling:.2f} versions a step: it gets no new weights, though the lag does not grow by itself",
        why="Nothing bounds the version lag; what holds the lag term so far is the loss, for instance its clip.",
        fixes=(fix(case, Remedy.SYNC_WEIGHTS), fix(case, Remedy.RESYNC)),
        look_at="the version lag: it must come down at each weight update",
        evidence=_versions(case, filling),
    )


def _level(size: Series, second: Fit | None, z: float) -> str:
    rate = f", {second.rate:+.1%} a step in the second half" if second else ""
    return f"no lasting growth: the trend of {size.metric} is {z:.1f} standard errors{rate}"


def _crossing(case: Case, size: Series) -> _Crossing | None:
    """The first ESS(lag) that has not crossed yet, else the last that has; None where none is known."""
    half, found = -math.log(THRESHOLDS["ess"].value), None
    known = [own for own in map(case.series, ESS) if np.isfinite(own.values).any()]
    for own in known or _estimated(size):
        steps, values = _second_half(own)
        with np.errstate(divide="ignore", invalid="ignore"):
            fitted = exponential(steps, -np.log(values))
        if fitted is None or fitted.rate <= 0:
            continue
        step, early, late = fitted.reaches(half)
        found = _Crossing(metric=own, fitted=fitted, step=step, early=max(early, float(own.steps[-1])), late=late)
        if not found.crossed:
            return found
    return found


def _estimated(size: Series) -> list[Series]:
    """ESS of normal log weights from their KL, which is half their variance."""
    if not size.metric.startswith("kl."):
        return []
    return [replace(size, metric="ess.lag.token", values=np.exp(-2 * size.values), origin="estimated")]


def _words(crossing: _Crossing | None) -> str:
    if crossing is None:
        return ""
    name = crossing.metric.metric
    if crossing.crossed:
        return f"; {name} is under 1/2 since about step {crossing.step:.0f}"
    between = (
        f"between {crossing.early:.0f} and {crossing.late:.0f}" if math.isfinite(crossing.late) else f"not before {crossing.early:.0f}"
    )
    return f"; if it goes on like this, {name} falls under 1/2 at about step {crossing.step:.0f} ({between}; an extrapolation)"


def _grown(size: Series, second: Fit, factor: float) -> Evidence:
    return Evidence(
        metric=size.metric,
        says=f"grew {factor:.1f} times over the run, {second.rate:.1%} a step in its second half",
        value=factor,
        threshold=THRESHOLDS["factor"].value,
        unit="times over the run",
        source=THRESHOLDS["factor"].source,
        steps=(int(size.steps[0]), int(size.steps[-1])),
        origin=size.origin,
    )


def _projected(crossing: _Crossing | None) -> tuple[Evidence, ...]:
    if crossing is None:
        return ()
    own, last = crossing.metric, float(crossing.metric.steps[-1])
    ahead = np.linspace(last, max(crossing.step, last + 1), 20)[1:] if math.isfinite(crossing.step) else np.array([])
    fitted = [math.exp(-crossing.fitted.at(step)) for step in (*map(float, own.steps), *ahead)]
    curve = Curve(
        x=(*map(float, own.steps), *map(float, ahead)),
        y=(*map(float, own.values), *(math.nan for _ in ahead)),
        x_title="step",
        y_title=f"{own.metric}; expected: the fit, extrapolated",
        expected=tuple(fitted),
    )
    says = f"the fit crosses 1/2 at step {crossing.step:.0f}"
    return (
        Evidence(
            metric=own.metric,
            says=says,
            value=float(own.values[-1]),
            threshold=0.5,
            source=THRESHOLDS["ess"].source,
            origin="estimated",
            curve=curve,
        ),
    )


def _versions(case: Case, filling: float) -> tuple[Evidence, ...]:
    if not math.isfinite(filling):
        return ()
    own, limit = case.series(*VERSIONS), THRESHOLDS["filling"]
    says = f"the samples fall behind by {filling:.2f} versions a step"
    unit = "versions a step"
    return (
        Evidence(metric=own.metric, says=says, value=filling, threshold=limit.value, unit=unit, source=limit.source, origin=own.origin),
    )


def _apart(filling: float) -> tuple[str, ...]:
    if not math.isfinite(filling):
        return ("a queue that fills: the lag still grows in the second half of the run; without versions a long queue cannot be ruled out",)
    return (f"a queue that fills: the version lag still rises by {filling:.2f} a step in the second half of the run",)


RULE = Rule(
    id="lag_feeds_on_itself",
    layer=Layer.LAG,
    title="Lag that feeds on itself",
    check=check,
    requires=(("token:same_weights_logprob", *SIZES),),
    needs=("staleness.max_versions", "engine.weight_sync"),
    thresholds=THRESHOLDS,
    after=("data_shifted_logprobs", "data_length_mismatch"),
)
