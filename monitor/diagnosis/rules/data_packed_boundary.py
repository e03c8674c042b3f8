"""The last token of each response is wrong, and no other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from monitor.diagnosis import _profiles
from monitor.diagnosis._profiles import END_EDGES
from monitor.diagnosis._sequences import Sequences
from monitor.diagnosis.case import Case
from monitor.diagnosis.outcome import Certainty, Curve, Evidence, Finding, Layer, Outcome, Passed, Severity, Skipped
from monitor.diagnosis.portrait import FAR, StepPortrait
from monitor.diagnosis.remedies import fix
from monitor.diagnosis.remedy import Remedy
from monitor.diagnosis.rule import Rule, Threshold

THRESHOLDS = {
    "wrong": Threshold(
        value=0.5,
        unit="nats",
        source="chosen: ten times the noise of bfloat16 (field report A8); the lab's wrong last tokens are 15 nats off",
    ),
    "times": Threshold(value=10.0, unit="times the other tokens' mean |gap|", source="chosen: as far as numerics do not reach"),
    "share": Threshold(
        value=0.2, unit="share of responses", source="chosen: packs of two have half of their last tokens wrong, larger packs more"
    ),
    "others": Threshold(
        value=0.1, unit="of that share, among the other tokens", source="chosen: only the last token is wrong (field report A74)"
    ),
}
FEWEST = 2  # responses whose last token is wrong


def check(case: Case) -> Outcome:
    """The last token of most responses is nats off, and all the tokens before it agree.

    Several responses are packed into one row, and the labels are made by rolling the whole row by one. The last token of a response then
    gets the first token of its neighbour as its label. It is usually the end token, which carries much of the reward for stopping.

    Roll the labels inside each sequence, along the cumulative lengths, or mask the last place of each sequence out of the packed row.

    An end token that is exactly 0.0 on one side was appended or masked by hand: see zeros in the mask. Padding spoils several places at
    the end. Retokenised rows are wrong long before their end.

    Field report A74, where ids 10 11 12 | 20 21 were rolled to 11 12 20 21 10. The thresholds are chosen.
    """
    whole = case.portrait.whole if case.portrait else None
    if whole is None or not whole.n:
        return Skipped(why="no token shows the gap between the two sides", record=("current_logprob",))
    if not np.isfinite(whole.sequences.last).any() or whole.n <= len(whole.sequences.n):
        return Skipped(why="no last token can be compared with tokens before it", record=("position",))
    rest, wrong, others = _rest(whole.sequences), _wrong(whole.sequences), _others_far(whole)
    share = float(wrong.mean())
    if wrong.sum() < FEWEST or share < THRESHOLDS["share"].value or others > THRESHOLDS["others"].value * share:
        return Passed(
            says=f"the last tokens of {share:.1%} of the responses stand out, and {others:.1%} of the others are beyond {FAR:.2g} nats"
        )
    if whole.singular.exact_engine_last + whole.singular.exact_trainer_last > wrong.sum() / 2:
        return Passed(says="the last tokens that stand out are exact zeros of one side, which is another fault")
    return _finding(case, whole, wrong, (rest, others))


def _rest(rows: Sequences) -> float:
    """Mean |gap| of all tokens but the last of each response, nats."""
    last = np.nan_to_num(rows.last)
    return float((rows.abs_x - last).sum() / max(float((rows.n - np.isfinite(rows.last)).sum()), 1.0))


def _wrong(rows: Sequences) -> NDArray[np.bool_]:
    """Responses whose last token is far off, of those whose last token shows the gap."""
    last = rows.last[np.isfinite(rows.last)]
    return np.asarray(last > max(THRESHOLDS["wrong"].value, THRESHOLDS["times"].value * _rest(rows)))


def _others_far(whole: StepPortrait) -> float:
    """Share of the tokens before the last that are beyond ln 2."""
    last = whole.sequences.last[np.isfinite(whole.sequences.last)]
    return float((whole.far - (last > FAR).sum()) / max(whole.n - len(last), 1.0))


def _finding(case: Case, whole: StepPortrait, wrong: NDArray[np.bool_], levels: tuple[float, float]) -> Finding:
    rest, others = levels
    last = float(np.nanmean(whole.sequences.last))
    profile = _profiles.abs_mean(whole.end)
    steps = np.unique(whole.sequences.step[np.isfinite(whole.sequences.last)][wrong])
    return Finding(
        severity=Severity.CRITICAL,
        certainty=Certainty.MEASURED,
        what=f"the last token of {wrong.mean():.0%} of the responses is wrong: last tokens are {last:.2g} nats off on average, "
        f"those before them {rest:.2g}",
        why="labels rolled over a packed row give a response's last token the first token of its neighbour as its label",
        fixes=(fix(case, Remedy.SHIFT_LABELS),),
        look_at="the mean |log ratio| by distance from the end: the last token should be no worse than those before it",
        evidence=(
            Evidence(
                metric="portrait.end",
                says=f"mean |log ratio| of the last token: {last:.2g} nats",
                value=last,
                threshold=max(THRESHOLDS["wrong"].value, THRESHOLDS["times"].value * rest),
                source=THRESHOLDS["wrong"].source,
                steps=tuple(int(step) for step in (steps[0], steps[-1])),
                curve=Curve(
                    x=tuple(END_EDGES.astype(float)),
                    y=tuple(profile.tolist()),
                    x_title="tokens that follow in the response",
                    y_title="mean |log ratio|, nats",
                    expected=(rest,) * len(END_EDGES),
                ),
            ),
            Evidence(
                metric="portrait.far_share",
                says=f"of the other tokens {others:.1%} are beyond ln 2",
                value=others,
                threshold=THRESHOLDS["others"].value * float(wrong.mean()),
                source=THRESHOLDS["others"].source,
            ),
        ),
        since=int(steps[0]),
        apart_from=(
            f"padding that is counted, which spoils several places: the last but one is {profile[1]:.2g} nats off",
            "an end token written as 0.0: hardly any of these is an exact zero",
        ),
    )


RULE = Rule(
    id="data_packed_boundary",
    layer=Layer.DATA,
    title="Last token of each response wrong",
    check=check,
    requires=(("token:current_logprob", "token:same_weights_logprob", "token:old_logprob"),),
    thresholds=THRESHOLDS,
    after=("data_length_mismatch", "data_shifted_logprobs", "data_retokenised_rows"),
)
