"""The trainer scores the response after another prompt than the engine did."""

from __future__ import annotations

import math

import numpy as np

from monitor.diagnosis import _profiles
from monitor.diagnosis._beginning import beginning, begins
from monitor.diagnosis._profiles import ABS, PLACE_EDGES, N
from monitor.diagnosis.case import Case
from monitor.diagnosis.outcome import Certainty, Curve, Evidence, Finding, Layer, Outcome, Passed, Severity, Skipped
from monitor.diagnosis.portrait import Portrait, StepPortrait
from monitor.diagnosis.remedies import fix
from monitor.diagnosis.remedy import Remedy
from monitor.diagnosis.rule import Rule, Threshold

THRESHOLDS = {
    "early": Threshold(
        value=0.1, unit="nats", source="chosen: twice the noise of bfloat16 (field report A8), as a mean |gap| of the first four tokens"
    ),
    "decay": Threshold(
        value=4.0,
        unit="times later tokens as improbable",
        source="chosen: numerics depend on how improbable a token is, and not on its place",
    ),
    "flat": Threshold(
        value=0.5,
        unit="nats",
        source="chosen: mean |gap| of the first four tokens; the lab has 0.7 to 0.9 with another context, 0.34 with int4 weights",
    ),
    "alike": Threshold(
        value=0.7,
        unit="correlation",
        source="chosen: the lab has 0.84 and more with any temperature, truncation or format, 0.44 to 0.48 with another context",
    ),
    "line": Threshold(
        value=0.9,
        unit="share of the scatter at a prefix",
        source="chosen: a temperature is a straight line through the samples of a prefix and explains 0.99, another context half",
    ),
}
EARLY, LATE = 4, 16  # tokens into the response
FEWEST = 20  # tokens, and pairs of tokens at one prefix


def check(case: Case) -> Outcome:
    """Before any update the first tokens of responses are far off. In long responses the gap falls with the place, in short ones it stays.

    The trainer's prompt is not the engine's: it begins with two BOS tokens, it was put into the chat template twice or not at all, or its
    padding on the left shifts the positions. The first tokens depend most on what stands before them. Further on the response itself is
    most of the context, and the two sides come together.

    Print the ids of one prompt on both sides, from the first id on, with the positions and the attention mask, and make them equal.

    A stale prefix cache has early tokens wrong as well, but not before the first update. The wrong temperature keeps the two sides on a
    straight line at each prefix. Weights that are already wrong in the engine when the run starts look the same in short responses: compare
    the ids first, they are quicker to compare.

    Field report A77. The thresholds are chosen between the healthy and the faulty runs of the laboratory.
    """
    whole = case.portrait.whole if case.portrait else None
    if case.portrait is None or whole is None or not whole.n:
        return Skipped(why="no token shows the gap between the two sides", record=("current_logprob",))
    first = beginning(case.portrait)
    if first.place[: _class(EARLY), N].sum() < FEWEST:
        return Skipped(why="too few responses in the first steps to see their first tokens", record=("position",))
    early, late, usual = _early(first), _late(first), _usual(first)
    if early > THRESHOLDS["early"].value and early > THRESHOLDS["decay"].value * usual:
        return _finding(case, case.portrait, first, f"and {late:.2g} nats from token {LATE} on")
    if early > THRESHOLDS["flat"].value and _apart(first) and not math.isfinite(usual):
        return _finding(case, case.portrait, first, f"and the two sides correlate at only {first.correlation_at(0):.2f}")
    return Passed(
        says=f"in the first steps the first tokens of responses are {early:.2g} nats off"
        + (f", later ones {late:.2g}" if math.isfinite(late) else "")
    )


def _class(place: int) -> int:
    return int(np.searchsorted(PLACE_EDGES, place))


def _early(one: StepPortrait) -> float:
    return float(_profiles.abs_mean(one.place[: _class(EARLY)].sum(axis=0)))


def _late(one: StepPortrait) -> float:
    sums = one.place[_class(LATE) :].sum(axis=0)
    return float(sums[ABS] / sums[N]) if sums[N] >= FEWEST else math.nan


