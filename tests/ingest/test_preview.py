"""What is in a log before anybody says what it means."""

import math

from ingest.preview import previews
from tests.ingest.test_mapping import raw


def test_count_first_values_and_range():
    one = raw(("k", 1, 3.0), ("k", 2, float("nan")), ("j", 1, 1.0), ("k", 3, 1.0), ("k", 4, 2.0))
    two = raw(("k", 1, 9.0))
    j, k = previews([one, two])
    assert (j.key, j.count, j.words) == ("j", 1, "1 value: 1; from 1 to 1")
    assert (k.count, k.low, k.high) == (5, 1.0, 9.0)
    assert k.words == "5 values: 3, nan, 1, …; from 1 to 9"


def test_nothing_finite():
    (only,) = previews([raw(("k", 1, float("inf")))])
    assert math.isnan(only.low)


def test_an_envelope_is_no_key_of_its_own():
    assert [each.key for each in previews([raw(("k", 1, 1.0), ("k.group_low", 1, 0.0))])] == ["k"]
