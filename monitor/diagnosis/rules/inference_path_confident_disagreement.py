"""Tokens that the engine was sure of and the trainer finds unlikely."""

from __future__ import annotations

import math

import numpy as np

from monitor.diagnosis._earlier_rules import DATA, STALE_OR_WRONG_WEIGHTS
from monitor.diagnosis.case import Case
from monitor.diagnosis.outcome import Certainty, Curve, Evidence, Finding, Layer, Outcome, Passed, Severity, Skipped, few
from monitor.diagnosis.portrait import Portrait
from monitor.diagnosis.remedies import Remedy, fix
from monitor.diagnosis.rule import Rule, Threshold

THRESHOLDS = {
    "tokens": Threshold(value=3.0, unit="tokens", source="one or two occur with coarse formats in the laboratory"),
    "share": Threshold(
        value=1e-3, unit="share of the tokens the engine is sure of", source="0 of 15,000 in healthy bfloat16 runs of the laboratory"
    ),
    "expected": Threshold(
        value=5.0, unit="tokens expected in the first steps", source="none seen where five were to come: by chance 0.7 %"
    ),
}
FIRST = 5  # part of the steps that counts as the start


def check(case: Case) -> Outcome:
    """The engine gives a token 99 % or more, and the trainer, with what should be the same weights, less than one in seven.

    Rounding moves a log-probability by little where the policy is sure. For such a token the two sides must have seen something else:
    other weights, another beginning of the text, keys and values of another request, or a part of the model that went another way.

    Take some of these tokens, look in which responses and from which place on they occur, and score the same text twice in the engine,
    once with an empty cache. If they come in a few responses from one token on, the contexts differ; if they come everywhere from one
    update on, the weights do.

    A fault that was found before this one explains such tokens as well, then this one is not asked. A very coarse format, experts
    chosen differently and a number that overflows make some too, from the first step on: then this is a note, and the numerics say
    more. What begins later in the run, with an engine that was fine at first, is a state of the engine.

    Three tokens and one in a thousand of those the engine is sure of; healthy bfloat16 runs of the laboratory have none in 15,000. It
    counts as begun later if the first fifth of the steps has none where five were to be expected.
    """
    portrait = case.portrait
    if portrait is None:
        return Skipped(why="needs tokens", record=("rollout_logprob",))
    if not portrait.gap.is_discrepancy:
        return Skipped(why="the log holds the total alone: what disagrees in it may be lag", record=("same_weights_logprob",))
    found = portrait.whole.singular
    share = found.disagreed / found.certain if found.certain else 0.0
    if not found.certain:
        return Skipped(why="the engine is sure of none of these tokens")
    if found.disagreed < THRESHOLDS["tokens"].value or share < THRESHOLDS["share"].value:
        return Passed(says=f"of {found.certain:.0f} tokens that the engine is sure of, the trainer finds {found.disagreed:.0f} unlikely")
    return _found(case, portrait, share)


def _found(case: Case, portrait: Portrait, share: float) -> Finding:
    found = portrait.whole.singular
    steps = tuple(step for step, one in portrait.steps.items() if one.singular.disagreed)
    expected = _expected_at_first(portrait)
    later = not math.isnan(expected)
    when = f", and none in the first steps, where {expected:.0f} were to be expected" if later else ", from the start of the run"
    limit = THRESHOLDS["share"]
    says = (
        f"{found.disagreed:.0f} of {found.certain:.0f} tokens with 99 % or more on the engine's side have less than 14 % on the trainer's"
    )
    return Finding(
        severity=Severity.WARNING if later else Severity.NOTE,
        certainty=Certainty.MEASURED,
        what=(
            f"{share:.2%} of the tokens that the engine is sure of are unlikely to the trainer ({found.disagreed:.0f} "
            f"tokens at {len(steps)} steps{when})"
        ),
        why=(
            "Rounding cannot do that where the policy is sure: the two sides had other weights, another context, or took "
            "another way through the model."
        ),
        fixes=tuple(fix(case, remedy) for remedy in (Remedy.RESET_PREFIX_CACHE, Remedy.CHECK_WEIGHTS, Remedy.TOKEN_IN_TOKEN_OUT)),
        look_at="the number of such tokens, and the responses they are in",
        evidence=(
            Evidence(
                metric="portrait.disagreed",
                says=says,
                value=share,
                threshold=limit.value,
                source=limit.source,
                steps=few(steps),
                curve=_curve(portrait),
            ),
        ),
        since=steps[0],
        until=steps[-1],
        apart_from=(f"numerics: they act from the first step on, here the first steps have none where {expected:.0f} were to be expected",)
        if later
        else (),
    )


def _expected_at_first(portrait: Portrait) -> float:
    """Tokens to be expected in the first fifth of the steps at the later rate; NaN where there are some, or too few to expect any."""
    steps = list(portrait.steps)
    early = [portrait.steps[step].singular for step in steps[: len(steps) // FIRST]]
    late = [portrait.steps[step].singular for step in steps[len(steps) // FIRST :]]
    sure = sum(one.certain for one in late)
    expected = sum(one.certain for one in early) * sum(one.disagreed for one in late) / sure if sure else 0.0
    begun = expected >= THRESHOLDS["expected"].value and not any(one.disagreed for one in early)
    return expected if begun else math.nan


def _curve(portrait: Portrait) -> Curve:
    steps, counts = portrait.over_steps(lambda one: one.singular.disagreed)
    xs, ys = tuple(map(float, steps)), tuple(map(float, counts))
    return Curve(x=xs, y=ys, x_title="step", y_title="tokens", expected=tuple(np.zeros(len(xs)).tolist()))


RULE = Rule(
    id="inference_path_confident_disagreement",
    layer=Layer.INFERENCE_PATH,
    title="Sure engine, doubting trainer",
    check=check,
    requires=(("tokens",),),
    thresholds=THRESHOLDS,
    after=(
        *DATA,
        *("semantics_raw_logprobs", "semantics_trainer_forgets_temperature", "semantics_constant_offset"),
        *(other for other in STALE_OR_WRONG_WEIGHTS if other != "inference_path_confident_disagreement"),
    ),
)
