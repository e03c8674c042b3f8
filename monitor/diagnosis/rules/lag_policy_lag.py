"""Whether the trainer has moved too far on from the weights that sampled the tokens."""

from __future__ import annotations

import math

import numpy as np

from monitor.diagnosis import _lag_term, _profiles
from monitor.diagnosis._idle_loss import idle_loss
from monitor.diagnosis._lag_estimate import estimate, moved_with_versions
from monitor.diagnosis._lag_term import below, mean_of
from monitor.diagnosis.case import Case
from monitor.diagnosis.outcome import Certainty, Evidence, Finding, Layer, Outcome, Passed, Severity, Skipped, few
from monitor.diagnosis.remedies import Remedy, fix
from monitor.diagnosis.rule import Rule, Threshold

_ESTIMATE = "ESS of normal log weights is exp(-variance); the lag's variance is what version lags above 0 add (definitions, section 5)"
THRESHOLDS = {
    "ess": Threshold(value=0.5, unit="fraction", source="half of the sample is lost (definitions, section 5; Kong 1992)"),
    "clip": Threshold(value=0.05, unit="share of tokens", source="five times what runs that lag by one version show in the laboratory"),
    "still": Threshold(value=0.02, unit="share of tokens", source="under it only the length of the responses lowers the sequence level"),
    "share": Threshold(value=0.5, unit="share of the mismatch", source="most of it"),
    "rms": Threshold(value=0.1, unit="nats", source=f"half of a clip range of 0.2. {_ESTIMATE}"),
    "rise": Threshold(
        value=3.0, unit="times the floor", source="well beyond what one version of lag adds to the noise of bfloat16 in the laboratory"
    ),
    "versions": Threshold(
        value=3.0, unit="optimizer steps", source="one or two are what asynchronous trainers plan for (NeMo-RL, torchforge)"
    ),
    "floor": Threshold(value=0.05, unit="nats", source="mean |log ratio| of bfloat16 in public reports (field reports A27, A53)"),
}


def check(case: Case) -> Outcome:
    """The log ratio of the current policy to the weights that sampled the tokens is large, while both sides agree at equal weights.

    Batches wait before the trainer, pushed weights take effect late, or one batch is used for many updates. The tokens then come from a
    policy that the trainer has left: the effective sample size of the lag falls under one half, and much of the batch is clipped.

    Bring the samples nearer to the weights: a smaller queue, a limit on staleness, earlier weight updates, fewer updates on one batch, or a
    smaller learning rate. What to look for afterwards is the version lag and ESS(lag).

    A stale prefix cache or wrong weights leave a gap to the very weights that are said to have sampled the tokens, at any version lag; lag
    leaves that gap at its floor and grows with the version difference. Numerics do not depend on versions at all. A policy that did not
    move cannot lag, however old the samples are.

    The threshold on ESS is one half, at token level and at sequence level. The share of tokens outside the clip range is compared with
    runs of the laboratory that lag by one version; both numbers are given with the finding.
    """
    still = _lag_term.unmoved(case)
    if still:
        return Passed(says=f"policy did not move, so this is not lag: {still}")
    if _lag_term.has_split(case):
        return _from_split(case)
    return _from_versions(case) or _from_steps(case) or _unknown(case)


def _from_split(case: Case) -> Outcome:
    token, sequence = (_lag_term.ess_of_lag(case, level) for level in ("token", "sequence"))
    half = THRESHOLDS["ess"].value
    steps = {"token": below(token, half), "sequence": below(sequence, half)}
    clip, share = mean_of(case.series(*_lag_term.CLIPS)), mean_of(case.series("split.lag.share"))
    clipped = clip > THRESHOLDS["clip"].value and not share <= THRESHOLDS["share"].value
    evidence = _evidence(case, steps)
    if not (steps["token"] or steps["sequence"] or clipped):
        return Passed(says=_small(case, clip), evidence=evidence)
    long_only = not steps["token"] and not clipped and clip < THRESHOLDS["still"].value
    severity = Severity.CRITICAL if steps["token"] else Severity.WARNING
    held = idle_loss(case) is None
    if not held or long_only or _as_the_reference(case):
        severity = Severity.NOTE
    return _finding(case, severity, _what(case, steps, clip, share), evidence, Certainty.MEASURED if case.portrait else Certainty.INDICATED)


def _what(case: Case, steps: dict[str, tuple[int, ...]], clip: float, share: float) -> str:
    parts = [f"{_level(case, level)} under 1/2 at {len(found)} of {_count(case, level)} steps" for level, found in steps.items() if found]
    if math.isfinite(clip):
        parts.append(f"{clip:.1%} of tokens are outside the clip range by lag alone")
    if math.isfinite(share):
        parts.append(f"lag carries {share:.0%} of the mismatch")
    versions = mean_of(case.series(*_lag_term.VERSIONS))
    behind = f"the samples are {versions:.1f} versions behind; " if math.isfinite(versions) else "the samples are behind; "
    return behind + ", ".join(parts)


