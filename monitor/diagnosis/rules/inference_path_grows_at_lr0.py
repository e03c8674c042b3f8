"""A gap that grows while the weights do not move."""

from __future__ import annotations

from monitor.diagnosis._at_rest import why_at_rest
from monitor.diagnosis._earlier_rules import DATA
from monitor.diagnosis._engine_state import REQUIRES, Seen, State, look
from monitor.diagnosis._engine_state_evidence import evidence
from monitor.diagnosis.case import Case
from monitor.diagnosis.outcome import Finding, Layer, Outcome, Passed, Severity, Skipped
from monitor.diagnosis.remedies import Remedy, fix
from monitor.diagnosis.rule import Rule, Threshold
from monitor.diagnosis.trend import growth

THRESHOLDS = {
    "factor": Threshold(
        value=2.0, unit="times the first level", source="field report A23: the difference rises for 450 steps, and also at learning rate 0"
    ),
    "length": Threshold(value=1.5, unit="times the first length", source="above it longer responses may be the reason in a step log"),
}


def check(case: Case) -> Outcome:
    """The gap between engine and trainer grows from step to step although the weights stay what they are.

    The learning rate or the gradient norm is 0, or tokens that are versions old have no lag at all. If the weights do not move, no
    cache and no missing push can explain a growth. Something in the engine changes by itself: a table that is converted again at each
    push and loses a little each time, a cache that fills up, a state that depends on how long the process has run, or the responses get
    longer.

    Restart the engine and look whether the gap falls back; leave out the push and look whether it stays. Compare each parameter of the
    engine with the trainer's after many pushes.

    All faults that come from weights being old are ruled out by the weights not moving. An error that grows along the response grows
    with the length of the responses, which tokens show at equal place. Damaged weights jump once and stay.

    The size asked for is that of the stale prefix cache: twice the first level and three standard errors, over a tenth of the tokens.
    In the laboratory a requantised table doubles the gap within eight updates. The case is field report A23.
    """
    rest = why_at_rest(case)
    if not rest:
        return Passed(says="the weights move in this run, or the log does not say that they do not: a growth would have other causes")
    seen = look(case)
    if isinstance(seen, Skipped):
        return seen
    if seen.state is not State.UNMOVED:
        return Passed(
            says=f"the weights do not move ({rest}), and the gap stays at {seen.after:.3g} nats",
            evidence=evidence(seen, THRESHOLDS["factor"]),
        )
    since = f" from step {seen.since}" if seen.since is not None else ""
    return Finding(
        severity=Severity.WARNING,
        certainty=seen.certainty,
        what=f"the gap grows from {seen.before:.3g} to {seen.after:.3g} nats{since} although the weights do not move ({rest})",
        why=(
            "Something in the engine changes by itself, with the number of pushes, with uptime or with the length of the "
            "responses, and it will do so at other learning rates too."
        ),
        fixes=tuple(fix(case, remedy) for remedy in (Remedy.CHECK_WEIGHTS, Remedy.RESET_PREFIX_CACHE)),
        look_at="the mean |gap| before and after a restart of the engine, at learning rate 0",
        evidence=evidence(seen, THRESHOLDS["factor"]),
        since=seen.since,
        apart_from=_apart(case, seen, rest),
    )


def _apart(case: Case, seen: Seen, rest: str) -> tuple[str, ...]:
    told = [f"a stale cache, missing weights and policy lag: {rest}"]
    if seen.at_equal_tokens > 1:
        told.append(
            f"longer responses: at equal place and improbability of the token the gap is {seen.at_equal_tokens:.1f} times the first"
        )
    longer = growth(case.series("response_length.mean").values).factor
    if seen.logged is not None and longer > THRESHOLDS["length"].value:
        told.append(f"also consistent with an error that grows along the response: responses are {longer:.1f} times as long as at first")
    return tuple(told)


RULE = Rule(
    id="inference_path_grows_at_lr0",
    layer=Layer.INFERENCE_PATH,
    title="Gap grows at rest",
    check=check,
    requires=REQUIRES,
    needs=("trainer.learning_rate",),
    thresholds=THRESHOLDS,
    after=DATA,
)
