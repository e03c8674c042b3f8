"""The moving average decays per step, keeps findings visible and starts at the first observation."""

import numpy as np
import pytest

from monitor.metrics.smoothing import ema


def test_no_weight_changes_nothing():
    values = np.array([1.0, np.nan, 3.0])
    np.testing.assert_array_equal(ema(np.arange(3), values, 0.0), values)


def test_closed_form_on_even_steps():
    smoothed = ema(np.arange(3), np.array([1.0, 0.0, 0.0]), 0.5)
    np.testing.assert_allclose(smoothed, [1.0, 0.5 / 1.5, 0.25 / 1.75])


def test_a_longer_gap_forgets_more():
    near = ema(np.array([0, 1]), np.array([1.0, 0.0]), 0.9)[-1]
    far = ema(np.array([0, 10]), np.array([1.0, 0.0]), 0.9)[-1]
    np.testing.assert_allclose(far, 0.9**10 / (1 + 0.9**10))
    assert far < near


def test_findings_stay_and_do_not_spread():
    smoothed = ema(np.arange(4), np.array([1.0, np.nan, np.inf, 1.0]), 0.5)
    assert np.isnan(smoothed[1])
    assert np.isinf(smoothed[2])
    assert smoothed[3] == 1.0


def test_a_weight_out_of_range_is_refused():
    with pytest.raises(ValueError, match=r"\[0, 1\)"):
        ema(np.arange(1), np.zeros(1), 1.0)
