"""exp(x) - 1 - x against decimal arithmetic, from 1e-30 to where exp overflows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.metrics import kernel
from monitor.metrics.bounds import ClipBounds
from monitor.metrics.k3 import SERIES_BELOW, k3
from monitor.metrics.partial import RatioSum
from tests import oracles
from tests.token_tables import of_log_ratio

SIZES = [
    1e-30,
    1e-12,
    1e-7,
    9.9e-6,
    1.1e-5,
    1e-3,
    np.nextafter(SERIES_BELOW, 0),
    SERIES_BELOW,
    np.nextafter(SERIES_BELOW, 1),
    0.5,
    5.0,
    300.0,
]


@pytest.mark.parametrize("x", [sign * size for size in SIZES for sign in (1, -1)])
def test_every_size_keeps_its_digits(x):
    assert k3(np.array([x]))[0] == pytest.approx(oracles.k3([x]), rel=2e-14, abs=0)


@given(st.one_of(st.floats(1e-30, 500), st.floats(-500, -1e-30)))  # under 1e-30 the oracle's 80 digits end
def test_anywhere_it_keeps_its_digits_and_is_not_negative(x):
    found = k3(np.array([x]))[0]
    assert found >= 0
    assert found == pytest.approx(oracles.k3([x]), rel=2e-14, abs=0)


@pytest.mark.parametrize("size", SIZES)
def test_the_compiled_pass_keeps_the_same_digits(size):
    x = np.float32(size)
    found = kernel.partials(of_log_ratio([x]), ClipBounds())[0].ratio_sums[0, RatioSum.K3]
    assert found == pytest.approx(oracles.k3([x]), rel=2e-14, abs=0)


def test_it_is_infinite_where_exp_overflows_and_exact_at_zero():
    assert k3(np.array([999.0]))[0] == np.inf
    assert k3(np.array([0.0]))[0] == 0.0
