"""Moments of weights against decimal arithmetic: near 1, far from 1, and beyond float64."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.metrics import kernel
from monitor.metrics.bounds import ClipBounds
from monitor.metrics.terms import Ratio
from monitor.metrics.weights import Weights
from tests import oracles
from tests.token_tables import of_log_ratio

LOGS = st.lists(
    st.one_of(st.floats(-1.5, 1.5, width=32), st.floats(-900, 900, width=32), st.floats(-(2.0**-13), 2.0**-13, width=32)),
    min_size=2,
    max_size=40,
)


def both(x):
    partial = kernel.partials(of_log_ratio(x), ClipBounds())[0]
    return Weights.of_logs(np.array(x, np.float64)), Weights.of_partial(partial, Ratio.TOTAL)


@settings(deadline=None)
@given(LOGS)
def test_ess_and_mean_follow_the_definition_wherever_the_weights_lie(x):
    for weights in both(x):
        assert weights.ess == pytest.approx(oracles.ess(x), rel=1e-11, abs=0)
        assert 1 + weights.excess == pytest.approx(oracles.ratio_mean(x), rel=1e-11, abs=1e-15)
        assert weights.largest_share == pytest.approx(oracles.ratio_largest_share(x), rel=1e-11, abs=0)


@pytest.mark.parametrize("sd", [1e-3, 1e-5, 1e-7])
def test_one_minus_ess_keeps_its_digits(sd):
    x = (np.random.default_rng(1).normal(size=500) * sd).astype(np.float32)
    for weights in both(x):
        assert weights.deficit == pytest.approx(oracles.ess_deficit(x), rel=1e-9, abs=0)


@pytest.mark.parametrize("sd", [1e-4, 0.3, 3.0])
def test_standard_error_and_z_follow_the_definition(sd):
    x = (np.random.default_rng(2).normal(size=300) * sd).astype(np.float32)
    for weights in both(x):
        assert weights.standard_error == pytest.approx(oracles.ratio_mean_error(x), rel=1e-9, abs=0)
        assert weights.z == pytest.approx(oracles.ratio_z(x), rel=1e-7, abs=0)


def test_z_stays_a_number_where_mean_and_error_overflow():
    x = [999.0, 998.0, 999.5, 0.0]
    for weights in both(x):
        assert weights.excess == np.inf
        assert weights.z == pytest.approx(oracles.ratio_z(x), rel=1e-9, abs=0)


def test_equal_weights_have_no_spread():
    assert Weights.of_logs(np.zeros(5)).z == 0.0
    assert Weights.of_logs(np.full(5, 1000.0)).z == np.inf
    assert Weights.of_logs(np.full(5, -1000.0)).z == -np.inf


def test_nothing_and_one_weight():
    nothing, one = Weights.of_logs(np.zeros(0)), Weights.of_logs(np.array([0.3]))
    assert np.isnan([nothing.ess, nothing.excess, nothing.largest_share]).all()
    assert nothing.standard_error is None
    assert nothing.z is None
    assert one.ess == 1.0
    assert one.standard_error is None
