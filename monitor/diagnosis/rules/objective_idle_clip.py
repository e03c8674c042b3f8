"""Whether the loss clips a ratio that is always 1, while the sampler and the trainer drift apart."""

from __future__ import annotations

import math

import numpy as np

from monitor.diagnosis._idle_loss import Idle, idle_loss
from monitor.diagnosis._lag_term import VERSIONS
from monitor.diagnosis.case import Case
from monitor.diagnosis.outcome import Certainty, Evidence, Finding, Layer, Outcome, Passed, Severity, Skipped
from monitor.diagnosis.remedies import Remedy, fix
from monitor.diagnosis.rule import Rule, Threshold
from monitor.diagnosis.trend import growth
from monitor.metrics.series import Series

GAPS = tuple(
    f"{quantity}.{ratio}.{end}"
    for ratio in ("discrepancy", "total", "lag")
    for quantity, end in (("log_ratio", "abs_mean"), ("kl", "k3"), ("kl", "k1"), ("log_ratio", "exp_abs_mean"))
)
THRESHOLDS = {
    "factor": Threshold(
        value=5.0, unit="times", source="last fifth over first fifth; the reported case grew 10,000 times (field report A58)"
    ),
    "z": Threshold(value=3.0, unit="standard errors", source="Kendall's tau of a series without trend (Mann 1945)"),
    "ess": Threshold(value=0.5, unit="fraction", source="half of the sample is lost to a lag that nothing clips (definitions, section 5)"),
    "versions": Threshold(
        value=2.5, unit="optimizer steps", source="one or two are what asynchronous trainers plan for (NeMo-RL, torchforge)"
    ),
}


def check(case: Case) -> Outcome:
    """The clip rate is 0 and the ratio is exactly 1 at every step, while engine and trainer, or old and new policy, drift apart.

    The ratio of the loss is taken against log-probabilities that the trainer has just computed, so it compares the policy with itself.
    Whatever the engine does, and however old the samples are, nothing in the loss sees it.

    Take the ratio against the policy that sampled the tokens, or weigh it with a truncated ratio of trainer to engine. Afterwards the ratio
    must leave 1, and the clip rate with it.

    With one update on each batch of a synchronous run the ratio is 1 by construction, which is correct and no fault while the gap
    between engine and trainer stays flat; this rule then passes. A clip that is rare but not absent is no matter of it.

    What a ratio of 1 hides is judged by its growth over the run, by ESS(lag) under one half, or by the version lag of the samples.
    """
    idle = idle_loss(case)
    if idle is None:
        if any(case.has(f"clip_rate.{kind}.{end}") for kind in ("update", "lag", "total") for end in ("outside", "effective", "sequence")):
            return Passed(says="the ratio of the loss leaves 1, or the clip acts, or the log does not say that both stand still")
        return Skipped(why="this log has no clip rate and no ratio of the loss", record=("clip_rate.update.outside", "ratio.update.mean"))
    gaps = [one for name in GAPS if _told(one := case.series(name), idle)]
    drifting = _lost(case) or max(filter(None, map(_drift, gaps)), key=lambda one: one.value, default=None) or _old(case)
    if drifting:
        return _finding(case, idle, drifting)
    if not gaps and not len(case.series(*VERSIONS)):
        record = ("log_ratio.discrepancy.abs_mean", "rollout_logprob", "current_logprob")
        return Skipped(why="the clip is idle, and this log has nothing that shows whether engine and trainer drift apart", record=record)
    return Passed(
        says=f"one update per batch: ratio 1 and clip rate 0 at all {len(idle.clip)} steps are correct, not a fault; {_flat(gaps)}"
    )


def _told(found: Series, idle: Idle) -> bool:
    """Whether a gap is there and not the idle ratio itself."""
    own = found.origin == "logged" and found.metric.split(".")[1] == idle.kind
    return not own and bool(np.nan_to_num(found.values).any())


