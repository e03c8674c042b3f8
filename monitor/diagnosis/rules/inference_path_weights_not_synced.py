"""An engine that claims versions of the weights that it does not run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from monitor.diagnosis._earlier_rules import DATA
from monitor.diagnosis._engine_state import REQUIRES, UNEVEN, Seen, State, look
from monitor.diagnosis._engine_state_evidence import evidence
from monitor.diagnosis._logged_level import JUMP
from monitor.diagnosis.case import Case
from monitor.diagnosis.outcome import Evidence, Finding, Layer, Outcome, Passed, Severity, Skipped
from monitor.diagnosis.remedies import Remedy, fix
from monitor.diagnosis.rule import Rule, Threshold
from monitor.diagnosis.trend import growth

THRESHOLDS = {
    "factor": Threshold(
        value=2.0,
        unit="times the first level",
        source="laboratory: a head alone that is not sent reaches four to six times its floor in 20 updates",
    ),
    "jump": Threshold(value=JUMP, unit="times the level before", source="field report A27: 0.018 to 0.201 at the first real update"),
    "flat": Threshold(value=3.0, unit="standard errors of Kendall's tau", source="no trend in what the engine samples"),
}


def check(case: Case) -> Outcome:
    """The gap leaves its floor at the first update and moves on with every further one, for all prompts and tokens alike.

    If nothing arrives at all, what the engine samples does not change: its reward, its length and its mean log-probability are flat
    while the trainer moves away. The push of the weights reports success and the version number goes up, but the engine goes on with
    old weights: after a sleep that dropped them it wakes on the base model, an adapter is bound to no module, a part of the names does
    not match, or a copy in another precision that was made at the start is served instead of the head.

    Compare a checksum of each parameter on both sides after a push, the head and whatever the engine derives from weights included.
    Then look at the gap under the next version.

    A stale prefix cache hits only prompts that come again, so prompts of one step differ, and it usually stays at the floor until
    prompts recur. Honest lag shows as version lag, and its gap to the weights that sampled is at the floor. Damaged weights jump at
    once to their full error and do not grow.

    Growth is asked for at twice the first level and three standard errors, over a tenth of the tokens. In a step log alone it is a jump
    to ten times the level before, as in field report A27; there the levels of ten and more that stay are taken for damage.
    """
    seen = look(case)
    if isinstance(seen, Skipped):
        return seen
    if seen.state is State.UNSYNCED:
        return _found(case, seen)
    says = f"the gap does not move away with the updates: {seen.before:.3g} nats at first, {seen.after:.3g} later"
    return Passed(
        says=says if seen.state is State.NONE else f"the gap changes, but not as it does without new weights: {seen.state}",
        evidence=evidence(seen, THRESHOLDS["factor"]),
    )


def _found(case: Case, seen: Seen) -> Finding:
    since = f" from step {seen.since}" if seen.since is not None else ""
    flat = _flat(case)
    how = "nothing that was pushed seems to reach it" if len(flat) > 1 else "part of the weights seems to stay behind"
    return Finding(
        severity=Severity.CRITICAL,
        certainty=seen.certainty,
        what=(
            f"the engine does not run the weights it claims{since}: the gap at equal versions goes from {seen.before:.3g} "
            f"to {seen.after:.3g} nats, and {how}"
        ),
        why="Tokens are sampled by weights that are older than their version number says, by more with every update.",
        fixes=tuple(fix(case, remedy) for remedy in (Remedy.SYNC_WEIGHTS, Remedy.CHECK_WEIGHTS)),
        look_at="the mean |gap| by version of the weights: after a push that arrives it is back at its first level",
        evidence=(*evidence(seen, THRESHOLDS["factor"]), *flat),
        since=seen.since,
        apart_from=_apart(case, seen),
    )


def _flat(case: Case) -> tuple[Evidence, ...]:
    """What the engine samples, where it does not change over the run."""
    found = []
    for metric, words in (("logprob.rollout.mean", "mean log-probability of the engine"), ("reward.mean", "mean reward")):
        own = case.series(metric)
        z = growth(own.values).z
        if np.isfinite(z) and abs(z) < THRESHOLDS["flat"].value:
            limit = THRESHOLDS["flat"]
            says = f"{words} has no trend over the run (Kendall's tau at {z:+.1f} standard errors)"
            evidence = Evidence(metric=metric, says=says, value=float(z), threshold=limit.value, source=limit.source, origin=own.origin)
            found.append(replace(evidence, unit="standard errors"))
    return tuple(found)


def _apart(case: Case, seen: Seen) -> tuple[str, ...]:
    told = []
    if seen.why:
        told.append(f"a stale prefix cache: {seen.why}")
    elif seen.uneven < UNEVEN:
        told.append(
            f"a stale prefix cache: it hits some prompts and not others, here the prompts of a step differ by {seen.uneven:.2f} only"
        )
    if seen.levels is not None:
        told.append("policy lag: the gap is taken at the version that is said to have sampled the tokens")
        told.append(
            f"damaged weights: the gap is {seen.levels.level[1]:.3g} nats under the first update and {seen.levels.late:.3g} "
            "on average where it has grown"
        )
    if not _flat(case):
        told.append(
            "what the engine samples does change, so this is a part of the weights, or a state that is derived from them once and kept"
        )
    return tuple(told)


RULE = Rule(
    id="inference_path_weights_not_synced",
    layer=Layer.INFERENCE_PATH,
    title="Weights do not arrive",
    check=check,
    requires=REQUIRES,
    needs=("engine.enable_prefix_caching", "trainer.learning_rate"),
    thresholds=THRESHOLDS,
    after=DATA,
)
