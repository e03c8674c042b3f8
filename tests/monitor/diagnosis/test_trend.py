"""Trends and jumps against scipy and closed forms."""

import math

import numpy as np
import pytest
from scipy import stats

from monitor.diagnosis import trend


def test_kendalls_tau_is_scipys():
    values = np.random.default_rng(0).normal(size=60) + np.linspace(0, 2, 60)
    found = trend.growth(values)
    assert found.tau == pytest.approx(stats.kendalltau(np.arange(60), values).statistic)
    assert found.z > 5


def test_a_flat_series_has_no_trend_and_nan_is_passed_over():
    values = np.random.default_rng(1).normal(1, 0.1, 200)
    values[::7] = np.nan
    found = trend.growth(values)
    assert abs(found.z) < 3
    assert found.factor == pytest.approx(1, abs=0.1)


def test_two_points_have_no_trend():
    assert math.isnan(trend.growth(np.array([1.0, 2.0])).z)


def test_a_long_series_is_thinned_to_means():
    values = np.arange(1000.0)
    assert len(trend.thinned(values)) == 400
    assert trend.thinned(values)[:2] == pytest.approx([1.0, 4.0])  # of 0, 1, 2 and 3, 4, 5
    assert trend.growth(values).tau == 1


def test_a_jump_is_found_where_it_is():
    found = trend.jump(np.array([0.06, 0.061, 0.059, 3.8, 3.83, 3.9]))
    assert (found.index, found.steady) == (3, True)
    assert found.factor == pytest.approx(3.83 / 0.06)
    assert trend.jump(np.array([0.06, 3.83])).index == 1


def test_growth_is_no_steady_jump_and_a_constant_has_none():
    assert not trend.jump(np.geomspace(0.01, 1, 40)).steady
    assert trend.jump(np.ones(5)) is None
    assert trend.jump(np.array([1.0])) is None


def test_spearmans_rho_is_scipys_ties_included():
    rng = np.random.default_rng(2)
    a, b = rng.integers(0, 9, 50).astype(float), rng.integers(0, 9, 50).astype(float)
    assert trend.rank_correlation(a, b) == pytest.approx(stats.spearmanr(a, b).statistic)
    assert math.isnan(trend.rank_correlation(np.ones(9), np.arange(9.0)))
