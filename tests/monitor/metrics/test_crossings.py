"""Crossings are read off every row, and a NaN neither starts nor ends a stay."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from monitor.metrics.crossings import crossings


def _of(values, threshold=0.5, steps=None):
    values = np.asarray(values, float)
    return crossings(np.arange(values.size) if steps is None else np.asarray(steps), values, threshold)


def test_a_dip_and_its_recovery():
    (stay,) = _of([0.9, 0.4, 0.2, 0.6, 0.7], steps=[10, 20, 30, 40, 50])
    assert (stay.from_step, stay.to_step, stay.recovered_step) == (20, 30, 40)
    assert (stay.lowest, stay.lowest_step) == (0.2, 30)
    assert not stay.starts_under


def test_the_threshold_itself_is_not_under_it():
    assert _of([0.5, 0.5]) == ()


def test_a_series_that_starts_under_says_so_and_one_that_ends_under_has_no_recovery():
    first, last = _of([0.1, 0.9, 0.3])
    assert first.starts_under
    assert first.recovered_step == 1
    assert last.recovered_step is None
    assert not last.starts_under


def test_nan_inside_a_stay_is_counted_and_does_not_end_it():
    (stay,) = _of([0.9, 0.4, np.nan, 0.3, 0.8])
    assert (stay.from_step, stay.to_step, stay.unknown_steps) == (1, 3, 1)


def test_nan_at_the_edges_does_not_hide_a_stay():
    (stay,) = _of([np.nan, 0.4, np.nan])
    assert (stay.from_step, stay.to_step, stay.recovered_step, stay.unknown_steps) == (1, 1, None, 1)
    assert stay.starts_under


def test_nothing_in_nothing_out():
    assert _of([]) == ()
    assert _of([np.nan]) == ()


def test_unsorted_steps_and_unequal_shapes_are_refused():
    with pytest.raises(ValueError, match="decrease"):
        _of([1.0, 2.0], steps=[2, 1])
    with pytest.raises(ValueError, match="equal 1-D"):
        crossings(np.arange(3), np.zeros(2), 0.5)


@given(hnp.arrays(float, st.integers(0, 40), elements=st.one_of(st.just(np.nan), st.floats(0, 1))))
def test_each_row_under_the_threshold_lies_in_exactly_one_stay(values):
    stays = _of(values)
    covered = [sum(s.from_step <= row <= s.to_step for s in stays) for row in range(values.size)]
    for row, value in enumerate(values):
        if value < 0.5:
            assert covered[row] == 1
        elif value >= 0.5:
            assert covered[row] == 0
    assert sum(s.recovered_step is None for s in stays) <= 1
