"""Weights that are wrong after the first push."""

from __future__ import annotations

from monitor.diagnosis._by_update import DAMAGE, DAMAGE_FACTOR
from monitor.diagnosis._earlier_rules import DATA
from monitor.diagnosis._engine_state import REQUIRES, Seen, State, look
from monitor.diagnosis._engine_state_evidence import evidence
from monitor.diagnosis._logged_level import JUMP
from monitor.diagnosis.case import Case
from monitor.diagnosis.outcome import Finding, Layer, Outcome, Passed, Severity, Skipped
from monitor.diagnosis.remedies import Remedy, fix
from monitor.diagnosis.rule import Rule, Threshold

THRESHOLDS = {
    "factor": Threshold(
        value=DAMAGE_FACTOR,
        unit="times the first level",
        source="from tokens; laboratory: 40 times the floor for 8 of 192 rows in another order",
    ),
    "jump": Threshold(
        value=JUMP, unit="times the level before", source="from a step log; field report A28: 0.06 to 3.83 at the first sync"
    ),
    "size": Threshold(value=DAMAGE, unit="nats", source="above what dense models show between two engines (SkyRL#1408: 0.07 to 0.09)"),
}


def check(case: Case) -> Outcome:
    """All is well until the first update of the weights; then the gap jumps to many times its level, at once and for good.

    Text turns to rubbish, or nearly so, and the reward falls. The second load of the weights is not like the first: rows are permuted
    by an index that was made once, a matrix is transposed, experts are mixed up, scales of a quantised format belong to older values.
    The load reports success.

    Load the same weights twice into an idle engine and compare what it says to a fixed prompt; then compare each parameter after a
    push. Update the engine, or take the way of loading that it uses at the start.

    Weights that do not arrive make the gap grow from the floor with every update; here the first update has all of it. A stale prefix
    cache grows slowly and only on prompts that recur. Numerics are there from the first step on.

    From tokens: three times the first level and more than 0.1 nats at the first update or the second, and no growth by more than a half
    after it. In a step log: ten times, as in field report A28 (0.06 to 3.83); with fewer than three values after the jump only above
    one nat, since a base model in place of the trained one jumps as well (A27).
    """
    seen = look(case)
    if isinstance(seen, Skipped):
        return seen
    if seen.state is not State.DAMAGED:
        says = f"the gap does not jump at an update of the weights: {seen.before:.3g} nats at first, {seen.after:.3g} later"
        return Passed(says=says, evidence=evidence(seen, THRESHOLDS["factor"]))
    return Finding(
        severity=Severity.CRITICAL,
        certainty=seen.certainty,
        what=(
            f"the weights are damaged when they are pushed: the gap jumps from {seen.before:.3g} to {seen.after:.3g} "
            f"nats at step {seen.since} and does not grow from there"
        ),
        why="The engine samples with weights that the trainer never had; what is learned from such text pulls the trainer after it.",
        fixes=tuple(fix(case, remedy) for remedy in (Remedy.CHECK_WEIGHTS, Remedy.SYNC_WEIGHTS)),
        look_at="the mean |gap| under the second version of the weights: it should be that under the first",
        evidence=evidence(seen, THRESHOLDS["factor"] if seen.levels else THRESHOLDS["jump"]),
        since=seen.since,
        apart_from=_apart(seen),
    )


def _apart(seen: Seen) -> tuple[str, ...]:
    size = f"{seen.after / seen.before:.0f} times that" if seen.before else f"{seen.after:.3g}"
    told = [f"weights that do not arrive, and a stale cache: they grow from {seen.before:.3g} nats with the updates, here one makes {size}"]
    if seen.levels is not None:
        told.append(f"numerics: they are there from the start, here the first weights are at {seen.before:.3g} nats")
    return tuple(told)


RULE = Rule(
    id="inference_path_weights_damaged",
    layer=Layer.INFERENCE_PATH,
    title="Weights arrive damaged",
    check=check,
    requires=REQUIRES,
    thresholds=THRESHOLDS,
    after=DATA,
)
