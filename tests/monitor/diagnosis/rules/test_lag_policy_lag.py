"""Policy lag: fires on samples of a policy that was left, not on numerics, not on a policy that stood still."""

from __future__ import annotations

import numpy as np
import pytest

from monitor.diagnosis.outcome import Certainty, Finding, Passed, Severity, Skipped
from monitor.diagnosis.rules.lag_policy_lag import RULE
from tests.diagnosis_cases import case, sampled
from tests.lagging import lagging, without


def evidence(found, metric):
    """The piece of evidence of a metric."""
    return next(one for one in found.evidence if one.metric == metric)


def test_samples_of_a_policy_that_was_left_are_lag():
    found = RULE.check(case(tokens=lagging([0, 2, 4, 6, 8, 8, 8, 8], drift=0.12)))
    assert isinstance(found, Finding)
    assert (found.severity, found.certainty) == (Severity.WARNING, Certainty.MEASURED)
    assert "versions behind" in found.what
    assert evidence(found, "ess.lag.sequence").value < 0.5
    assert found.since in evidence(found, "ess.lag.sequence").steps


def test_a_token_level_under_one_half_is_critical():
    found = RULE.check(case(tokens=lagging([0, 8, 8, 8], drift=0.4)))
    assert evidence(found, "ess.lag.token").value < 0.5
    assert found.severity is Severity.CRITICAL


def test_the_curve_rises_with_the_version_lag_over_a_flat_floor():
    curve = evidence(RULE.check(case(tokens=lagging([0, 2, 4, 6, 8], drift=0.12))), "portrait.total_lag").curve
    assert curve.x == (0, 2, 4, 6, 8)
    assert list(curve.y) == sorted(curve.y)
    assert max(curve.expected) < 2 * min(curve.expected) < curve.y[-1]


def test_one_version_of_lag_is_none():
    found = RULE.check(case(tokens=lagging([0, 1, 1, 1, 1], drift=0.03)))
    assert isinstance(found, Passed)
    assert "lag is small" in found.says


def test_the_numerics_of_an_engine_are_none():
    assert isinstance(RULE.check(case(tokens=sampled(1, noise=1.0))), Passed)


def test_a_raw_engine_is_no_lag():
    assert isinstance(RULE.check(case(tokens=sampled(2, temperature=0.6, engine_reports_raw=True))), Passed)


def test_without_the_split_the_versions_of_tokens_tell():
    tokens = without(lagging([0, 4, 8, 8], drift=0.15), "same_weights_logprob")
    found = RULE.check(case(tokens=tokens))
    assert (found.severity, found.certainty) == (Severity.WARNING, Certainty.INDICATED)
    assert evidence(found, "ess.lag.sequence").origin == "estimated"


def test_without_the_split_short_responses_keep_their_weight():
    """Per token the lag is beyond its threshold, but twelve tokens of it leave more than half of the sample."""
    found = RULE.check(case(tokens=without(lagging([0, 1, 1, 1], drift=0.15), "same_weights_logprob")))
    assert isinstance(found, Passed)
    assert evidence(found, "portrait.total_lag").value > RULE.thresholds["rms"].value
    assert 0.5 < evidence(found, "ess.lag.sequence").value < 0.95


def test_without_the_split_a_short_lag_is_none():
    assert isinstance(RULE.check(case(tokens=without(lagging([0, 1, 1], drift=0.03), "same_weights_logprob"))), Passed)


@pytest.mark.parametrize("wanted", ["same_weights_logprob", "rollout_version"])
def test_without_split_and_versions_it_cannot_be_told(wanted):
    tokens = without(lagging([0, 8, 8], drift=0.3), "same_weights_logprob", "rollout_version", "trainer_version")
    found = RULE.check(case(tokens=tokens))
    assert isinstance(found, Skipped)
    assert "cannot be told" in found.why
    assert wanted in found.record


@pytest.mark.parametrize("scalars", [{"grad_norm.global": [0.0] * 5}, {"learning_rate.value": [0.0] * 5}])
def test_r19_a_policy_that_did_not_move_does_not_lag(scalars):
    told = {
        "ratio.total.min": [0.9988] * 5,
        "ratio.total.max": [1.0329] * 5,
        "clip_rate.total.outside": [0.0] * 5,
        "version_lag.mean": [3.0] * 5,
    }
    found = RULE.check(case(scalars=told | scalars))
    assert isinstance(found, Passed)
    assert "policy did not move, so this is not lag" in found.says