def _drift(found: Series) -> Evidence | None:
    """A gap that grows."""
    values = np.abs(found.values) - (1.0 if found.metric.endswith("exp_abs_mean") else 0.0)
    trend = growth(values)
    if not (trend.factor >= THRESHOLDS["factor"].value and trend.z >= THRESHOLDS["z"].value):
        return None
    return Evidence(
        metric=found.metric,
        says=f"grows from {trend.early:.2g} to {trend.late:.2g}, {trend.factor:.3g} times",
        value=trend.factor,
        threshold=THRESHOLDS["factor"].value,
        unit="times over the run",
        source=THRESHOLDS["factor"].source,
        steps=(int(found.steps[0]), int(found.steps[-1])),
        origin=found.origin,
    )


def _lost(case: Case) -> Evidence | None:
    """A sample that the lag has used up, whether the lag grows or not."""
    for metric in ("ess.lag.token", "ess.lag.sequence"):
        found, limit = case.series(metric), THRESHOLDS["ess"]
        low = found.values < limit.value
        if low.any():
            says = f"falls to {np.nanmin(found.values):.2g}, under 1/2 at {low.sum()} steps"
            steps = (int(found.steps[low][0]), int(found.steps[low][-1]))
            return Evidence(
                metric=metric, says=says, value=float(np.nanmin(found.values)), threshold=limit.value, source=limit.source, steps=steps
            )
    return None


def _old(case: Case) -> Evidence | None:
    """Samples that are old, where nothing else shows how far the policy has moved since."""
    found, limit = case.series(*VERSIONS), THRESHOLDS["versions"]
    late = growth(found.values).late
    if not late >= limit.value:
        return None
    says = f"is {late:.1f} versions in the end"
    return Evidence(metric=found.metric, says=says, value=late, threshold=limit.value, source=limit.source, origin=found.origin)


def _flat(gaps: list[Series]) -> str:
    if not gaps:
        return "the samples are hardly older than the weights"
    factor = growth(np.abs(gaps[0].values)).factor
    return f"{gaps[0].metric} is flat" + (f" ({factor:.2g} times from the first to the last fifth)" if math.isfinite(factor) else "")


def _finding(case: Case, idle: Idle, drifting: Evidence) -> Finding:
    still = Evidence(
        metric=idle.clip.metric,
        says=f"0 at all {len(idle.clip)} steps, with {idle.ratio.metric} at {np.nanmedian(idle.ratio.values):g}",
        value=0.0,
        threshold=0.0,
        source="a clip that acts is above 0 at some step",
        steps=(int(idle.clip.steps[0]), int(idle.clip.steps[-1])),
        origin=idle.clip.origin,
    )
    measured = drifting.origin == "tokens"
    return Finding(
        severity=Severity.CRITICAL if drifting.metric == "ess.lag.token" else Severity.WARNING,
        certainty=Certainty.MEASURED if measured else Certainty.INDICATED,
        what=f"the clip never acts ({still.metric} 0 and ratio 1 at all {len(idle.clip)} steps) while {drifting.metric} {drifting.says}",
        why="The ratio compares the trainer with itself: neither old samples nor a broken engine can be seen by the loss.",
        fixes=(fix(case, Remedy.ANCHOR_RATIO), fix(case, Remedy.STALENESS_LIMIT)),
        look_at="the ratio of the loss must leave 1, and its clip rate must move with the version lag",
        evidence=(still, drifting),
        since=int(idle.clip.steps[0]),
        apart_from=(f"one update per batch in a synchronous run, where the gap is flat: here {drifting.metric} {drifting.says}",),
    )


RULE = Rule(
    id="objective_idle_clip",
    layer=Layer.OBJECTIVE,
    title="Clip that never acts",
    check=check,
    needs=("correction.kind", "trainer.minibatches_per_step"),
    thresholds=THRESHOLDS,
)
