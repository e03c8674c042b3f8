"""Tokens that count although one side has no log-probability for them and wrote 0.0."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from monitor.diagnosis import _profiles
from monitor.diagnosis._profiles import END_EDGES
from monitor.diagnosis.case import Case
from monitor.diagnosis.outcome import Certainty, Curve, Evidence, Finding, Layer, Outcome, Passed, Severity, Skipped
from monitor.diagnosis.portrait import StepPortrait
from monitor.diagnosis.remedies import fix
from monitor.diagnosis.remedy import Remedy
from monitor.diagnosis.rule import Rule, Threshold

THRESHOLDS = {
    "share": Threshold(
        value=1e-3,
        unit="share of tokens",
        source="chosen: exact zeros where the other side is under -1 nat; healthy runs of the lab have none, padded ones 5 % and more",
    ),
    "many": Threshold(value=0.01, unit="share of tokens", source="chosen: from here on critical"),
    "all": Threshold(value=0.9, unit="share of tokens", source="chosen: a side that is nothing but zeros was not recorded"),
    "last": Threshold(
        value=0.95,
        unit="share of last tokens",
        source="chosen: all of them in the lab where the end token is set by hand; up to 0.6 where a temperature of 0.6 makes it certain",
    ),
    "some": Threshold(
        value=0.2,
        unit="share of last tokens",
        source="chosen: enough where some of them are under -1 nat on the other side, since responses may end by their length",
    ),
    "elsewhere": Threshold(
        value=0.05,
        unit="of that share, among the other tokens",
        source="chosen: a coarse log-softmax (field report A44) and truncated sampling make zeros everywhere",
    ),
}
FEWEST = 3  # tokens
_BY_HAND = "the end token was appended by hand, or masked because its id is the padding's"


@dataclass(frozen=True, kw_only=True)
class Zeros:
    """Exact zeros of one side that the other side contradicts; counts of tokens."""

    side: str  # engine or trainer
    clear: float  # the other side is clearly below 0
    clear_last: float  # of these, last tokens
    exact: float  # the other side is below 0 by more than rounding
    exact_last: float
    open_last: float  # last tokens at which the other side is below 0 by more than rounding


def check(case: Case) -> Outcome:
    """One side has log-probabilities of exactly 0.0 where the other has not: at the end of each response, or at some places inside.

    A log-probability of 0.0 means that the token was certain, and nothing a model computes is exactly that. It is what a pipeline fills in
    where it has nothing: for an end token that was appended by hand, for padding, for tool output or a prompt that the engine did not
    sample. Where the pad id is the end id, the end token is masked together with the padding. These tokens must not count.

    Take the loss mask from what was sampled and not from the token's value, and apply it before any metric. Where the end token is
    appended, let the engine sample it, or leave it out of the loss.

    Last tokens that are wrong without being zeros come from packed boundaries. Zeros on all certain tokens come from a log-softmax in low
    precision, and are no fault of the data.

    Field reports A75 and A76. The shares are chosen between runs of the laboratory, which have none or all.
    """
    whole = case.portrait.whole if case.portrait else None
    if whole is None or not whole.n:
        return Skipped(why="no token shows the gap between the two sides", record=("current_logprob",))
    sides = _sides(whole)
    inside = [one for one in sides if one.clear >= FEWEST and one.clear / whole.tokens >= THRESHOLDS["share"].value]
    if inside:
        return _counted(case, whole, max(inside, key=lambda one: one.clear))
    ends = [one for one in sides if _at_ends(one, whole)]
    if ends:
        return _appended(case, whole, max(ends, key=lambda one: one.exact_last))
    return Passed(
        says=f"exact zeros where the other side is under -1 nat: {sum(one.clear for one in sides):.0f} of {whole.tokens:.0f} tokens"
    )


def _sides(whole: StepPortrait) -> tuple[Zeros, Zeros]:
    found = whole.singular

    def side(name: str) -> Zeros:
        return Zeros(side=name, **{short: getattr(found, f"{long}_{name}{end}") for short, long, end in _COUNTS})

    return side("engine"), side("trainer")


_COUNTS = (
    ("clear", "zero", ""),
    ("clear_last", "zero", "_last"),
    ("exact", "exact", ""),
    ("exact_last", "exact", "_last"),
    ("open_last", "open", "_last"),
)


def _at_ends(one: Zeros, whole: StepPortrait) -> bool:
    """Whether last tokens are zeros without regard to how certain they are, and other tokens are not."""
    needed = THRESHOLDS["some" if one.clear_last >= FEWEST else "last"].value
    if one.exact_last < FEWEST or one.exact_last < needed * one.open_last:
        return False
    others = (one.exact - one.exact_last) / max(whole.tokens - len(whole.sequences.n), 1.0)
    return others <= THRESHOLDS["elsewhere"].value * one.exact_last / one.open_last


def _where(whole: StepPortrait, one: Zeros) -> tuple[str, str]:
    """In words: where the zeros are, and what that says."""
    if one.exact >= THRESHOLDS["all"].value * whole.tokens:
        return (
            "nearly everywhere",
            "that side was not recorded and filled with 0.0, or the engine sampled greedily and reports what it drew from",
        )
    if one.exact_last > THRESHOLDS["all"].value * one.exact:
        return "in the last tokens of responses", f"{_BY_HAND}, so it has no log-probability"
    if _towards_end(whole):
        return "towards the end of responses", "padding is counted: the loss mask is true where nothing was sampled"
    return "inside responses", "tokens that the engine did not sample are counted, such as tool output or the prompt"


def _counted(case: Case, whole: StepPortrait, one: Zeros) -> Finding:
    share, (where, why) = one.exact / whole.tokens, _where(whole, one)
    return Finding(
        severity=Severity.CRITICAL if share >= THRESHOLDS["many"].value else Severity.WARNING,
        certainty=Certainty.MEASURED,
        what=f"{one.exact:.0f} of {whole.tokens:.0f} tokens that count ({share:.1%}) are exactly 0.0 on the {one.side}'s side and not "
        f"on the other, {where}",
        why=f"{why}; every one of them enters the ratio, its clipping and its mean",
        fixes=(fix(case, Remedy.MASK),),
        look_at="the count of exact zeros on one side only: it should be 0, and the number of tokens should fall by as many",
        evidence=(
            Evidence(
                metric=f"portrait.singular.zero_{one.side}",
                says=f"{one.clear:.0f} tokens are 0.0 on the {one.side}'s side where the other is under -1 nat",
                value=one.clear / whole.tokens,
                threshold=THRESHOLDS["share"].value,
                source=THRESHOLDS["share"].source,
                curve=_curve(whole),
            ),
            Evidence(
                metric=f"portrait.singular.zero_{one.side}_last",
                says=f"{one.clear_last:.0f} of these are last tokens",
                value=one.clear_last / one.clear,
            ),
        ),
        apart_from=(
            "a packed boundary, whose last tokens are wrong but no exact zeros",
            "a log-softmax in low precision, whose other values are rounded too",
        ),
    )


def _appended(case: Case, whole: StepPortrait, one: Zeros) -> Finding:
    share = one.exact_last / one.open_last
    others = (one.exact - one.exact_last) / max(whole.tokens - len(whole.sequences.n), 1.0)
    return Finding(
        severity=Severity.WARNING,
        certainty=Certainty.MEASURED,
        what=f"the last token of responses is exactly 0.0 on the {one.side}'s side: {one.exact_last:.0f} of the {one.open_last:.0f} whose "
        f"other side is not ({share:.0%}), and {others:.1%} of the other tokens",
        why=f"{_BY_HAND}: the decision to stop is not trained, or is trained on a made-up ratio",
        fixes=(fix(case, Remedy.MASK),),
        look_at="the last token of each response: both sides should have a log-probability for it, or it should not count",
        evidence=(
            Evidence(
                metric=f"portrait.singular.exact_{one.side}_last",
                says=f"{share:.0%} of the last tokens are exactly 0.0 on the {one.side}'s side, whatever the other side says",
                value=share,
                threshold=THRESHOLDS["last"].value,
                source=THRESHOLDS["last"].source,
                curve=_curve(whole),
            ),
        ),
        apart_from=(f"rounding of certain tokens, which would make zeros everywhere: {others:.1%} of the other tokens are",),
    )


def _towards_end(whole: StepPortrait) -> bool:
    profile = _profiles.abs_mean(whole.end)
    return bool(profile[0] > 2 * np.nanmean(profile[4:])) if np.isfinite(profile[4:]).any() else True


def _curve(whole: StepPortrait) -> Curve:
    profile = _profiles.abs_mean(whole.end)
    return Curve(
        x=tuple(END_EDGES.astype(float)),
        y=tuple(profile.tolist()),
        x_title="tokens that follow in the response",
        y_title="mean |log ratio|, nats",
    )


RULE = Rule(
    id="data_zeros_in_mask",
    layer=Layer.DATA,
    title="Tokens without a log-probability count",
    check=check,
    requires=(("token:current_logprob", "token:same_weights_logprob", "token:old_logprob"),),
    thresholds=THRESHOLDS,
    after=("data_length_mismatch", "data_shifted_logprobs", "data_retokenised_rows"),
)
