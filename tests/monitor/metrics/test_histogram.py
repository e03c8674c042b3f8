"""Bins of the float-bits histogram, and quantiles within their stated error."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.metrics import histogram
from tests import oracles

IN_RANGE = st.one_of(st.just(0.0), st.floats(2.0**-24, 255.0), st.floats(-255.0, -(2.0**-24)))


def test_there_are_512_bins_a_side_and_one_for_zero():
    assert histogram.BINS == 1025
    assert histogram.edges()[0] == 2.0**-24
    assert histogram.edges()[-1] == 2.0**8
    assert histogram.bins(np.array([0.0, -0.0])).tolist() == [histogram.ZERO] * 2


def test_bins_rise_with_the_value():
    values = np.concatenate([-histogram.edges()[:-1][::-1], [0.0], histogram.edges()[:-1]])
    assert histogram.bins(values).tolist() == list(range(histogram.BINS))


@given(st.lists(IN_RANGE, min_size=1, max_size=60), st.floats(0.0, 1.0))
def test_a_quantile_is_the_value_of_its_rank_to_one_part_in_33(values, q):
    x = np.array(values)
    found = histogram.quantile(histogram.count(x), q, x.min(), x.max())
    wanted = oracles.log_ratio_quantile(values, q)
    assert abs(found - wanted) <= abs(wanted) * histogram.WORST_RELATIVE_ERROR * (1 + 1e-12)


def test_beyond_the_last_bin_the_exact_extreme_answers():
    x = np.array([-999.0, 0.0, 1.0, 999.0])
    count = histogram.count(x)
    assert histogram.quantile(count, 0.99, x.min(), x.max()) == 999.0
    assert histogram.quantile(count, 0.01, x.min(), x.max()) == -999.0


def test_values_under_the_first_bin_are_not_lost():
    x = np.array([1e-30, -1e-30])
    assert histogram.count(x).sum() == 2
    assert histogram.quantile(histogram.count(x), 0.5, x.min(), x.max()) == pytest.approx(-1e-30, abs=2.0**-23)


def test_an_empty_histogram_has_no_quantile():
    assert np.isnan(histogram.quantile(np.zeros(histogram.BINS, np.int64), 0.5, np.inf, -np.inf))