def _level(case: Case, level: str) -> str:
    return f"ESS(lag, {level}) is {np.nanmin(_lag_term.ess_of_lag(case, level).values):.2g} at worst and"


def _count(case: Case, level: str) -> int:
    return int(np.isfinite(_lag_term.ess_of_lag(case, level).values).sum())


def _small(case: Case, clip: float) -> str:
    parts = [
        f"ESS(lag, {level}) never falls under 1/2 (lowest {np.nanmin(found.values):.2g})"
        for level in ("token", "sequence")
        if len(found := _lag_term.ess_of_lag(case, level)) and np.isfinite(found.values).any()
    ]
    versions = mean_of(case.series(*_lag_term.VERSIONS))
    parts += [f"version lag {versions:.1f}"] if math.isfinite(versions) else []
    parts += [f"{clip:.1%} of tokens outside the clip range by lag"] if math.isfinite(clip) else []
    return f"lag is small: {', '.join(parts)}" if parts else "lag is small"


def _evidence(case: Case, steps: dict[str, tuple[int, ...]]) -> tuple[Evidence, ...]:
    found = [_ess(case, level, steps[level]) for level in steps if _count(case, level)]
    limits = {"clip_rate.lag.outside": "clip", "split.lag.share": "share", "log_ratio.lag.abs_mean": "", "version_lag.mean": ""}
    for metric, name in limits.items():
        own = case.series(metric)
        value = mean_of(own)
        if math.isfinite(value):
            limit = THRESHOLDS.get(name)
            found.append(
                Evidence(
                    metric=metric,
                    says=f"mean over the run: {value:.3g}",
                    value=value,
                    threshold=limit.value if limit else None,
                    source=limit.source if limit else "",
                    origin=own.origin,
                )
            )
    return (*found, *_by_version(case))


def _ess(case: Case, level: str, steps: tuple[int, ...]) -> Evidence:
    own = _lag_term.ess_of_lag(case, level)
    worst = float(np.nanmin(own.values))
    says = f"lowest value {worst:.3g}, under 1/2 at {len(steps)} steps"
    limit = THRESHOLDS["ess"]
    return Evidence(
        metric=own.metric, says=says, value=worst, threshold=limit.value, source=limit.source, steps=few(steps), origin=own.origin
    )


def _by_version(case: Case) -> tuple[Evidence, ...]:
    curve = _lag_term.version_curve(case)
    if curve is None:
        return ()
    says = (
        f"mean |log ratio| to the current policy: {curve.y[0]:.3g} at version lag {curve.x[0]:.0f}, {curve.y[-1]:.3g} at {curve.x[-1]:.0f}"
    )
    if curve.expected:
        says += f"; to the weights that sampled the tokens it is {curve.expected[0]:.3g} and {curve.expected[-1]:.3g}"
    return (Evidence(metric="portrait.total_lag", says=says, value=curve.y[-1], curve=curve),)


def _as_the_reference(case: Case) -> bool:
    """Whether the reference's seeds lose as much of their sample at sequence level, and no token level is lost."""
    own = _lag_term.ess_of_lag(case, "sequence").values
    seeds = [float(np.nanmedian(one.values)) for one in case.reference("ess.lag.sequence")]
    lost = bool(below(_lag_term.ess_of_lag(case, "token"), THRESHOLDS["ess"].value))
    return bool(seeds) and not lost and bool(np.isfinite(own).any()) and float(np.nanmedian(own)) >= min(seeds)


def _from_versions(case: Case) -> Outcome | None:
    """Tokens with versions but no split: the current policy against the engine at version lag 0, and above it."""
    found = estimate(case)
    if found is None:
        return None
    evidence = (
        Evidence(
            metric="portrait.total_lag",
            says=f"root mean square log ratio {found.floor:.3g} at version lag 0 and {found.rest:.3g} above it: {found.added:.3g} by lag",
            value=found.added,
            threshold=THRESHOLDS["rms"].value,
            source=THRESHOLDS["rms"].source,
            origin="estimated",
            curve=_lag_term.version_curve(case),
        ),
        Evidence(
            metric="ess.lag.sequence",
            says=f"estimated at {found.ess_sequence:.3g} for responses of {found.length:.0f} tokens",
            value=found.ess_sequence,
            threshold=THRESHOLDS["ess"].value,
            source=THRESHOLDS["rms"].source,
            origin="estimated",
        ),
    )
    low = found.added < THRESHOLDS["rms"].value or found.rest < THRESHOLDS["rise"].value ** 0.5 * found.floor
    if low or found.ess_sequence >= THRESHOLDS["ess"].value:
        return Passed(says=f"lag is small: version lags above 0 add {found.added:.3g} nats to the log ratio", evidence=evidence)
    what = (
        f"tokens of older versions are {found.rest / found.floor:.1f} times as far from the current policy as fresh ones, "
        f"ESS(lag, sequence) is estimated at {found.ess_sequence:.2g}"
    )
    return _finding(case, Severity.WARNING, what, evidence, Certainty.INDICATED)


