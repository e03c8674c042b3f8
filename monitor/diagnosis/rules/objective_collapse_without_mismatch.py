"""Whether a run collapses though engine and trainer agree: the one case in which the objective is to blame."""

from __future__ import annotations

import math

import numpy as np

from monitor.diagnosis._collapse import FEWEST, Fall, fall
from monitor.diagnosis.case import Case
from monitor.diagnosis.outcome import Certainty, Curve, Evidence, Finding, Layer, Outcome, Passed, Severity, Skipped
from monitor.diagnosis.remedies import Remedy, fix
from monitor.diagnosis.rule import Rule, Threshold
from monitor.metrics.series import Series

THRESHOLDS = {
    "share": Threshold(value=0.5, unit="share of the plateau", source="half of the reward, or of what was won, is lost"),
    "sigmas": Threshold(value=5.0, unit="standard errors", source="over the noise from step to step, so that no single batch decides"),
    "entropy": Threshold(value=0.05, unit="share of its first level", source="healthy runs of the laboratory keep a tenth and more of it"),
    "gap": Threshold(value=0.07, unit="nats", source="gate on mean |log ratio| of dense models (SkyRL#1408); bfloat16 lies under it"),
}


def check(case: Case) -> Outcome:
    """The reward falls off its plateau, or the entropy falls to nothing, while engine and trainer agree and the lag is small.

    The policy is driven there by what it is trained for: too large a learning rate, a clip range that lets everything through, no entropy
    left to explore with, or a reward that pays for the wrong thing.

    Leave the engine alone and look at the objective: learning rate, clip range, entropy and KL terms, the gradient norm before the fall,
    and samples with the highest reward.

    Every earlier question must have been answered, and answered with no: this is the only verdict reached by exclusion. A collapse with
    a mismatch has its cause in the layer where the mismatch is. A reward that only stops rising, or a noisy one, is no collapse.

    The plateau is the highest median of an eighth of the run; the late level must lie under half of it and five standard errors away
    (field reports A66 and A68 show such collapses; neither gives a number).
    """
    reward, entropy = case.series("reward.mean"), case.series("entropy.mean")
    fallen, dried = fall(reward), _dried(entropy)
    if fallen is None and np.isfinite(entropy.values).sum() < FEWEST:
        return Skipped(why="the log has neither reward nor entropy over enough steps", record=("reward.mean", "entropy.mean"))
    gap = _mean(case.series("log_ratio.discrepancy.abs_mean", "log_ratio.total.abs_mean"))
    collapsed = fallen is not None and fallen.share >= THRESHOLDS["share"].value and fallen.sigmas >= THRESHOLDS["sigmas"].value
    if not collapsed and not (dried and not _rising(fallen)):
        return Passed(says=_steady(fallen, entropy))
    if gap > THRESHOLDS["gap"].value:
        return Passed(says=f"it collapses, but not without mismatch: the two sides are {gap:.3g} nats apart")
    evidence = (*((_reward(reward, fallen),) if collapsed and fallen else ()), *((dried,) if dried else ()), *_agreement(case))
    parts = [f"the reward falls from {fallen.plateau:.3g} to {fallen.late:.3g} from step {fallen.since} on"] if collapsed and fallen else []
    parts += [f"the entropy falls to {dried.value:.2g} of its first level"] if dried else []
    return Finding(
        severity=Severity.CRITICAL if collapsed else Severity.WARNING,
        certainty=Certainty.MEASURED if (reward if collapsed else entropy).origin == "tokens" else Certainty.INDICATED,
        what=f"{' and '.join(parts)}, and engine agreement is fine: look at the objective",
        why="Engine, numerics and lag are cleared in this log; what is left is what the policy is trained for, and how fast.",
        fixes=(fix(case, Remedy.OBJECTIVE),),
        look_at="reward, entropy and gradient norm around the step of the fall, and samples with the highest reward",
        evidence=evidence,
        since=fallen.since if collapsed and fallen else None,
        apart_from=tuple(f"a mismatch of the two sides: {one.metric} {one.says}" for one in _agreement(case)),
    )


def _dried(entropy: Series) -> Evidence | None:
    """An entropy that is gone; None where it is not, or not known."""
    finite = entropy.values[np.isfinite(entropy.values)]
    if len(finite) < FEWEST:
        return None
    part = max(1, len(finite) // 8)
    early, late = float(np.median(finite[:part])), float(np.median(finite[-part:]))
    limit = THRESHOLDS["entropy"]
    if not (early > 0 and late / early < limit.value):
        return None
    says = f"falls from {early:.3g} to {late:.3g} nats"
    return Evidence(
        metric=entropy.metric,
        says=says,
        value=late / early,
        threshold=limit.value,
        unit="of the start",
        source=limit.source,
        origin=entropy.origin,
    )


def _rising(fallen: Fall | None) -> bool:
    """Whether the reward has won something and kept it: then little entropy is a policy that has learnt."""
    return (
        fallen is not None
        and fallen.late - fallen.start > 3 * fallen.noise / math.sqrt(fallen.window)
        and fallen.share < THRESHOLDS["share"].value
    )


def _steady(fallen: Fall | None, entropy: Series) -> str:
    if fallen is None:
        return f"the entropy does not fall to nothing (last value {entropy.values[-1]:.3g} nats)"
    under = f"{fallen.sigmas:.1f} standard errors under its highest stretch ({fallen.plateau:.3g})"
    return f"no collapse: the reward ends at {fallen.late:.3g}, {under}"


def _reward(reward: Series, fallen: Fall) -> Evidence:
    return Evidence(
        metric=reward.metric,
        says=f"plateau {fallen.plateau:.3g}, last {fallen.window} steps {fallen.late:.3g}: {fallen.share:.0%} is lost",
        value=fallen.share,
        threshold=THRESHOLDS["share"].value,
        source=THRESHOLDS["share"].source,
        steps=(fallen.since, int(reward.steps[-1])),
        origin=reward.origin,
        curve=Curve(x=tuple(map(float, reward.steps)), y=tuple(map(float, reward.values)), x_title="step", y_title="reward"),
    )


def _agreement(case: Case) -> tuple[Evidence, ...]:
    """The numbers that clear the earlier layers."""
    found = []
    for metric, says in (
        ("ratio.discrepancy.mean", "is {:.4g} on average"),
        ("log_ratio.discrepancy.abs_mean", "is {:.2g} nats on average"),
        ("ess.lag.sequence", "is {:.3g} on average"),
        ("ratio.total.mean", "is {:.4g} on average"),
    ):
        own = case.series(metric)
        if math.isfinite(value := _mean(own)):
            found.append(Evidence(metric=metric, says=says.format(value), value=value, origin=own.origin))
    return tuple(found)


def _mean(found: Series) -> float:
    finite = found.values[np.isfinite(found.values)]
    return float(finite.mean()) if len(finite) else math.nan


RULE = Rule(
    id="objective_collapse_without_mismatch",
    layer=Layer.OBJECTIVE,
    title="Collapse without mismatch",
    check=check,
    requires=(("reward.mean", "entropy.mean"),),
    needs=("trainer.learning_rate", "objective.eps_low", "objective.eps_high"),
    thresholds=THRESHOLDS,
    keystone=True,
    last_resort=True,
)
