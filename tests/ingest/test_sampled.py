"""A log that is a selection of points says so."""

import numpy as np
import pytest

from ingest._sampled import sampled
from tests.ingest.test_mapping import raw


def log(steps):
    return raw(*(("k", int(step), 0.0) for step in steps))


def uneven(many):
    return np.unique(np.cumsum(np.random.default_rng(0).integers(1, 9, many)))


@pytest.mark.parametrize(("many", "tool"), [(500, "run.history()"), (1000, "TensorBoard")])
def test_exactly_as_many_uneven_points_as_a_tool_keeps(many, tool):
    (note,) = sampled(log(uneven(many)))
    assert tool in note.what
    assert "spikes" in note.what
    assert (note.rows, note.place) == (0, "keys k")


@pytest.mark.parametrize("steps", [np.arange(500), np.arange(0, 5000, 10), uneven(499), [], [3]])
def test_other_numbers_and_even_steps_are_nothing_to_say(steps):
    assert list(sampled(log(steps))) == []
