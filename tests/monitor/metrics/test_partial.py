"""Partials add: empty ones change nothing, different steps do not mix, a cut sequence is one sequence."""

from dataclasses import fields

import numpy as np
import pytest

from monitor.metrics import kernel
from monitor.metrics.bounds import ClipBounds
from monitor.metrics.partial import Far, RatioSum, StepPartial, merge_far
from tests.token_tables import of_log_ratio, random_tokens


def test_an_empty_partial_is_the_identity_from_both_sides():
    for step, partial in kernel.partials(random_tokens(5), ClipBounds()).items():
        for joined in (StepPartial.empty(step).merge(partial), partial.merge(StepPartial.empty(step))):
            for item in fields(StepPartial):
                left, right = getattr(joined, item.name), getattr(partial, item.name)
                if item.name == "sequences":
                    for name, column in right.items():
                        np.testing.assert_array_equal(left[name], column)
                        assert left[name].dtype == column.dtype
                else:
                    np.testing.assert_array_equal(left, right)


def test_two_empty_partials_stay_empty_without_a_nan():
    joined = StepPartial.empty(3).merge(StepPartial.empty(3))
    assert np.isneginf(joined.far[:, Far.MAX]).all()
    assert not np.isnan(joined.far).any()


def test_different_steps_do_not_add():
    with pytest.raises(ValueError, match="different steps do not add: 1 and 2"):
        StepPartial.empty(1).merge(StepPartial.empty(2))


def test_log_space_pairs_join_under_the_larger_maximum():
    one, two = np.array([[900.0, 1.0, 1.0]]), np.array([[899.0, 2.0, 2.0]])
    expected = [900.0, 1 + 2 * np.exp(-1.0), 1 + 2 * np.exp(-2.0)]
    np.testing.assert_allclose(merge_far(one, two)[0], expected)
    np.testing.assert_allclose(merge_far(two, one)[0], expected)


def test_a_sequence_cut_over_parts_is_one_sequence():
    tokens = of_log_ratio([0.1, 0.2, 0.3, 0.4], sample_id=[7, 7, 7, 2])
    one, two = (kernel.partials(piece, ClipBounds())[0] for piece in (tokens.slice(0, 2), tokens.slice(2)))
    joined = one.merge(two).sequences
    assert joined["sample_id"].tolist() == [2, 7]
    assert joined["length"].tolist() == [1, 3]
    np.testing.assert_allclose(joined["total"], [0.4, 0.6], rtol=1e-6)


def test_sums_are_those_of_their_names():
    x = np.float32([0.5, -2.0])
    sums = kernel.partials(of_log_ratio(x), ClipBounds())[0].ratio_sums[0]
    assert sums[RatioSum.X] == -1.5
    assert sums[RatioSum.ABS] == 2.5
    assert sums[RatioSum.X2] == 4.25
    assert sums[RatioSum.X4] == 16.0625
    assert sums[RatioSum.NEAR_E] == pytest.approx(np.expm1(0.5))
    assert sums[RatioSum.MID_E] == pytest.approx(np.expm1(-2.0))


@pytest.mark.parametrize(
    ("ids", "positions", "wanted"),
    [([7, 7], [0, 1], True), ([7, 8], [1, 0], True), ([7, 7], [2, 3], False), ([8, 8], [0, 1], False), ([9], [5], False)],
)
def test_two_partials_may_hold_the_same_rows_where_positions_of_a_sequence_overlap(ids, positions, wanted):
    one = kernel.partials(of_log_ratio([0.1, 0.2, 0.1], sample_id=[3, 7, 7], position=[0, 0, 1]), ClipBounds())[0]
    two = kernel.partials(of_log_ratio([0.1] * len(ids), sample_id=ids, position=positions), ClipBounds())[0]
    assert one.may_repeat(two) is wanted
    assert two.may_repeat(one) is wanted


def test_without_positions_nothing_is_suspected():
    one = kernel.partials(of_log_ratio([0.1, 0.2]), ClipBounds())[0]
    assert not one.may_repeat(one)
    assert not one.may_repeat(StepPartial.empty(0))
    assert not StepPartial.empty(0).may_repeat(one)
