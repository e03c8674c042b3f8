"""What a value is compared with: each relation, at its edges; and what is read of a frame."""

import math
from dataclasses import replace

import pyarrow as pa
import pytest

from ingest.run import OLDER
from ingest.schema import METRIC_FRAME
from monitor.alerts.levels import Against, Mark, against, mark, threshold
from monitor.alerts.machine import Observation, Phase
from monitor.alerts.observation import observations, without_older
from monitor.alerts.policy import AlertRule, Comparison, Relation, RuleKind
from tests.monitor.alerts.observed import RULE, fed, seen
from tests.monitor.pages.frames import frame

RISING = AlertRule(id="r", metric="clip_rate.total.outside", comparison=Comparison.ABOVE, threshold=2.0, recover=1.0)
OFF_ONE = AlertRule(
    id="m",
    metric="ratio.total.mean",
    comparison=Comparison.ABOVE,
    threshold=5.0,
    recover=2.0,
    centre=1.0,
    at_least=0.001,
    relation=Relation.STANDARD_ERROR,
)
LIMIT = replace(RISING, relation=Relation.LIMIT, setting="staleness.max_versions", threshold=1.0)
OVER_REFERENCE = replace(RISING, relation=Relation.REFERENCE, threshold=4.0, recover=2.0)


def _marks(rule, *values, compared=None, floor=None, error=None):
    one = Observation(run="r", step=5, metric=rule.metric, value=0.0, standard_error=error)
    return "".join(mark(rule, replace(one, value=value), compared or Against(), floor) for value in values)


@pytest.mark.parametrize(
    ("comparison", "marks"),
    [(Comparison.BELOW, "b--cc"), (Comparison.AT_MOST, "bb--c"), (Comparison.ABOVE, "cc--b"), (Comparison.AT_LEAST, "c--bb")],
)
def test_equality_belongs_to_the_forms_that_name_it(comparison, marks):
    out, back = (0.5, 0.6) if comparison.falling else (0.6, 0.5)
    values = (0.49, 0.5, 0.55, 0.6, 0.61)
    rule = replace(RULE, comparison=comparison, threshold=out, recover=back)
    assert _marks(rule, *values) == marks


def test_nan_is_nan_and_infinity_is_a_number():
    assert _marks(RULE, math.nan, math.inf, -math.inf) == "ncb"


def test_a_multiple_of_the_floor():
    rule = replace(RISING, relation=Relation.FLOOR, threshold=3.0, recover=2.0)
    assert _marks(rule, 0.61, 0.5, 0.3, floor=0.2) == "b-c"
    assert _marks(rule, 0.61, floor=None) == _marks(rule, 0.61, floor=-0.1) == "?"
    assert _marks(replace(rule, at_least=0.9), 0.61, 0.7, 0.91, floor=0.2) == "-" * 1 + "-b"


def test_standard_errors_count_on_either_side_of_the_centre():
    assert _marks(OFF_ONE, 1.051, 0.949, 1.03, 1.01, error=0.01) == "bb-c"
    assert _marks(OFF_ONE, 1.0005, 1.002, error=0.0) == "cb"
    assert _marks(OFF_ONE, 1.5, error=None) == _marks(OFF_ONE, 1.5, error=math.inf) == "?"
    low = Observation(run="r", step=0, metric="ratio.total.mean", value=0.9, standard_error=0.01)
    assert threshold(OFF_ONE, low, Against(), None) == pytest.approx(0.95)


@pytest.mark.parametrize(("said", "marks"), [({"staleness.max_versions": 2}, "cb"), ({}, "??"), ({"staleness.max_versions": "2"}, "??")])
def test_a_setting_of_the_run_is_the_limit(said, marks):
    assert _marks(replace(LIMIT, recover=None), 2.0, 3.0, compared=Against(settings=said)) == marks


def _reference(*seeds):
    frames = [frame(clip_rate__total__outside=list(values)) for values in seeds]
    return against({}, frames, [OVER_REFERENCE])


NOISY = ([0.1, 0.12, 0.09, 0.11] * 5, [0.11, 0.09, 0.12, 0.1] * 5)


def test_a_reference_gives_its_centre_and_its_noise_and_nothing_beyond_its_end():
    compared = _reference(*NOISY)
    baseline = compared.baselines["clip_rate.total.outside", "tokens"]
    centre, noise = baseline.at(5)
    assert centre == pytest.approx(0.105)
    assert 0.01 < noise < 0.03
    assert _marks(OVER_REFERENCE, centre + 4.1 * noise, centre + 3 * noise, centre + noise, 0.0, compared=compared) == "b-cc"
    below = replace(OVER_REFERENCE, comparison=Comparison.BELOW)
    assert _marks(below, centre - 4.1 * noise, centre - 3 * noise, centre, 1.0, compared=compared) == "b-cc"
    assert _marks(OVER_REFERENCE, centre + 4.1 * noise, compared=compared, error=3 * noise) == "c"
    assert _marks(replace(OVER_REFERENCE, at_least=0.5), centre + 4.1 * noise, compared=compared) == "c"
    late = Observation(run="r", step=20, metric="clip_rate.total.outside", value=9.0)
    assert mark(OVER_REFERENCE, late, compared, None) is Mark.UNKNOWN


