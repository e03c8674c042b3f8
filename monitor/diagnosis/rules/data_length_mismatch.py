"""Responses whose columns are not equally long: which log-probability belongs to which token cannot be said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from monitor.diagnosis._lengths import Difference, differences, refused
from monitor.diagnosis.case import Case
from monitor.diagnosis.outcome import Certainty, Evidence, Finding, Fix, Layer, Outcome, Passed, Severity, Skipped
from monitor.diagnosis.remedies import fix
from monitor.diagnosis.remedy import Remedy
from monitor.diagnosis.rule import Rule, Threshold

THRESHOLDS = {
    "share": Threshold(
        value=0.01,
        unit="share of responses",
        source="chosen: a log may end in a response that was cut off; one in a hundred is no accident",
    ),
    "most": Threshold(
        value=0.5, unit="share of responses", source="chosen: a difference that most responses have is how the data are made"
    ),
}


def check(case: Case) -> Outcome:
    """In some or all responses the lists of log-probabilities and of token ids have different lengths, so the reader had to leave them out.

    The two sides were not made from the same tokens. One token more or less on every response means that the ids were rebuilt by decoding
    and encoding the text, or that one side counts an end token which the other does not. A large constant difference means that image or
    tool tokens were expanded on one side only. A trainer that cuts the longer list to the shorter one hides this, and trains on pairs
    that do not belong together.

    Take the ids from the engine and never from the text, gather the trainer's log-probabilities at the places of those ids, and assert
    that both lists are equally long before anything is subtracted.

    Where the lists are equally long but a few responses go wrong from some token on, look at retokenised rows. Where all of them go
    wrong, look at shifted log-probabilities.

    Field report A70 has one token more on 120 of 120 rows, field report A73 has 648 logits for 73 ids. The share of responses at
    which this stops being an accident is chosen.
    """
    problems = refused(case.run)
    lost = sum(problem.rows for problem in problems)
    kept = len(case.portrait.whole.sequences.n) if case.portrait else 0
    if not lost:
        return (
            Passed(says=f"in all {kept} responses the columns are equally long")
            if kept
            else Skipped(why="there are no tokens", record=("rollout_logprob", "current_logprob"))
        )
    share, found = lost / (lost + kept), differences(problems)
    return Finding(
        severity=_severity(share),
        certainty=Certainty.MEASURED,
        what=f"in {lost} of {lost + kept} responses the columns differ in length{_sizes(found)}",
        why=_why(found),
        fixes=_fixes(case, found),
        look_at="the list of read problems: it should be empty, and the mean |log ratio| should then be at the level of numerics",
        evidence=(
            Evidence(
                metric="responses.uneven",
                says=f"{share:.1%} of the responses were left out because their lists differ in length",
                value=share,
                threshold=THRESHOLDS["share"].value,
                source=THRESHOLDS["share"].source,
                origin="read problems",
            ),
            *_told(found),
        ),
        apart_from=("retokenised rows of equal length: here the lengths themselves differ",),
    )


def _severity(share: float) -> Severity:
    if share < THRESHOLDS["share"].value:
        return Severity.NOTE
    return Severity.CRITICAL if share >= THRESHOLDS["most"].value else Severity.WARNING


def _usual(found: Mapping[Difference, int]) -> Difference | None:
    """The difference that most of the responses told of have; None where they do not agree, or none is told."""
    if not found:
        return None
    one, count = Counter(found).most_common(1)[0]
    columns = {each.column for each in found}
    return one if count * len(columns) >= sum(found.values()) * 0.9 else None


def _sizes(found: Mapping[Difference, int]) -> str:
    one = _usual(found)
    if one is None:
        return f", by {min(each.tokens for each in found):+d} to {max(each.tokens for each in found):+d} tokens" if found else ""
    if not one.tokens:
        return f": {one.column} is missing"
    return f": {one.column} has {abs(one.tokens)} {'more' if one.tokens > 0 else 'fewer'} than {one.base} in each"


def _why(found: Mapping[Difference, int]) -> str:
    one = _usual(found)
    size = abs(one.tokens) if one else 0
    if one and size == 1:
        return "one token on every response: ids rebuilt by decoding and encoding the text, or an end token that only one side counts"
    if one and size > 1:
        return f"a constant {size} on every response: image or tool tokens are expanded on one side, and the other gathers at wrong places"
    if one:
        return "a column that some responses lack: it was not recorded for them"
    return "the two sides were not made from the same tokens, so their log-probabilities cannot be paired"


def _fixes(case: Case, found: Mapping[Difference, int]) -> tuple[Fix, ...]:
    one = _usual(found)
    if one and abs(one.tokens) > 1:
        gather = (
            "expand image and tool placeholders before log-probabilities are gathered, and gather only at the places of the response's ids"
        )
        return (Fix(change=gather, where="the trainer's code that gathers log-probabilities"), fix(case, Remedy.TOKEN_IN_TOKEN_OUT))
    return (fix(case, Remedy.TOKEN_IN_TOKEN_OUT),)


def _told(found: Mapping[Difference, int]) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(
            metric=f"length.{one.column}",
            says=f"{one.column} minus {one.base}: {one.tokens:+d} tokens in {count} of the responses named",
            value=float(one.tokens),
            threshold=0.0,
            source="definition: one value per token",
            origin="read problems",
        )
        for one, count in Counter(found).most_common(3)
        if one.tokens
    )


RULE = Rule(
    id="data_length_mismatch",
    layer=Layer.DATA,
    title="Columns of different length",
    check=check,
    thresholds=THRESHOLDS,
)
