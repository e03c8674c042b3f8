"""A rule that can never fire on a log says so when it is set up; one that can, says nothing."""

import math
from dataclasses import replace

import pyarrow as pa
import pytest

from ingest.dialect import Key
from ingest.load import load
from ingest.schema import METRIC_FRAME
from monitor.alerts.levels import Against, against
from monitor.alerts.never import never_fires, never_firing
from monitor.alerts.policy import AlertRule, Comparison, Relation, RuleKind, default_policy
from monitor.metrics.frame import metric_frame
from tests.monitor.alerts.observed import RULE
from tests.monitor.alerts.test_levels import LIMIT, NOISY, OFF_ONE, OVER_REFERENCE
from tests.monitor.pages.frames import frame

TOTAL = replace(RULE, metric="ess.total.token")


def _one(metric="ess.total.token", values=(0.9, 0.8), **more):
    rows = [
        {
            "step": step,
            "metric": metric,
            "value": value,
            "n": 100,
            "standard_error": None,
            "origin": "logged",
            "source_key": "",
            "caveat": "",
        }
        for step, value in enumerate(values)
    ]
    return pa.Table.from_pylist([row | more for row in rows], schema=METRIC_FRAME)


def test_a_rule_that_can_fire_says_nothing():
    assert never_fires(TOTAL, _one()) is None
    assert never_fires(RULE, _one()) is None
    assert never_firing((TOTAL, RULE), _one()) == {}


def test_a_missing_column_is_said_with_what_to_record():
    said = never_fires(RULE, frame(entropy__mean=[1.0]))
    assert said.startswith("can never fire")
    assert "same_weights_logprob" in said


def test_a_metric_that_does_not_exist_is_said_with_those_it_may_be():
    assert "did you mean ess.lag.token" in never_fires(replace(RULE, metric="ess.lag.tokn"), frame(entropy__mean=[1.0]))
    assert "summarize" in never_fires(replace(RULE, metric="zzzz"), frame(entropy__mean=[1.0]))


def test_a_metric_without_a_number_is_said():
    assert "NaN or empty at all of its 2 steps" in never_fires(TOTAL, _one(values=(math.nan, math.nan)))


@pytest.mark.parametrize(
    ("threshold", "comparison", "sleeps"), [(0.5, "<", True), (0.64, "<", True), (0.64, "<=", False), (0.7, "<", False)]
)
def test_a_floor_of_truncated_weights_over_the_threshold_is_said(threshold, comparison, sleeps):
    caveat = Key(raw="k", quantity="ess.total.token", floor=0.64, caveat="of truncated weights").all_caveats
    rule = replace(TOTAL, threshold=threshold, comparison=Comparison(comparison))
    said = never_fires(rule, _one(caveat=caveat))
    assert (said is not None) is sleeps
    assert said is None or "can never fire on this log: ess.total.token cannot fall under 0.64" in said


def test_a_floor_of_truncated_weights_is_read_off_a_real_dialect(tmp_path):
    path = tmp_path / "verl.jsonl"
    keys = '"rollout_corr/rollout_is_eff_sample_size": 0.7, "rollout_corr/rollout_is_veto_fraction": 0.0, "actor/pg_loss": 0.1'
    path.write_text("".join(f'{{"step": {step}, "data": {{{keys}}}}}\n' for step in range(4)))
    (run,) = load(path)
    said = never_fires(RULE, metric_frame(run))
    assert said is not None
    assert "cannot fall under" in said
    assert "0.64" in said


def test_a_floor_that_the_log_does_not_give_may_be_one():
    vague = (
        "the weights are clamped to [1/C, C] first, so this cannot fall under 4/(C + 1/C)², 0.64 for C = 2; this log does not say what C is"
    )
    assert never_fires(TOTAL, _one(caveat=vague)).startswith("may never fire on this log: ess.total.token cannot fall under 4/(C")


def test_a_value_that_is_constant_by_construction_is_said():
    caveat = Key(raw="k", quantity="ess.total.token", constant="old is recomputed").all_caveats
    assert "constant by construction: old is recomputed" in never_fires(TOTAL, _one(caveat=caveat))


@pytest.mark.parametrize(
    ("metric", "comparison", "threshold"),
    [("ess.total.token", "<", 0.0), ("ess.total.token", ">", 1.0), ("clip_rate.total.outside", ">", 1.2), ("kl.total.k3", "<", -1.0)],
)
def test_a_threshold_beyond_every_value_is_said(metric, comparison, threshold):
    rule = AlertRule(id="r", metric=metric, comparison=Comparison(comparison), threshold=threshold)
    assert "lies in [" in never_fires(rule, _one(metric))


def test_a_multiple_of_the_floor_beyond_every_value_is_said():
    rule = AlertRule(
        id="r", metric="clip_rate.total.outside", comparison=Comparison.ABOVE, threshold=3.0, relation=Relation.FLOOR, floor_steps=2
    )
    assert "lies in [0, 1], and the threshold is 1.2" in never_fires(rule, _one("clip_rate.total.outside", (0.4, 0.4)))
    assert never_fires(rule, _one("clip_rate.total.outside", (0.2, 0.2))) is None
    below = replace(rule, metric="log_ratio.total.mean")
    assert "what is under 0 means nothing" in never_fires(below, _one("log_ratio.total.mean", (-0.4, -0.4)))


def test_an_ess_of_too_few_weights_is_saturated_at_one_of_n():
    assert "taken over at most 2 weights, so it cannot fall under 1/2" in never_fires(TOTAL, _one(n=2))
    assert never_fires(TOTAL, _one(n=3)) is None
    assert never_fires(TOTAL, _one(n=None)) is None


def test_what_the_relation_needs_is_said_where_it_is_missing():
    lag = _one("clip_rate.total.outside", origin="tokens")
    assert "do not say staleness.max_versions" in never_fires(LIMIT, lag)
    assert (
        never_fires(replace(LIMIT, metric="version_lag.max"), _one("version_lag.max"), Against(settings={"staleness.max_versions": 2}))
        is None
    )
    assert "has no standard error" in never_fires(OFF_ONE, _one("ratio.total.mean"))
    assert never_fires(OFF_ONE, _one("ratio.total.mean", standard_error=0.1)) is None
    void = "mean-ratio test void: rows were dropped after sampling; else"
    assert never_fires(OFF_ONE, _one("ratio.total.mean", standard_error=0.1, caveat=void)).endswith("rows were dropped after sampling")


def test_a_rule_on_a_reference_needs_one_that_has_the_metric_as_the_log_has_it():
    log = _one("clip_rate.total.outside", origin="tokens")
    given = against({}, [frame(clip_rate__total__outside=list(values)) for values in NOISY], [OVER_REFERENCE])
    assert "no reference is given" in never_fires(OVER_REFERENCE, log)
    assert never_fires(OVER_REFERENCE, log, given) is None
    assert "as the log has it (logged)" in never_fires(OVER_REFERENCE, _one("clip_rate.total.outside"), given)
    late = frame(clip_rate__total__outside=([30, 31], [0.1, 0.1]))
    assert "the reference ends at step 19" in never_fires(OVER_REFERENCE, late, given)


def test_rules_on_any_value_can_fire_on_any_log_and_on_missing_data_always():
    empty = METRIC_FRAME.empty_table()
    kinds = {rule.kind: rule for rule in default_policy().rules}
    assert never_fires(kinds[RuleKind.NO_DATA], empty) is None
    assert never_fires(kinds[RuleKind.NONFINITE], empty) == "the log has no value yet"
    assert never_fires(kinds[RuleKind.NONFINITE], _one()) is None