def test_without_a_reference_or_from_another_origin_nothing_is_known():
    assert _marks(OVER_REFERENCE, 9.0) == "?"
    logged = Observation(run="r", step=5, metric="clip_rate.total.outside", value=9.0, origin="logged")
    assert mark(OVER_REFERENCE, logged, _reference(*NOISY), None) is Mark.UNKNOWN


def test_a_reference_of_which_one_seed_lacks_the_metric_is_none():
    assert against({}, [frame(clip_rate__total__outside=[0.1] * 9), frame(entropy__mean=[1.0] * 9)], [OVER_REFERENCE]).baselines == {}


def test_the_sign_of_a_condition_changes_with_what_is_compared():
    signs = {
        Against().sign(RULE),
        Against().sign(replace(RULE, threshold=0.4)),
        Against().sign(LIMIT),
        Against(settings={"staleness.max_versions": 3}).sign(LIMIT),
        Against().sign(OVER_REFERENCE),
        _reference(*NOISY).sign(OVER_REFERENCE),
        _reference(NOISY[0]).sign(OVER_REFERENCE),
    }
    assert len(signs) == 7
    assert Against().sign(RULE) == Against().sign(replace(RULE, what="other", cap=3, severity="critical"))
    assert _reference(*NOISY).sign(OVER_REFERENCE) == _reference(*NOISY).sign(OVER_REFERENCE)


# From a frame


def _rows(*rows):
    filled = [{"n": 10, "standard_error": None, "origin": "tokens", "source_key": "", "caveat": "", **row} for row in rows]
    return pa.Table.from_pylist(filled, schema=METRIC_FRAME)


def test_of_a_frame_what_rules_read_is_taken_and_one_row_of_every_step():
    found = observations(frame(ess__lag__token=[0.9, 0.8], entropy__mean=[1.0, 1.0, 1.0]), "r", [RULE], wall_time=5.0)
    assert [(one.step, one.metric) for one in found if one.metric == "ess.lag.token"] == [(0, "ess.lag.token"), (1, "ess.lag.token")]
    assert {one.step for one in found} == {0, 1, 2}
    assert {(one.run, one.wall_time) for one in found} == {("r", 5.0)}


def test_an_empty_mask_is_no_nan_and_another_nan_is():
    empty, nan = ({"step": step, "metric": "ess.lag.token", "value": math.nan, "n": n} for step, n in ((0, 0), (1, 7)))
    unknown = {"step": 2, "metric": "ess.lag.token", "value": math.nan, "n": None}
    assert [one.step for one in observations(_rows(empty, nan, unknown), "r", [RULE])] == [1, 2]


def test_every_value_that_is_not_finite_is_taken_and_every_count_of_them():
    rows = _rows(
        {"step": 0, "metric": "a", "value": 1.0},
        {"step": 0, "metric": "entropy.mean", "value": math.inf},
        {"step": 0, "metric": "nonfinite.engine", "value": 2.0},
        {"step": 0, "metric": "nonfinite.trainer", "value": 0.0},
        {"step": 0, "metric": "b", "value": 1.0},
    )
    assert [one.metric for one in observations(rows, "r", [])] == ["a", "entropy.mean", "nonfinite.engine"]
    glob = AlertRule(id="n", kind=RuleKind.NONFINITE, metric="b")
    assert [one.metric for one in observations(rows, "r", [glob])] == ["a", "entropy.mean", "nonfinite.engine", "b"]


def test_a_void_test_has_no_standard_error():
    row = {"step": 0, "metric": "ratio.total.mean", "value": 2.0, "standard_error": 0.1}
    void = {**row, "step": 1, "caveat": "split: exact; mean-ratio test void: rows were dropped after sampling"}
    assert [one.standard_error for one in observations(_rows(row, void), "r", [OFF_ONE])] == [0.1, None]


def test_of_a_group_the_run_that_crosses_first_is_read():
    rows = [
        {"step": step, "metric": f"ess.total.token{end}", "value": value}
        for step in (0, 1)
        for end, value in (("", 0.9), (".group_low", 0.3))
    ]
    no_envelope = {"step": 2, "metric": "ess.total.token.group_low", "value": math.nan}
    state, told = fed([observations(_rows(*rows, no_envelope), "r", [RULE])])
    assert (state.phase, told[0].metric) == (Phase.FIRING, "ess.total.token.group_low")
    assert "lowest run of the group" in told[0].text


def test_what_a_restart_has_not_reached_is_left_out_of_a_run_that_goes_on():
    plain = [{"step": step, "metric": "ess.lag.token", "value": 0.9, "caveat": OLDER if step == 4 else ""} for step in range(7)]
    derived = [{"step": step, "metric": "ess.total.token", "value": 0.9, "caveat": "derived from sums"} for step in range(7)]
    plain[5]["caveat"] = OLDER
    other = [{"step": step, "metric": "entropy.mean", "value": 0.9} for step in range(9)]
    kept = without_older(_rows(*plain, *derived, *other)).to_pylist()
    assert {
        name: max(row["step"] for row in kept if row["metric"] == name) for name in ("ess.lag.token", "ess.total.token", "entropy.mean")
    } == {
        "ess.lag.token": 3,
        "ess.total.token": 3,
        "entropy.mean": 8,
    }
    whole = _rows(*other)
    assert without_older(whole) is whole


def test_no_frame_is_no_observation():
    assert observations(METRIC_FRAME.empty_table(), "r", [RULE]) == ()
    assert seen() == []
