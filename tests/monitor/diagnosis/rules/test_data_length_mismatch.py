"""Columns of different length: constant, varying and missing; a lone cut-off response is a note."""

import pyarrow as pa
import pytest

from ingest.run import ProblemKind, ReadProblem
from monitor.diagnosis.outcome import Certainty, Finding, Passed, Severity, Skipped
from monitor.diagnosis.rules.data_length_mismatch import RULE
from tests.diagnosis_cases import case


def responses(lengths):
    """A case whose responses have so many values in each column: a list of {column: length}; None is a missing list."""
    columns = {"step": [1] * len(lengths), "sample_id": list(range(len(lengths)))}
    for name in lengths[0]:
        columns[name] = [None if (n := one[name]) is None else [(7 if name == "token_id" else -1.0)] * n for one in lengths]
    return case(tokens=pa.table(columns))


def lists(ids, engine, trainer):
    return {"token_id": ids, "rollout_logprob": engine, "current_logprob": trainer}


def test_r11_one_log_probability_more_on_every_row():
    found = RULE.check(responses([lists(n, n + 1, n + 1) for n in range(20, 140)]))
    assert isinstance(found, Finding)
    assert (found.severity, found.certainty) == (Severity.CRITICAL, Certainty.MEASURED)
    assert "120 of 120 responses" in found.what
    assert "1 more than token_id" in found.what
    assert "decoding and encoding" in found.why
    assert found.evidence[0].value == 1


def test_r12_image_tokens_expanded_on_one_side():
    found = RULE.check(responses([lists(73, 73, 648)] * 4))
    assert "current_logprob has 575 more than token_id" in found.what
    assert "image or tool tokens" in found.why
    assert [one.value for one in found.evidence] == [1, 575]


def test_fewer_is_said_as_fewer():
    found = RULE.check(responses([lists(20, 20, 19)] * 4))
    assert "current_logprob has 1 fewer than token_id" in found.what
    assert found.evidence[1].value == -1


def test_differences_that_vary_are_no_constant():
    found = RULE.check(responses([lists(20, 20, 20 + extra) for extra in (1, 3, 9, 30)]))
    assert "by +1 to +30 tokens" in found.what
    assert "cannot be paired" in found.why


def test_a_missing_list_is_named():
    found = RULE.check(responses([lists(20, 20, None), lists(20, 20, 20)]))
    assert "1 of 2 responses" in found.what
    assert "current_logprob is missing" in found.what


@pytest.mark.parametrize(("bad", "severity"), [(1, Severity.NOTE), (4, Severity.WARNING), (60, Severity.WARNING), (150, Severity.CRITICAL)])
def test_the_share_of_responses_decides_how_grave_it_is(bad, severity):
    assert RULE.check(responses([lists(5, 5, 4)] * bad + [lists(5, 5, 5)] * (200 - bad))).severity is severity


def test_problems_beyond_those_named_singly_are_counted():
    found = RULE.check(responses([lists(5, 5, 4)] * 100 + [lists(5, 5, 5)] * 100))
    assert "100 of 200" in found.what
    assert found.evidence[0].value == 0.5


@pytest.mark.parametrize(
    "what",
    ["its lists differ in length: rollout_logprob 73, current_logprob 648", "input_lengths is 73, but the lists have 648 values"],
)
def test_other_readers_words_are_understood(what):
    problem = ReadProblem(path="dump.jsonl", place="line 3", what=what, rows=1)
    found = RULE.check(case(scalars={"reward.mean": [1.0]}, problems=[problem]))
    assert "1 of 1 responses" in found.what
    assert "575 more" in found.what


def test_other_problems_and_notes_are_none():
    problems = [
        ReadProblem(path="a", place="line 3", what="not a number", rows=5),
        ReadProblem(path="a", place="line 4", what="the lists differ in length: a 1, b 2", rows=1, kind=ProblemKind.NOTE),
    ]
    found = RULE.check(case(scalars={"reward.mean": [1.0]}, problems=problems))
    assert isinstance(found, Skipped)
    assert "rollout_logprob" in found.record


def test_equal_lengths_pass_whatever_they_are():
    assert isinstance(RULE.check(responses([lists(n, n, n) for n in (1, 5, 9)])), Passed)
    assert isinstance(RULE.check(case(tokens={"rollout_logprob": [-1.0] * 3, "current_logprob": [-1.0] * 3})), Passed)


def test_what_the_pass_over_the_tokens_left_out_joins_the_runs_problems():
    run = responses([lists(20, 20, 19), lists(20, 20, 20)]).run
    assert [(one.rows, "rollout_logprob 20, current_logprob 19" in one.what) for one in run.problems] == [(1, True)]
