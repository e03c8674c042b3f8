"""Clip bounds from a configuration, and as log ratios."""

import math

import pytest

from monitor.metrics.bounds import ClipBounds


def test_the_configuration_names_them_and_the_defaults_fill_in():
    bounds = ClipBounds.of({"objective.eps_low": 0.1, "objective.sequence_eps_high": 0.01, "trainer.learning_rate": 1.0})
    assert bounds == ClipBounds(eps_low=0.1, eps_high=0.2, sequence_eps_low=3e-4, sequence_eps_high=0.01)


def test_as_log_ratios_they_are_the_same_band():
    low, high = ClipBounds(eps_low=0.2, eps_high=0.3).token
    assert (math.exp(low), math.exp(high)) == pytest.approx((0.8, 1.3))
    assert ClipBounds(eps_low=1.5).token[0] == -math.inf


@pytest.mark.parametrize("value", [-0.1, math.nan, math.inf])
def test_a_bound_that_no_ratio_can_be_compared_with_is_refused(value):
    with pytest.raises(ValueError, match="eps_high must be a finite number"):
        ClipBounds(eps_high=value)
