"""The largest version lag that keeps the ESS above 1/2: found again where it is known, refused where the log does not show it."""

import math

import numpy as np
import pytest

from monitor.corrections._replay_interval import FARTHEST, StepLags, binned, by_lag, fit
from monitor.metrics.terms import Level
from tests.monitor.corrections.replayed import step_of


def _steps(lags, variance, *, sequences=400, length=4, seed=0):
    """Steps whose sequences have a log-normal ratio of the given variance at each lag."""
    rng = np.random.default_rng(seed)
    made = []
    for lag in lags:
        own = np.atleast_1d(lag)
        of_sequence = np.repeat(own, sequences // len(own))
        total = np.array([variance(k) for k in of_sequence])
        x = -total / 2 + np.sqrt(total) * rng.standard_normal(len(total))
        made.append(step_of(np.repeat(x / length, length), [length] * len(x), version_lag=np.repeat(of_sequence, length)))
    return made


def _fit(level, steps):
    return fit(level, [by_lag(step)[level] for step in steps])


@pytest.mark.parametrize(("exponent", "variance"), [(2, lambda k: 0.02 * k**2), (1, lambda k: 0.1 * k)])
def test_the_law_and_the_crossing_are_found_again(exponent, variance):
    found = _fit(Level.SEQUENCE, _steps([1, 2, 3, 4] * 6, variance))
    truth = (math.log(2) / variance(1)) ** (1 / exponent)
    assert found.exponent == pytest.approx(exponent, abs=0.25)
    assert found.exponent_range[0] <= exponent <= found.exponent_range[1]
    assert found.largest_lag == pytest.approx(truth, rel=0.15)
    assert found.largest_lag_range[0] <= truth <= found.largest_lag_range[1]
    assert found.sync_interval == math.floor(found.largest_lag)
    assert ("about quadratic" if exponent == 2 else "about linear") in found.shape
    assert not found.beyond


def test_a_frozen_generator_shows_each_lag_at_one_step_and_far_lags_do_not_bend_the_fit():
    found = _fit(Level.SEQUENCE, _steps(range(1, 40), lambda k: 0.05 * k, sequences=600))
    assert found.largest_lag == pytest.approx(math.log(2) / 0.05, rel=0.3)
    assert len(found.lags) == len(found.ess)


def test_lags_inside_one_step_and_tokens_are_told_apart():
    steps = _steps([[0, 1, 2, 4]] * 8, lambda k: 0.08 * k)
    token, sequence = (_fit(level, steps) for level in (Level.TOKEN, Level.SEQUENCE))
    assert token.lags == sequence.lags == (0, 1, 2, 4)
    assert token.largest_lag > sequence.largest_lag
    assert sequence.ess == tuple(sorted(sequence.ess, reverse=True))


def test_few_sequences_of_a_lag_in_each_step_tell_as_much_as_many():
    found = _fit(Level.SEQUENCE, _steps([1, 2] * 400, lambda k: 0.05 * k, sequences=6))
    np.testing.assert_allclose(-np.log(found.ess), [0.05, 0.1], rtol=0.06)


def test_the_same_tokens_give_the_same_range_again():
    steps = _steps([1, 2, 3] * 5, lambda k: 0.1 * k)
    assert _fit(Level.SEQUENCE, steps) == _fit(Level.SEQUENCE, steps)


def test_what_lies_farther_out_than_the_log_shows_is_a_lower_bound():
    found = _fit(Level.SEQUENCE, _steps([1, 2] * 5, lambda k: 1e-4 * k))
    assert found.beyond
    assert found.largest_lag == FARTHEST * 2
    assert found.largest_lag_range[1] == FARTHEST * 2


@pytest.mark.parametrize(
    ("lags", "variance", "why"),
    [
        ([3] * 6, lambda k: 0.1 * k, "one version lag only (3)"),
        ([0] * 6, lambda _: 0.0, "no version lag to learn from"),
        ([1, 2] * 6, lambda k: 0.3 / k, "does not fall"),
        ([5, 6] * 6, lambda k: 4.0 * k, "at version lag 5"),
        ([1, 2] * 6, lambda _: 0.0, "ratio is not 1"),
    ],
)
def test_what_the_log_does_not_show_is_said(lags, variance, why):
    found = _fit(Level.SEQUENCE, _steps(lags, variance))
    assert why in found.cannot_tell
    assert (found.largest_lag, found.sync_interval, found.shape) == (None, None, "")


def test_without_versions_there_is_nothing_to_fit():
    assert by_lag(step_of([0.1, 0.2], [1, 1])) == {}
    assert fit(Level.TOKEN, []).record == ("rollout_version", "trainer_version")


def test_a_sequence_over_several_versions_counts_at_its_mean_lag_and_impossible_lags_do_not_count():
    step = step_of([0.1] * 6, [3, 3], version_lag=[1, 2, 3, -1, -1, -1])
    assert by_lag(step)[Level.SEQUENCE].lags.tolist() == [2]
    assert by_lag(step)[Level.TOKEN].lags.tolist() == [1, 2, 3]


def test_lags_above_32_share_bins_that_hold_them():
    lags = np.arange(0, 5000)
    found = binned(lags)
    assert np.array_equal(found[:33], lags[:33])
    assert np.all(np.abs(found[33:] - lags[33:]) <= 0.06 * lags[33:])
    assert len(np.unique(found)) < 100
    assert np.all(np.diff(found) >= 0)


def test_where_the_bootstrap_does_not_know_whether_the_ess_falls_no_lag_is_named():
    rng, lags = np.random.default_rng(1), np.array([4, 5, 6, 7])
    steps = []
    for _ in range(9):
        second = 50 * np.exp(rng.exponential(0.2, 4))  # sum of w^2 of 50 weights of mean 1
        scatter = 50 * rng.exponential(0.2, 4)
        steps.append(StepLags(lags=lags, count=np.full(4, 50), first=np.full(4, np.log(50)), second=np.log(second), scatter=scatter))
    told = fit(Level.SEQUENCE, steps)
    assert told.largest_lag is None
    assert "lost in the noise" in told.cannot_tell
    assert told.record == ("more steps",)
    assert len(told.ess) == 4  # what was measured is still shown
