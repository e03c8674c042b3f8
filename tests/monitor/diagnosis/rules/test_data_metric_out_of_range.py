"""Impossible values: outside the range of their quantity, or counts that are 0 in every healthy log."""

import numpy as np
import pytest

from monitor.diagnosis.outcome import Certainty, Finding, Passed, Severity
from monitor.diagnosis.rules.data_metric_out_of_range import RULE
from tests.diagnosis_cases import case

HEALTHY = {"ess.total.token": [1.0, 0.98], "kl.total.k3": [0.0, 0.01], "kl.total.k1": [-0.01, 0.01], "clip_rate.total.outside": [0.0, 1.0]}


def test_r15_an_effective_sample_size_above_1():
    found = RULE.check(case(scalars={"ess.total.token": [0.9, 5 / 4]}))
    assert isinstance(found, Finding)
    assert (found.severity, found.certainty, found.since) == (Severity.WARNING, Certainty.INDICATED, 2)
    assert "cannot be over 1, but is 1.25" in found.what
    assert "wrong count" in found.why
    assert (found.evidence[0].value, found.evidence[0].threshold, found.evidence[0].steps) == (1.25, 1, (2,))


@pytest.mark.parametrize(
    ("metric", "value", "words"),
    [
        ("kl.total.k3", -0.01, "cannot be under 0, but is -0.01"),
        ("clip_rate.total.outside", 1.2, "cannot be over 1, but is 1.2"),
        ("clip_rate.total.outside", -0.2, "cannot be under 0, but is -0.2"),
        ("entropy.mean", -0.5, "cannot be under 0, but is -0.5"),
        ("logprob.rollout.mean", 0.7, "cannot be over 0, but is 0.7"),
        ("log_ratio.total.exp_abs_mean", 0.5, "cannot be under 1, but is 0.5"),
    ],
)
def test_each_side_of_a_range(metric, value, words):
    found = RULE.check(case(scalars=HEALTHY | {metric: [value]}))
    assert words in found.what
    assert metric in found.look_at


def test_values_at_the_ends_of_their_ranges_pass():
    assert isinstance(RULE.check(case(scalars=HEALTHY)), Passed)


def test_rounding_is_no_fault():
    assert isinstance(RULE.check(case(scalars={"ess.total.token": [1 + 1e-12], "kl.total.k3": [-1e-12]})), Passed)
    assert isinstance(RULE.check(case(scalars={"ess.total.token": [1 + 1e-6]})), Finding)


def test_values_that_are_no_numbers_are_another_rules():
    assert isinstance(RULE.check(case(scalars={"ess.total.token": [np.nan, 0.9], "kl.total.k3": [np.inf, 0.1]})), Passed)


@pytest.mark.parametrize("metric", ["positive.engine", "ess.total.token", "repeated.rows"])
def test_nor_is_a_count_or_a_share_that_is_nan_one_of_this_rules_but_an_infinite_one_is(metric):
    assert isinstance(RULE.check(case(scalars={metric: [np.nan]})), Passed)
    assert RULE.check(case(scalars={metric: [np.nan, 1.5]})).since == 2
    assert RULE.check(case(scalars={metric: [np.inf]})).since == 1


def test_the_worst_value_and_the_number_of_metrics_are_said():
    found = RULE.check(case(scalars={"ess.total.token": [1.1, 3.0, 1.2, 0.5], "kl.total.k3": [-1.0] * 4}))
    assert "is 3; so in 3 of 4 steps from step 1 on" in found.what
    assert "1 more metric has impossible values too" in found.what
    assert len(found.evidence) == 2


def test_negative_log_likelihoods_are_found():
    found = RULE.check(case(tokens={"rollout_logprob": [1.2] * 50, "current_logprob": [-1.2] * 50}))
    assert (found.severity, found.certainty) == (Severity.WARNING, Certainty.MEASURED)
    assert "50 engine log-probabilities above 0" in found.what


def test_a_few_log_probabilities_just_above_0_are_a_note():
    engine = np.full(100, -1.0)
    engine[:2] = 0.03125
    found = RULE.check(case(tokens={"rollout_logprob": engine, "current_logprob": np.full(100, -1.0)}))
    assert found.severity is Severity.NOTE
    assert "A43" in found.why


def test_more_than_a_few_are_none_of_rounding():
    engine = np.full(100, -1.0)
    engine[:10] = 0.5
    assert RULE.check(case(tokens={"rollout_logprob": engine, "current_logprob": np.full(100, -1.0)})).severity is Severity.WARNING


def test_rows_that_were_logged_twice():
    found = RULE.check(case(tokens={"position": [0, 1, 0, 1], "rollout_logprob": [-1.0] * 4, "current_logprob": [-1.0] * 4}))
    assert found.severity is Severity.WARNING
    assert "2 rows that repeat a position" in found.what
    assert "sample_id" in found.fixes[0].change


def _with_one_empty_step(rollout):
    return {"step": [1, 1, 2, 2], "sample_id": [0, 1, 2, 3], "position": [0] * 4, "loss_mask": [True, True, False, False]} | {
        "rollout_logprob": rollout,
        "current_logprob": [-1.0] * 4,
    }


def test_a_few_steps_without_tokens_are_a_note_and_hide_nothing_graver():
    note = RULE.check(case(tokens=_with_one_empty_step([-1.0] * 4)))
    assert (note.severity, note.evidence[0].steps) == (Severity.NOTE, (2,))
    assert "1 of 2 steps" in note.what
    grave = RULE.check(case(tokens=_with_one_empty_step([1.2, 1.3, 1.2, 1.2])))
    assert grave.severity is Severity.WARNING
    assert grave.evidence[0].metric.startswith("positive.")


def test_the_key_that_was_logged_is_the_one_to_correct():
    (fix,) = RULE.check(case(scalars={"ess.total.token": [0.9, 5 / 4]})).fixes
    assert "ess.total.token" in fix.change
