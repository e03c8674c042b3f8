"""Keys and values of prompts that outlive the weights they were computed under."""

from __future__ import annotations

import math

from monitor.diagnosis import _profiles
from monitor.diagnosis._by_update import Shape
from monitor.diagnosis._earlier_rules import DATA
from monitor.diagnosis._engine_state import REQUIRES, UNEVEN, Seen, State, look
from monitor.diagnosis._engine_state_evidence import evidence
from monitor.diagnosis.case import Case
from monitor.diagnosis.outcome import Finding, Layer, Outcome, Passed, Severity, Skipped
from monitor.diagnosis.remedies import Remedy, fix
from monitor.diagnosis.rule import Rule, Threshold
from monitor.diagnosis.trend import growth

THRESHOLDS = {
    "factor": Threshold(
        value=2.0, unit="times the first level", source="field report A11: .011 to .036 in 30 steps; a healthy run stays at its floor"
    ),
    "spread": Threshold(
        value=UNEVEN, unit="log units", source="laboratory: 0.2 to 0.4 with a stale cache, under 0.15 with weights that are missing"
    ),
}
LONGER = 1.5  # factor by which responses grow that is worth a sentence


def check(case: Case) -> Outcome:
    """The gap at equal weights grows as the weights are updated, for prompts that came before, and falls when the cache is emptied.

    The engine keeps keys and values of prompts it has seen and finds them again by their tokens. After an update of the weights they
    are still those of the old weights, and every response to such a prompt is sampled by a mixture of two policies. The tokens are
    labelled with the new version, so no lag metric shows it.

    Empty the prefix cache at every update of the weights, or switch it off, and watch the gap of the next few versions return to the
    level of the first. If it does not, something else in the engine is older than its weights: a copy of the head in another precision,
    or a value that was computed once at the start.

    Lag is left out, because the gap is taken at the weights that are said to have sampled the tokens. Weights that do not arrive hit
    all prompts alike and show from the first update. Keys and values that are kept for running requests, as asynchronous trainers do on
    purpose, show only behind the update inside a response, and those tokens are not counted here. Numerics do not depend on updates at
    all.

    A level counts as grown at twice the first one and three standard errors, over a tenth of the tokens, and only if tokens of the same
    place and improbability got worse as well. The laboratory's cache reaches six to ten times its floor; public reports saw a factor of
    three in 30 steps (field report A11) and a growth over 17 updates that a restart took away (A19).
    """
    seen = look(case)
    if isinstance(seen, Skipped):
        return seen
    if seen.state is State.CACHE:
        return _found(case, seen)
    return Passed(says=_passed(seen), evidence=evidence(seen, THRESHOLDS["factor"]))


def _passed(seen: Seen) -> str:
    if seen.state in (State.UNSYNCED, State.DAMAGED):
        return f"the gap changes with the weights, but not as a cache of prompts makes it: {seen.state}"
    if seen.state is State.UNMOVED:
        return f"the gap grows, but a cache cannot be older than weights that never moved: {seen.why}"
    return f"the gap does not grow with the weights: {seen.before:.3g} nats at first, {seen.after:.3g} later" + (
        f" ({seen.why})" if seen.why else ""
    )


def _found(case: Case, seen: Seen) -> Finding:
    since = f" from step {seen.since}" if seen.since is not None else ""
    over = "" if seen.levels is None or not seen.levels.tempered else ", after the part that a wrong temperature explains is taken out"
    return Finding(
        severity=Severity.WARNING,
        certainty=seen.certainty,
        what=(
            f"the gap at equal weights grows with the updates of the weights{since}, from {seen.before:.3g} to "
            f"{seen.after:.3g} nats{over}: {_cause(seen)}"
        ),
        why=(
            "Responses are sampled from keys and values of older weights, under a version number that says they are new; "
            "the error grows with the age of the cache."
        ),
        fixes=tuple(fix(case, remedy) for remedy in (Remedy.RESET_PREFIX_CACHE, Remedy.PREFIX_CACHING_OFF, Remedy.CHECK_WEIGHTS)),
        look_at="the mean |gap| by version of the weights: it should stay where it is under the first one",
        evidence=evidence(seen, THRESHOLDS["factor"]),
        since=seen.since,
        apart_from=(*_apart(case, seen), *_also(case, seen)),
    )


def _cause(seen: Seen) -> str:
    if seen.levels is not None:
        return "a prefix cache that is not emptied does that"
    return "a prefix cache that is not emptied does that, and so do weights that do not arrive; a step log cannot tell which"


def _apart(case: Case, seen: Seen) -> list[str]:
    told = []
    if seen.levels is not None:
        told.append("policy lag: the gap is taken at the weights that are said to have sampled the tokens, whatever the version lag")
        if seen.levels.shape is Shape.LATER and not seen.levels.tempered:
            first = f"{seen.levels.level[1]:.3g} nats, its first level is {seen.levels.level[0]:.3g}"
            told.append(f"weights that do not arrive: under the first update the gap is still {first}, it grows only later")
    if seen.uneven >= UNEVEN:
        told.append(f"weights that do not arrive: they hit all prompts alike, here the prompts of a step differ by {seen.uneven:.2f}")
    if case.portrait is not None and seen.levels is not None and not seen.levels.tempered and case.portrait.whole.switched[1, _profiles.N]:
        before, after = _profiles.abs_mean(case.portrait.whole.switched)
        told.append(
            "keys and values kept on purpose for running requests: they show only behind an update inside a response "
            f"({after:.3g} nats there), here the tokens before it have {before:.3g}"
        )
    return told


def _also(case: Case, seen: Seen) -> list[str]:
    """What this log cannot rule out."""
    told = []
    if seen.logged is not None:
        told.append(
            "not told apart from a state that is computed once and kept, such as a cached copy of the head: empty the cache"
            " first, then look again"
        )
    elif seen.levels is not None and seen.levels.shape is Shape.AT_ONCE and not seen.uneven >= UNEVEN:
        told.append("not told apart from weights that arrive in part: this log has no group_id, or too few groups, to compare prompts")
    longer = growth(case.series("response_length.mean").values).factor
    if seen.logged is not None and math.isfinite(longer) and longer > LONGER:
        told.append(f"also consistent with an error that grows along the response: responses are {longer:.1f} times as long as at first")
    return told


RULE = Rule(
    id="inference_path_stale_prefix_cache",
    layer=Layer.INFERENCE_PATH,
    title="Stale prefix cache",
    check=check,
    requires=REQUIRES,
    needs=("engine.enable_prefix_caching", "trainer.learning_rate"),
    thresholds=THRESHOLDS,
    after=DATA,
    keystone=True,
)
