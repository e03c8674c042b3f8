"""Samples that are older than anybody meant them to be, because of how the engine is scheduled and fed with weights."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from monitor.diagnosis._at_rest import why_at_rest
from monitor.diagnosis.case import Case
from monitor.diagnosis.outcome import Certainty, Curve, Evidence, Finding, Layer, Outcome, Passed, Severity, Skipped
from monitor.diagnosis.remedies import Remedy, fix
from monitor.diagnosis.rule import Rule, Threshold
from monitor.metrics.series import Series

BY_ESS = "when_ess_is_low"  # of engine.weight_sync: the trainer resynchronises when ESS(lag) falls under 1/2
THRESHOLDS = {
    "mean": Threshold(
        value=4.0, unit="optimizer steps", source="TRL's AsyncGRPO and SkyRL drop samples older than 4 by default; here the average is"
    ),
    "max": Threshold(value=8.0, unit="optimizer steps", source="verl and prime-rl drop samples older than 8 by default"),
    "reference": Threshold(
        value=2.0, unit="times the reference, and one step more", source="twice is the yardstick of parity (definitions, section 8)"
    ),
    "slack": Threshold(value=1.0, unit="optimizer steps", source="an update may end between the check of the limit and the training step"),
    "ess": Threshold(value=0.5, unit="fraction", source="definitions, section 5"),
    "versions": Threshold(value=1.5, unit="optimizer steps", source="one version of lag is what an asynchronous trainer plans for"),
}
METRICS = ("version_lag.mean", "version_lag.max", "version_lag_samples.mean", "version_lag_samples.max")


@dataclass(frozen=True, kw_only=True)
class Limit:
    """What the version lag is compared with."""

    value: float
    what: str  # "the limit that is set"
    source: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Seen:
    """How old the samples of a run are."""

    own: Series  # the metric of the log
    versions: Series  # the same in optimizer steps
    age: float  # median over the later half of the steps
    limit: Limit
    ess: Mapping[str, float]  # median ESS of the lag by level, where it is known

    @property
    def over(self) -> bool:
        """Whether they are older than the limit."""
        return self.age > self.limit.value

    @property
    def lost(self) -> bool:
        """Whether more than half of the tokens is lost to importance weights, at more than a version of lag."""
        return self.age > THRESHOLDS["versions"].value and self.ess.get("token", 1.0) < THRESHOLDS["ess"].value


def check(case: Case) -> Outcome:
    """The tokens were sampled by weights many optimizer steps older than those being updated, at every step once queues are full.

    At the weights that sampled them, engine and trainer agree. The engine runs ahead of the trainer: batches wait in a queue,
    scheduling overlaps with updates, or pushed weights take effect late. Each batch that waits and each delayed push adds a version. In
    the extreme the engine is never sent new weights, and the lag grows by one with every step.

    Switch asynchronous scheduling off, let the update pause the engine while it keeps its running requests, bound the queue and the age
    of samples, or resynchronise when ESS(lag) falls. Then look at the version lag: it should be back at one or two.

    A stale cache and weights that do not arrive leave the version lag small and the gap at equal weights large; here it is the other
    way round. Policy lag, in the layer after this one, says what the age does to the weights of the loss; this verdict says that the
    age itself is not what was meant.

    The limit is the one that is set for the run; where none is, twice the reference's lag and one more; where there is no reference,
    four versions on average or eight at most, at which frameworks drop samples by default. A run that resynchronises by its ESS has no
    limit on the age while that ESS is 1/2 or more. An ESS(lag) at token level under one half
    counts at any lag above one and a half versions.
    """
    own, versions = _lag(case)
    age = _settled(versions)
    if not math.isfinite(age):
        return Skipped(why="the log does not say how many versions old the samples are", record=("rollout_version", "trainer_version"))
    rest = why_at_rest(case)
    if rest:
        return Passed(says=f"the samples are {age:.1f} versions old, which does no harm while the weights do not move ({rest})")
    seen = Seen(own=own, versions=versions, age=age, limit=_limit(case, own), ess=_ess(case))
    if seen.over and _kept_by_the_ess(case):
        return Passed(
            says=f"the samples are {age:.1f} versions old: the run resynchronises by the ESS, and that is 1/2 or more at every step"
        )
    if seen.over or seen.lost:
        return _found(case, seen)
    says = f"the samples are {age:.1f} versions old ({_which(own)}), not above {seen.limit.what} of {seen.limit.value:.3g}"
    return Passed(says=says, evidence=_evidence(seen))


def _kept_by_the_ess(case: Case) -> bool:
    """Whether the run lets samples grow old until ESS(lag) falls under 1/2, and it never does."""
    setting, ess = case.setting("engine.weight_sync"), case.series("ess.lag.sequence").values
    return setting is not None and setting.value == BY_ESS and len(ess) > 0 and bool((ess >= THRESHOLDS["ess"].value).all())


def _lag(case: Case) -> tuple[Series, Series]:
    """The metric of the log, and its values in optimizer steps."""
    own = case.series(*METRICS)
    if not own.metric.startswith("version_lag_samples"):
        return own, own
    per_step = case.number("trainer.samples_per_step")
    values = own.values / per_step if per_step else np.full(len(own), math.nan)
    return own, Series(
        metric=own.metric, steps=own.steps, values=values, n=own.n, standard_error=own.standard_error, origin=own.origin, caveat=own.caveat
    )


def _settled(found: Series) -> float:
    """Median over the later half of the steps: at the start the queues are empty."""
    values = found.values[np.isfinite(found.values)]
    return float(np.median(values[len(values) // 2 :])) if len(values) else math.nan


def _which(own: Series) -> str:
    return "of the oldest token" if own.metric.endswith(".max") else "on average"


def _limit(case: Case, own: Series) -> Limit:
    told = case.number("staleness.max_versions")
    if told is not None:
        setting = case.setting("staleness.max_versions")
        return Limit(
            value=told + THRESHOLDS["slack"].value,
            what="the limit that is set, and one",
            source=f"{setting.key if setting else ''} = {told:g}; {THRESHOLDS['slack'].source}",
        )
    seeds = [_settled(one) for one in case.reference(own.metric)] if not own.metric.startswith("version_lag_samples") else []
    if seeds:
        return Limit(
            value=THRESHOLDS["reference"].value * max(seeds) + 1, what="twice the reference and one", source=THRESHOLDS["reference"].source
        )
    name = "max" if own.metric.endswith(".max") else "mean"
    return Limit(value=THRESHOLDS[name].value, what="a customary limit", source=THRESHOLDS[name].source)


def _ess(case: Case) -> dict[str, float]:
    """Median ESS of the lag by level, where it is known."""
    found = {level: case.series(f"ess.lag.{level}").values for level in ("token", "sequence")}
    return {level: float(np.nanmedian(values)) for level, values in found.items() if np.isfinite(values).any()}


def _evidence(seen: Seen) -> tuple[Evidence, ...]:
    own, versions, half = seen.own, seen.versions, THRESHOLDS["ess"]
    says = f"{seen.age:.1f} optimizer steps old {_which(own)}, once the queues are full"
    xs, ys = tuple(map(float, versions.steps)), tuple(map(float, versions.values))
    curve = Curve(x=xs, y=ys, x_title="step", y_title="version lag, optimizer steps", expected=(seen.limit.value,) * len(xs))
    limit, source = seen.limit.value, seen.limit.source
    age = Evidence(metric=own.metric, says=says, value=seen.age, threshold=limit, source=source, origin=own.origin, curve=curve)
    ess = [
        Evidence(metric=f"ess.lag.{level}", says=f"median {value:.2f}", value=value, threshold=half.value, source=half.source)
        for level, value in seen.ess.items()
    ]
    return (age, *ess)


def _found(case: Case, seen: Seen) -> Finding:
    frozen = _frozen(case, seen.versions)
    high = seen.versions.steps[seen.versions.values > seen.limit.value]
    deep = min(seen.ess.values(), default=1.0) < THRESHOLDS["ess"].value
    keep = (*_scheduling(case), Remedy.PAUSE_KEEP, Remedy.STALENESS_LIMIT, Remedy.RESYNC)
    return Finding(
        severity=Severity.CRITICAL if deep else Severity.WARNING,
        certainty=Certainty.MEASURED if seen.own.origin == "tokens" else Certainty.INDICATED,
        what=_what(seen, frozen=frozen, deep=deep),
        why="Batches that wait and pushes that take effect late add up; the trainer learns from a policy that it left many steps ago.",
        fixes=tuple(fix(case, remedy) for remedy in ((Remedy.SYNC_WEIGHTS, Remedy.CHECK_WEIGHTS) if frozen else keep)),
        look_at="version_lag.mean and version_lag.max: one or two once the engine keeps step, and ESS(lag) near 1",
        evidence=_evidence(seen),
        since=int(high[0]) if len(high) else None,
        apart_from=_apart(case),
    )


def _what(seen: Seen, *, frozen: bool, deep: bool) -> str:
    words = "the engine was never given new weights: " if frozen else ""
    over = f", above {seen.limit.what} of {seen.limit.value:.3g}" if seen.over else ""
    level = min(seen.ess, key=lambda name: seen.ess[name], default="")
    lost = f"; ESS(lag) is {seen.ess[level]:.2f} at the {level} level" if deep else ""
    return f"{words}the samples are {seen.age:.1f} versions old ({_which(seen.own)}){over}{lost}"


def _scheduling(case: Case) -> tuple[Remedy, ...]:
    return () if case.truth("engine.async_scheduling") is False else (Remedy.ASYNC_SCHEDULING_OFF,)


def _frozen(case: Case, versions: Series) -> bool:
    """Whether one version sampled everything while the trainer went on."""
    if len(versions) < 3:  # noqa: PLR2004 - a few steps rise in any run
        return False
    if case.portrait is not None and "rollout_version" in case.portrait.columns:
        return len(case.portrait.whole.version) == 1
    return bool((np.diff(versions.values) > 0).all())


def _apart(case: Case) -> tuple[str, ...]:
    gap = case.series("log_ratio.discrepancy.abs_mean").values
    if not np.isfinite(gap).any():
        return ("not told apart from the engine's own error: this log does not hold the gap at equal weights",)
    return (
        (
            f"faults of the engine's state or numerics: at the weights that sampled the tokens the gap is {np.nanmedian(gap):.3g} "
            "nats, whatever their age"
        ),
    )


RULE = Rule(
    id="inference_path_async_lag",
    layer=Layer.INFERENCE_PATH,
    title="Samples too old",
    check=check,
    requires=(METRICS,),
    needs=("staleness.max_versions", "engine.async_scheduling", "trainer.samples_per_step"),
    thresholds=THRESHOLDS,
)