def test_r19_a_gradient_that_is_not_0_moves_it():
    found = RULE.check(case(scalars={"grad_norm.global": [0.0, 0.0, 0.1], "ratio.total.max": [1.03] * 3}))
    assert isinstance(found, Skipped)


STEPS = 20
AGES = np.minimum(np.arange(STEPS), 8.0)


def test_a_step_log_whose_mismatch_grows_with_the_version_lag():
    scalars = {"version_lag.mean": AGES, "log_ratio.total.abs_mean": 0.007 + 0.013 * AGES, "clip_rate.total.outside": 0.02 * AGES}
    found = RULE.check(case(scalars=scalars))
    assert (found.severity, found.certainty) == (Severity.WARNING, Certainty.INDICATED)
    assert "does not separate" in found.what


@pytest.mark.parametrize(
    "changed",
    [
        {"version_lag.mean": np.minimum(AGES, 1.0)},  # a lag that is planned
        {"log_ratio.total.abs_mean": np.full(STEPS, 0.11)},  # as large before the first update
        {"log_ratio.total.abs_mean": 0.1 + 0.1 * AGES},  # far apart before the first update
        {"log_ratio.total.abs_mean": np.full(STEPS, 0.01)},  # as small afterwards
        {"clip_rate.total.outside": np.zeros(STEPS)},  # nothing is clipped
    ],
)
def test_a_step_log_without_one_part_of_the_picture_cannot_tell(changed):
    scalars = {"version_lag.mean": AGES, "log_ratio.total.abs_mean": 0.007 + 0.013 * AGES, "clip_rate.total.outside": 0.02 * AGES}
    assert isinstance(RULE.check(case(scalars=scalars | changed)), Skipped)


def test_a_version_lag_of_0_is_no_lag():
    found = RULE.check(case(scalars={"version_lag.max": [0.0] * 5, "kl.total.k3": [0.1] * 5}))
    assert isinstance(found, Passed)


def test_a_logged_split_is_enough():
    ess = {"ess.lag.token": [0.99] * 5, "ess.lag.sequence": [0.9, 0.4, 0.3, 0.6, 0.7], "clip_rate.lag.outside": [0.08] * 5}
    found = RULE.check(case(scalars=ess))
    assert (found.severity, found.certainty) == (Severity.WARNING, Certainty.INDICATED)
    assert (found.since, found.until) == (2, 3)


def test_a_sequence_level_that_only_length_lowers_is_a_note():
    ess = {"ess.lag.token": [0.999] * 5, "ess.lag.sequence": [0.4] * 5, "clip_rate.lag.outside": [0.004] * 5}
    assert RULE.check(case(scalars=ess)).severity is Severity.NOTE


def test_a_sequence_level_as_low_as_the_references_is_a_note():
    ess = {"ess.lag.token": [0.99] * 5, "ess.lag.sequence": [0.4] * 5, "clip_rate.lag.outside": [0.06] * 5}
    own = case(scalars=ess)
    assert RULE.check(own).severity is Severity.WARNING
    assert RULE.check(case(scalars=ess, references={"v0": own.frame})).severity is Severity.NOTE
    better = case(scalars=ess | {"ess.lag.sequence": [0.9] * 5}).frame
    assert RULE.check(case(scalars=ess, references={"v0": better})).severity is Severity.WARNING


def test_where_the_loss_never_sees_it_the_objective_has_the_word():
    tokens = lagging([0, 8, 8, 8], drift=0.4)
    idle = {"clip_rate.update.outside": [0.0] * 4, "ratio.update.mean": [1.0] * 4}
    found = RULE.check(case(tokens=tokens, scalars=idle))
    assert found.severity is Severity.NOTE
    assert "nothing in the loss sees it" in found.what
    moving = idle | {"ratio.update.mean": [1.0, 1.0, 1.01, 1.0]}
    assert RULE.check(case(tokens=tokens, scalars=moving)).severity is Severity.CRITICAL


def test_an_engine_that_is_never_updated_is_to_be_sent_the_weights():
    found = RULE.check(case(tokens=lagging([0, 1, 2, 3, 4, 5, 6, 7, 8], drift=0.15), dialect="pipelinerl"))
    assert "weight_update_interval: 1" in found.fixes[0].change
    bounded = RULE.check(case(tokens=lagging([0, 8, 8, 8], drift=0.15), dialect="pipelinerl"))
    assert "max_lag" in bounded.fixes[0].change
