"""A rule is read in one place, says what it looked at, and never takes silence for health."""

import math

import pyarrow as pa
import pytest

from ingest.schema import METRIC_FRAME
from monitor.compare.flags import Flagged, NotTold, Rule, RuleError, flags


def _frame(metric, values, origin="tokens"):
    rows = [
        {"step": step, "metric": metric, "value": value, "n": 10, "standard_error": None, "origin": origin, "source_key": "", "caveat": ""}
        for step, value in enumerate(values)
    ]
    return pa.Table.from_pylist(rows, schema=METRIC_FRAME)


@pytest.mark.parametrize("text", ["ess.lag.token < 0.5", " ess.lag.token<0.5 ", "kl.total.k3 >= 1e-3"])
def test_a_rule_reads_back_as_it_was_written(text):
    assert str(Rule.parse(text)).replace(" ", "") == text.replace(" ", "").replace("1e-3", "0.001")


@pytest.mark.parametrize("text", ["", "ess.lag.token", "ess.lag.token = 0.5", "0.5 > ess.lag.token", "ess.lag.token < half", "a < 1.2.3"])
def test_a_rule_of_another_form_is_refused_with_an_example(text):
    with pytest.raises(RuleError, match=r"for instance|not a number"):
        Rule.parse(text)


def test_the_lag_is_read_where_it_is_and_the_total_stands_in_by_name_where_it_is_not():
    own = flags(_frame("ess.lag.token", [0.4]), Rule.parse("ess.lag.token < 0.5"))
    assert (own.metric, own.label) == ("ess.lag.token", "ess.lag.token")
    stand_in = flags(_frame("ess.total.token", [0.4]), Rule.parse("ess.lag.token < 0.5"))
    assert stand_in.metric == "ess.total.token"
    assert "cannot be separated" in stand_in.label


def test_a_level_is_never_taken_for_another():
    told = flags(_frame("ess.total.token", [0.4]), Rule.parse("ess.lag.sequence < 0.5"))
    assert isinstance(told, NotTold)
    assert "same_weights_logprob" in told.reason


def test_greater_than_finds_the_highest():
    found = flags(_frame("kl.total.k3", [0.0, 0.3, 0.7, 0.1]), Rule.parse("kl.total.k3 > 0.2"))
    assert isinstance(found, Flagged)
    (stay,) = found.crossings
    assert (stay.from_step, stay.to_step, stay.lowest) == (1, 2, 0.7)


@pytest.mark.parametrize(("rule", "crossed"), [("< 0.5", False), ("<= 0.5", True), ("> 0.5", False), (">= 0.5", True)])
def test_equality_belongs_to_the_forms_that_name_it(rule, crossed):
    assert bool(flags(_frame("entropy.mean", [0.5]), Rule.parse(f"entropy.mean {rule}")).crossings) is crossed


def test_nan_is_counted_and_flags_nothing_by_itself():
    found = flags(_frame("ess.lag.token", [math.nan, 0.9]), Rule.parse("ess.lag.token < 0.5"))
    assert (found.unknown, found.steps, found.crossings) == (1, 2, ())


GROUP = [
    _frame("ess.total.token", [0.9, 0.6, 0.9], "logged"),
    _frame("ess.total.token.group_low", [0.8, 0.4, 0.8], "logged"),
    _frame("ess.total.token.group_high", [1.0, 0.9, 1.2], "logged"),
]


@pytest.mark.parametrize(
    ("rule", "bound", "steps", "words"),
    [
        ("ess.total.token < 0.5", "group_low", [1], "lowest run of the group"),
        ("ess.total.token > 1.1", "group_high", [2], "highest run of the group"),
    ],
)
def test_of_a_group_the_run_that_crosses_first_is_looked_at(rule, bound, steps, words):
    found = flags(pa.concat_tables(GROUP), Rule.parse(rule))
    assert (found.bound, [stay.from_step for stay in found.crossings]) == (bound, steps)
    assert found.label == f"ess.total.token ({words})"


def test_where_the_envelope_has_a_gap_the_mean_is_looked_at():
    frame = pa.concat_tables([GROUP[0], _frame("ess.total.token.group_low", [float("nan"), float("nan"), 0.3], "logged")])
    assert [stay.from_step for stay in flags(frame, Rule.parse("ess.total.token < 0.7")).crossings] == [1]
    assert flags(GROUP[0], Rule.parse("ess.total.token < 0.7")).bound == "value"


def test_a_frameworks_log_with_the_discrepancy_alone_is_read_by_that_name():
    found = flags(_frame("ess.discrepancy.token", [0.9, 0.4], origin="logged"), Rule.parse("ess.lag.token < 0.5"))
    assert found.metric == "ess.discrepancy.token"
    assert "neither the lag's nor the total's" in found.label
    assert len(found.crossings) == 1
