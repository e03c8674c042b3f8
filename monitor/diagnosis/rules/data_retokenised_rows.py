"""A few responses that are right up to some token, and wrong behind it."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from monitor.diagnosis._sequences import EXTREME, Sequences
from monitor.diagnosis.case import Case
from monitor.diagnosis.outcome import Certainty, Curve, Evidence, Finding, Layer, Outcome, Passed, Severity, Skipped
from monitor.diagnosis.portrait import StepPortrait
from monitor.diagnosis.remedies import fix
from monitor.diagnosis.remedy import Remedy
from monitor.diagnosis.rule import Rule, Threshold

THRESHOLDS = {
    "after": Threshold(
        value=0.5,
        unit="nats",
        source="chosen: mean |gap| behind the place; field report A70 has spikes to 60 against 0.028, the lab 1.2 to 2.5",
    ),
    "before": Threshold(
        value=0.25,
        unit="of the mean |gap| behind the place",
        source="chosen: the first wrong token need not be an extreme one, so the level before is not quite that of numerics",
    ),
    "floor": Threshold(value=10.0, unit="times the usual response", source="chosen: numerics differ by less between responses of a run"),
    "most": Threshold(
        value=0.3,
        unit="share of responses",
        source="field reports A70 and A71: 1 to 2 %, up to 20 %; where more are wrong, it is not some rows",
    ),
    "many": Threshold(value=0.05, unit="share of responses", source="chosen: from here on critical"),
}
BEHIND = 2.0  # tokens that must follow the place, so that a wrong last token is none
FEW, BEHIND_FEW = (
    3,
    8.0,
)  # where fewer responses are hit, more of their tokens must be wrong: two rare spikes in a short one would do otherwise


def check(case: Case) -> Outcome:
    """A small share of the responses has an extreme log ratio from one token on to the end, and all others lie at the usual level.

    The ids that the trainer scored were rebuilt from text. Decoding and encoding again does not give the same ids everywhere: near
    unusual characters, at the border of a tool call or of a turn, one token becomes two or two become one, and from there on every token
    is compared with another one. The average of the batch looks like bad luck, and the spikes move with the prompts.

    Pass the engine's ids on to the trainer without going through text, in every turn of a conversation, and compare the ids of the worst
    response given here with those that the engine returned.

    Prompts on which the engine itself fails are wrong from their first token on, and come back in the same group. Packed boundaries spoil
    the last token only. Rare spikes are single tokens with ordinary ones behind them. Damaged weights hit all responses.

    Field reports A70 and A71: 1 to 2 % of rows, with a Kullback-Leibler divergence up to 60 against 0.028. The other thresholds are chosen.
    """
    whole = case.portrait.whole if case.portrait else None
    if whole is None or not whole.n:
        return Skipped(why="no token shows the gap between the two sides", record=("current_logprob",))
    rows, extreme, broken = whole.sequences, _extreme(whole.sequences), _broken(whole.sequences)
    share = float(broken.mean())
    if not broken.any() or share > THRESHOLDS["most"].value or broken.sum() < extreme.sum() / 2:
        return Passed(
            says=f"{extreme.sum()} of {len(extreme)} responses have a token more than {EXTREME:g} nats off, and {broken.sum()} of these "
            "are wrong from there on"
        )
    before, after, floor = _levels(rows, broken)
    if after < THRESHOLDS["floor"].value * floor or before > THRESHOLDS["before"].value * after:
        return Passed(
            says=f"the {broken.sum()} worst responses are {before:.2g} nats off before their first extreme token and {after:.2g} behind, "
            f"the usual one {floor:.2g}"
        )
    if _zeros(whole) > whole.far / 2:
        return Passed(says="most of the extreme tokens are exact zeros of one side, which is another fault")
    return _finding(case, rows, broken, (before, after, floor))


def _extreme(rows: Sequences) -> NDArray[np.bool_]:
    """Responses with an extreme token that others follow."""
    return np.asarray(np.isfinite(rows.onset) & (rows.n - 1 - np.nan_to_num(rows.onset) >= BEHIND))


def _broken(rows: Sequences) -> NDArray[np.bool_]:
    """Of these, responses that are wrong behind that token and not before it."""
    with np.errstate(invalid="ignore"):
        wrong = _extreme(rows) & (rows.after > THRESHOLDS["after"].value) & (rows.before < THRESHOLDS["before"].value * rows.after)
        sure = wrong & (rows.n - 1 - rows.onset >= BEHIND_FEW)
    return np.asarray(wrong if wrong.sum() >= FEW else sure)


def _levels(rows: Sequences, broken: NDArray[np.bool_]) -> tuple[float, float, float]:
    """Mean |gap| of the broken responses before and behind their place, and of the median response that has no extreme token."""
    onset, behind = rows.onset[broken], rows.n[broken] - 1 - rows.onset[broken]
    before = float((rows.before[broken] * onset).sum() / onset.sum()) if onset.sum() else math.nan
    after = float((rows.after[broken] * behind).sum() / behind.sum())
    usual = rows.abs_mean[~np.isfinite(rows.onset) & (rows.n > 0)]
    return before, after, float(np.median(usual)) if len(usual) else math.nan


def _zeros(whole: StepPortrait) -> float:
    return whole.singular.zero_engine + whole.singular.zero_trainer


def _finding(case: Case, rows: Sequences, broken: NDArray[np.bool_], levels: tuple[float, float, float]) -> Finding:
    before, after, floor = levels
    share, count = float(broken.mean()), int(broken.sum())
    worst = int(np.flatnonzero(broken)[np.argmax(rows.worst[broken])])
    steps = np.unique(rows.step[broken])
    return Finding(
        severity=Severity.CRITICAL if share >= THRESHOLDS["many"].value else Severity.WARNING,
        certainty=Certainty.MEASURED,
        what=f"{count} of {len(broken)} responses ({share:.1%}) go wrong from one token on: {after:.2g} nats off behind it, {before:.2g} "
        f"before it, while the usual response is {floor:.2g} nats off",
        why="their ids were rebuilt from text by decoding and encoding, so behind that place the two sides score different tokens",
        fixes=(fix(case, Remedy.TOKEN_IN_TOKEN_OUT),),
        look_at=f"response {rows.sample_id[worst]} of step {rows.step[worst]} from its token {rows.onset[worst]:.0f} on: "
        "compare its ids with those the engine returned",
        evidence=(
            Evidence(
                metric="portrait.sequences.after",
                says=f"mean |log ratio| behind the first extreme token of {count} responses: {after:.2g} nats",
                value=after,
                threshold=THRESHOLDS["floor"].value * floor,
                source=THRESHOLDS["floor"].source,
                steps=tuple(int(step) for step in (steps[0], steps[-1])),
                curve=_curve(rows, broken, floor),
            ),
            Evidence(
                metric="portrait.sequences.before",
                says=f"before it: {before:.2g} nats",
                value=before,
                threshold=THRESHOLDS["before"].value * after,
                source=THRESHOLDS["before"].source,
            ),
        ),
        since=int(steps[0]),
        apart_from=(
            f"prompts that are always bad, which are wrong from their first token on: here {before:.2g} nats before the place",
            f"rare spikes, which ordinary tokens follow: here {after:.2g} nats behind it",
            f"damaged weights, which hit every response: here {1 - share:.1%} are as usual",
        ),
    )


def _curve(rows: Sequences, broken: NDArray[np.bool_], floor: float) -> Curve:
    order = np.flatnonzero(broken)[np.argsort(rows.onset[broken], kind="stable")]
    return Curve(
        x=tuple(rows.onset[order].tolist()),
        y=tuple(rows.after[order].tolist()),
        x_title="place of the first extreme token in its response",
        y_title="mean |log ratio| behind it, nats",
        expected=(floor,) * len(order),
    )


RULE = Rule(
    id="data_retokenised_rows",
    layer=Layer.DATA,
    title="Retokenised rows",
    check=check,
    requires=(("token:current_logprob", "token:same_weights_logprob", "token:old_logprob"),),
    thresholds=THRESHOLDS,
    after=("data_length_mismatch", "data_shifted_logprobs"),
)
