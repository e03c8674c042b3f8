"""A collapse without mismatch: the reward falls for good while the two sides agree."""

from __future__ import annotations

import numpy as np
import pytest

from monitor.diagnosis.outcome import Certainty, Finding, Passed, Severity, Skipped
from monitor.diagnosis.rules.objective_collapse_without_mismatch import RULE
from tests.diagnosis_cases import case

AGREE = {"log_ratio.discrepancy.abs_mean": [0.007] * 60, "ratio.discrepancy.mean": [1.0001] * 60, "ess.lag.sequence": [0.98] * 60}


def noisy(values, seed=0, n=64):
    """Mean rewards of batches of n answers that are right or wrong."""
    return np.random.default_rng(seed).binomial(n, np.clip(values, 0, 1)) / n


RISE = np.linspace(0.15, 0.8, 60)
FALL = np.r_[np.linspace(0.15, 0.8, 40), np.full(20, 0.05)]


@pytest.mark.parametrize("seed", range(3))
def test_a_reward_that_falls_off_its_plateau(seed):
    found = RULE.check(case(scalars=AGREE | {"reward.mean": noisy(FALL, seed)}))
    assert isinstance(found, Finding)
    assert (found.severity, found.certainty) == (Severity.CRITICAL, Certainty.INDICATED)
    assert "engine agreement is fine: look at the objective" in found.what
    assert found.since == 41
    assert found.fixes[0].change.startswith("look at")


@pytest.mark.parametrize("seed", range(20))
def test_a_reward_that_rises_or_stays_is_none(seed):
    for values in (RISE, np.full(60, 0.3), np.full(24, 0.15), np.r_[RISE[:30], np.full(30, 0.35)]):
        assert isinstance(RULE.check(case(scalars={"reward.mean": noisy(values, seed)})), Passed)


def test_a_bad_stretch_that_is_over_is_none():
    values = np.r_[np.full(25, 0.7), np.full(10, 0.05), np.full(25, 0.7)]
    assert isinstance(RULE.check(case(scalars={"reward.mean": noisy(values)})), Passed)


def test_a_loss_of_a_third_is_none():
    values = np.r_[np.full(40, 0.75), np.full(20, 0.5)]
    assert isinstance(RULE.check(case(scalars={"reward.mean": noisy(values)})), Passed)


def test_rewards_under_0_are_measured_by_what_was_won():
    values = np.r_[np.linspace(-1, 0.1, 40), np.full(20, -0.9)] + 0.05 * np.random.default_rng(0).normal(size=60)
    assert isinstance(RULE.check(case(scalars={"reward.mean": values})), Finding)
    assert isinstance(RULE.check(case(scalars={"reward.mean": values + 100})), Passed)  # a percent of the level is no collapse


def test_with_a_mismatch_it_is_another_layer():
    found = RULE.check(case(scalars=AGREE | {"reward.mean": noisy(FALL), "log_ratio.discrepancy.abs_mean": [0.3] * 60}))
    assert isinstance(found, Passed)
    assert "not without mismatch" in found.says


def test_an_entropy_that_is_gone_while_the_reward_wins_nothing():
    entropy = np.geomspace(1.3, 0.01, 60)
    stuck = RULE.check(case(scalars=AGREE | {"entropy.mean": entropy, "reward.mean": noisy(np.full(60, 0.2))}))
    assert (stuck.severity, stuck.since) == (Severity.WARNING, None)
    assert "entropy" in stuck.what
    assert isinstance(RULE.check(case(scalars=AGREE | {"entropy.mean": entropy, "reward.mean": noisy(RISE)})), Passed)  # it has learnt
    assert isinstance(RULE.check(case(scalars=AGREE | {"entropy.mean": np.geomspace(1.3, 0.13, 60)})), Passed)


def test_it_names_the_numbers_that_clear_the_earlier_layers():
    found = RULE.check(case(scalars=AGREE | {"reward.mean": noisy(FALL)}))
    assert {one.metric for one in found.evidence} == {"reward.mean", *AGREE}
    assert len(found.apart_from) == len(AGREE)


def test_it_is_the_last_resort():
    assert RULE.last_resort


def test_without_reward_and_entropy_it_says_what_to_record():
    own = case(scalars=AGREE)
    assert RULE.missing(own) == ("reward.mean",)
    assert isinstance(RULE.check(own), Skipped)
    assert isinstance(RULE.check(case(scalars={"reward.mean": [0.5] * 5})), Skipped)