def _usual(one: StepPortrait) -> float:
    """Mean |gap| that the first tokens would have as later tokens that are as improbable; NaN where there are too few later tokens."""
    early, late = one.place_surprise[: _class(EARLY)].sum(axis=0), one.place_surprise[_class(LATE) :].sum(axis=0)
    known = (late[:, N] >= FEWEST) & (early[:, N] > 0)
    weight = early[known, N]
    return float((_profiles.abs_mean(late[known]) * weight).sum() / weight.sum()) if weight.sum() >= early[:, N].sum() / 2 else math.nan


def _apart(one: StepPortrait) -> bool:
    """Whether the two sides are two policies: neither nearly proportional, nor on a line at each prefix, nor a constant apart there."""
    prefix = one.prefix
    if not one.correlation_at(0) < THRESHOLDS["alike"].value:
        return False
    if prefix.pairs < FEWEST or not prefix.within or not prefix.engine:
        return True
    line = 1 - (prefix.trainer - prefix.both**2 / prefix.engine) / prefix.within
    constant = prefix.between / (prefix.between + prefix.within)
    return max(line, constant) < THRESHOLDS["line"].value


def _doubt(case: Case, portrait: Portrait) -> str:
    """What else would explain it in this run; empty where nothing would."""
    if not begins(portrait) and case.truth("engine.enable_prefix_caching") is not False:
        return "the log does not begin with the run, so a stale prefix cache is as likely"
    coarse = [
        one
        for name in ("engine.quantization", "engine.kv_cache_dtype")
        if (one := case.setting(name)) and str(one.value).lower() not in _PLAIN
    ]
    if coarse and not math.isfinite(_usual(beginning(portrait))):
        return f"{coarse[0].key} = {coarse[0].value}, so a coarse format that failed is as likely"
    return ""


_PLAIN = ("auto", "none", "false", "", "bfloat16", "float16", "float32", "bf16", "fp16", "fp32", "null")


def _finding(case: Case, portrait: Portrait, first: StepPortrait, more: str) -> Finding:
    early, doubt = _early(first), _doubt(case, portrait)
    profile = _profiles.abs_mean(first.place)
    return Finding(
        severity=Severity.NOTE if doubt else Severity.CRITICAL,
        certainty=Certainty.MEASURED,
        what=f"the first {EARLY} tokens of responses are {early:.2g} nats off in the first steps, {more}" + (f"; {doubt}" if doubt else ""),
        why="the trainer scores the response after another prompt than the engine's: a second BOS, another template, moved positions",
        fixes=(fix(case, Remedy.ONE_BOS),),
        look_at="the ids, positions and attention mask of one prompt on both sides; then the mean |log ratio| of the first token",
        evidence=(
            Evidence(
                metric="portrait.place",
                says=f"mean |log ratio| of the first {EARLY} tokens: {early:.2g} nats",
                value=early,
                threshold=THRESHOLDS["early"].value,
                source=THRESHOLDS["early"].source,
                steps=tuple(list(portrait.steps)[:1]),
                curve=Curve(
                    x=tuple(PLACE_EDGES.astype(float)),
                    y=tuple(profile.tolist()),
                    x_title="place in the response",
                    y_title="mean |log ratio|, nats",
                ),
            ),
            Evidence(
                metric="portrait.correlation_at",
                says=f"the two sides correlate at {first.correlation_at(0):.2f}",
                value=first.correlation_at(0),
                threshold=THRESHOLDS["alike"].value,
                source=THRESHOLDS["alike"].source,
            ),
        ),
        since=next(iter(portrait.steps)),
        apart_from=(
            "a stale prefix cache: this is there in the first steps, before any update"
            if begins(portrait)
            else "a stale prefix cache cannot be excluded",
            "a wrong temperature, which is a straight line through the samples of a prefix",
        ),
    )


RULE = Rule(
    id="data_wrong_context_start",
    layer=Layer.DATA,
    title="Another prompt on the two sides",
    check=check,
    requires=(("token:current_logprob", "token:same_weights_logprob", "token:old_logprob"),),
    needs=("engine.enable_prefix_caching", "engine.kv_cache_dtype", "engine.quantization"),
    thresholds=THRESHOLDS,
    after=("data_length_mismatch", "data_shifted_logprobs", "data_retokenised_rows", "data_packed_boundary", "data_zeros_in_mask"),
)
