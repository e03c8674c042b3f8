"""Patterns in a dialect's keys, and which of several keys of one log gives a quantity."""

import pytest

from ingest._names import Names, hint_for, matches
from ingest.dialect import Dialect, Key


@pytest.mark.parametrize(
    ("raw", "key", "fits"),
    [
        ("a/*/mean", "a/b/mean", True),
        ("a/*/mean", "a/b/c/mean", False),
        ("a/**/mean", "a/b/c/mean", True),
        ("a/*", "a/", True),
        ("*", "a", True),
        ("*", "a/b", False),
        ("a.b", "aXb", False),
        ("a[0]*", "a[0]x", True),
        ("a/*", "a/line\nbreak", True),
        ("a/*", "xa/b", False),
    ],
)
def test_a_star_is_anything_but_a_slash_and_two_are_anything(raw, key, fits):
    assert matches(raw, key) is fits


def dialect(*keys, **more):
    return Dialect(id="d", title="d", old_is="", keys=keys, **more)


def names(present, *keys, **more):
    return Names(dialect=dialect(*keys, **more), config={}, present=present)


def test_an_exact_key_wins_over_a_pattern():
    found = names(["r/a", "r/b"], Key(raw="r/*", quantity="reward.mean"), Key(raw="r/b", quantity="entropy.mean"))
    assert (found.key("r/a").quantity, found.key("r/b").quantity, found.key("x")) == ("reward.mean", "entropy.mean", None)


def test_of_several_keys_of_one_pattern_the_first_by_name_wins():
    found = names(["r/c", "r/a", "r/b"], Key(raw="r/*", quantity="reward.mean"))
    assert found.winners == {"reward.mean": "r/a"}


def test_of_several_keys_for_one_quantity_the_first_in_the_dialect_wins():
    found = names(["a", "z"], Key(raw="z*", quantity="reward.mean"), Key(raw="a", quantity="reward.mean"))
    assert found.winners == {"reward.mean": "z"}


def test_the_settings_can_take_a_key_away():
    found = names(["a"], Key(raw="a", quantity="reward.mean"), adjust=lambda _key, _config: None)
    assert found.key("a") is None
    assert found.winners == {}


def test_hints_may_be_patterns():
    hints = {"t/*": "a timing", "t/x": "a special one"}
    assert [hint_for(hints, key) for key in ("t/x", "t/y", "u")] == ["a special one", "a timing", None]