def _from_steps(case: Case) -> Outcome | None:
    """A step log with the total alone: how it moves with the version lag of the steps."""
    versions, total = case.series(*_lag_term.VERSIONS), case.series("log_ratio.total.abs_mean", "kl.total.k3")
    if len(versions) and not np.nan_to_num(versions.values).any():
        return Passed(says=f"no lag: the version lag is 0 at all {len(versions)} steps")
    found = moved_with_versions(versions, total)
    if found is None or mean_of(versions) < THRESHOLDS["versions"].value:
        return None
    clip = mean_of(case.series("clip_rate.total.outside", "clip_rate.total.effective", "clip_rate.total.sequence"))
    if found.floor > THRESHOLDS["floor"].value or found.factor < THRESHOLDS["rise"].value or clip < THRESHOLDS["clip"].value:
        return None
    says = f"{total.metric} is {found.floor:.3g} at steps of version lag 0, {found.rest:.3g} at others, rank correlation {found.rank:.2f}"
    evidence = (
        Evidence(
            metric=total.metric,
            says=says,
            value=found.rest,
            threshold=THRESHOLDS["rise"].value * found.floor,
            source=THRESHOLDS["rise"].source,
            origin=total.origin,
        ),
        Evidence(
            metric=versions.metric,
            says=f"{mean_of(versions):.1f} on average",
            value=mean_of(versions),
            threshold=THRESHOLDS["versions"].value,
            source=THRESHOLDS["versions"].source,
            origin=versions.origin,
        ),
    )
    what = (
        f"the samples are {mean_of(versions):.1f} versions behind, the mismatch grows with it from {found.floor:.2g} to {found.rest:.2g} "
        "(total: this log does not separate engine and lag)"
    )
    return _finding(case, Severity.WARNING, what, evidence, Certainty.INDICATED)


def _unknown(case: Case) -> Skipped:
    versions = () if math.isfinite(mean_of(case.series(*_lag_term.VERSIONS))) else ("rollout_version", "trainer_version")
    return Skipped(
        why="cannot be told: this log does not separate the lag from the engine's discrepancy", record=("same_weights_logprob", *versions)
    )


def _finding(case: Case, severity: Severity, what: str, evidence: tuple[Evidence, ...], certainty: Certainty) -> Finding:
    steps = sorted(step for one in evidence if one.metric.startswith("ess.lag") for step in one.steps)
    held = idle_loss(case) is None
    return Finding(
        severity=severity,
        certainty=certainty,
        what=what
        if held
        else f"{what}; nothing in the loss sees it, because its ratio is taken against the trainer's own log-probabilities",
        why="The tokens were sampled by a policy that the trainer has left; importance weights rest on few of them, clipping drops others.",
        fixes=tuple(fix(case, remedy) for remedy in _remedies(case, held=held)),
        look_at="version lag, ESS(lag) at token and sequence level, and the share of tokens outside the clip range",
        evidence=evidence,
        since=steps[0] if steps else None,
        until=steps[-1] if steps else None,
        apart_from=_apart(case),
    )


def _remedies(case: Case, *, held: bool) -> tuple[Remedy, ...]:
    newest = case.series("version_lag.max").values
    frozen = len(newest) > 3 and bool(np.all(newest[1:] > newest[:-1]))  # noqa: PLR2004 - a few steps rise in any run
    first = (Remedy.SYNC_WEIGHTS,) if frozen else (Remedy.STALENESS_LIMIT, Remedy.RESYNC)
    scheduling = (Remedy.ASYNC_SCHEDULING_OFF,) if case.truth("engine.async_scheduling") else ()
    return (*first, *scheduling, *(() if held else (Remedy.ANCHOR_RATIO,)))


def _apart(case: Case) -> tuple[str, ...]:
    """The neighbours that a number of this log rules out."""
    gap = mean_of(case.series("log_ratio.discrepancy.abs_mean"))
    told = (
        [] if not math.isfinite(gap) else [f"engine faults: at the weights that sampled the tokens the two sides are {gap:.3g} nats apart"]
    )
    if case.portrait and case.portrait.gap.is_discrepancy:
        by_lag = _profiles.abs_mean(case.portrait.whole.lag)
        shown = by_lag[np.isfinite(by_lag) & (case.portrait.whole.lag[:, _profiles.N] >= _lag_term.FEWEST)]
        if len(shown) > 1:
            told.append(
                f"stale caches and wrong weights: that gap is {shown[0]:.3g} at the smallest version lag and {shown[-1]:.3g} at the largest"
            )
    return tuple(told)


RULE = Rule(
    id="lag_policy_lag",
    layer=Layer.LAG,
    title="Policy lag",
    check=check,
    needs=("staleness.max_versions", "engine.async_scheduling", "trainer.learning_rate"),
    thresholds=THRESHOLDS,
    after=("data_shifted_logprobs", "data_length_mismatch"),
    keystone=True,
)
