"""What a trainer's signal gets: cooldowns and caps are for people, a trainer is asked at every firing and no longer than it lasts."""

import sqlite3
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.alerts.machine import Phase
from monitor.alerts.policy import Policy, SinkSettings
from monitor.alerts.resync import ask, withdraw
from monitor.alerts.sinks.resync import SINK
from monitor.alerts.store import AlertStore
from monitor.record.resync import pending, take
from tests.monitor.alerts.observed import RULE, one_by_one, seen

CHAT, SIGNAL = SinkSettings(name="chat", sink="webhook"), SinkSettings(name="resync", sink="resync")
SLOW = replace(RULE, cooldown_s=600.0)
NOW = 1e9


@pytest.fixture
def store(tmp_path):
    opened = AlertStore(tmp_path / "alerts.sqlite")
    yield opened
    opened.close()


def policy(**changes):
    return Policy(rules=(replace(SLOW, **changes),), sinks=(CHAT, SIGNAL))


def drained(store, sink):
    out = []
    while (row := store.claim(NOW, sinks=(sink,))) is not None:
        store.sent(row.id, NOW)
        out.append(row.notification)
    return out


def said(store, sink):
    return [f"{told.kind} {told.step}" for told in drained(store, sink)]


def test_a_cooldown_holds_back_people_and_no_trainer(store):
    for place, batch in enumerate(one_by_one([0.9, 0.4, 0.9, 0.3, 0.2, 0.9, 0.1])):
        store.take(policy(), "r", batch, NOW + place)
    assert said(store, "chat") == ["firing 1", "resolved 2"]
    assert said(store, "resync") == ["firing 1", "resolved 2", "firing 3", "resolved 5", "firing 6"]


def test_a_cap_is_for_people_too(store):
    for place, batch in enumerate(one_by_one([0.4, 0.9, 0.4, 0.9])):
        store.take(policy(cap=1, cooldown_s=0.0), "r", batch, NOW + place)
    assert said(store, "chat") == ["firing 0"]
    assert said(store, "resync") == ["firing 0", "resolved 1", "firing 2", "resolved 3"]


def test_what_was_held_back_and_is_told_later_asks_once(store):
    for place, batch in enumerate(one_by_one([0.4, 0.9, 0.4])):
        store.take(policy(), "r", batch, NOW + place)
    store.take(policy(), "r", [], NOW + 700)
    store.take(policy(), "r", seen(0.9, start=3), NOW + 701)
    assert said(store, "chat") == ["firing 0", "resolved 1", "firing 2", "resolved 3"]
    assert said(store, "resync") == ["firing 0", "resolved 1", "firing 2", "resolved 3"]


def test_a_value_that_is_replaced_within_a_cooldown_takes_its_asking_back_and_asks_again(store):
    for place, batch in enumerate(one_by_one([0.4, 0.9, 0.4])):
        store.take(policy(), "r", batch, NOW + place)
    for place, value in enumerate([0.8, 0.3], start=1):
        store.take(policy(), "r", seen(value, start=2), NOW + 10 + place)
    assert said(store, "resync") == ["firing 0", "resolved 1", "firing 2", "resolved 2", "firing 2"]


def test_a_late_episode_beside_one_that_lasts_asks_for_nothing_and_ends_nothing(store):
    store.take(policy(cooldown_s=0.0), "r", seen(0.4, start=10), NOW)
    store.take(policy(cooldown_s=0.0), "r", seen(0.4, 0.9, start=2), NOW + 1)
    assert said(store, "resync") == ["firing 10"]


def test_a_rule_that_is_changed_within_a_cooldown_takes_its_asking_back(store):
    for place, batch in enumerate(one_by_one([0.4, 0.9, 0.4])):
        store.take(policy(), "r", batch, NOW + place)
    store.take(policy(threshold=0.3), "r", seen(0.4, 0.9, 0.4), NOW + 10)
    assert said(store, "resync") == ["firing 0", "resolved 1", "firing 2", "resolved 2"]


def test_what_came_and_went_in_one_look_asks_for_nothing(store):
    store.take(policy(), "r", seen(*[0.4, 0.9] * 20, 0.3), NOW)
    assert said(store, "resync") == ["firing 40"]


def test_in_a_silence_nothing_is_asked_and_what_was_asked_is_withdrawn(store):
    store.take(policy(), "r", seen(0.4), NOW)
    store.silence("ess", "r", NOW + 100, by="me", now=NOW)
    for place, batch in enumerate(one_by_one([0.9, 0.4, 0.9, 0.4], start=1)):
        store.take(policy(), "r", batch, NOW + 1 + place)
    assert said(store, "resync") == ["firing 0", "resolved 1"]
    store.take(policy(), "r", [], NOW + 700)
    assert said(store, "resync")[-1] == "firing 4"
    assert said(store, "chat")[0] == "firing 0"


def test_a_store_made_before_takes_the_new_tables(tmp_path):
    path = tmp_path / "old.sqlite"
    old = AlertStore(path)
    old.take(policy(), "r", seen(0.9, 0.4), NOW)
    old.close()
    with sqlite3.connect(path) as connection:
        connection.executescript("DROP TABLE reached; DROP TABLE unheard; DROP INDEX outbox_of_rule; PRAGMA user_version = 1")
    connection.close()
    again = AlertStore(path)
    assert again.reached() == {"r": (1, 0)}
    again.take(policy(), "r", seen(0.9, start=2), NOW + 1)
    assert again.reached() == {"r": (2, 0)}
    again.close()


VALUES = st.lists(st.sampled_from([0.2, 0.4, 0.6, 0.9, float("nan")]), min_size=1, max_size=12)


@settings(max_examples=60, deadline=None)
@given(values=VALUES, gaps=st.lists(st.sampled_from([0, 1, 400]), min_size=12, max_size=12), cut=st.integers(1, 4))
def test_a_trainer_is_asked_exactly_while_the_rule_fires_whatever_is_told(tmp_path_factory, values, gaps, cut):
    """The file after every look, a trainer that takes nothing: it is there while the episode lasts, and only then."""
    folder = tmp_path_factory.mktemp("run")
    store, now = AlertStore(folder / "alerts.sqlite"), NOW
    observations = seen(*values)
    for place in range(0, len(observations), cut):
        now += gaps[place]
        store.take(policy(cap=2), "r", observations[place : place + cut], now)
        while (row := store.claim(now, sinks=("resync",))) is not None:
            _deliver(folder, row.notification)
            store.sent(row.id, now)
        (state,) = store.states("r")
        if state.phase is not Phase.NAN:
            assert (pending(folder) is not None) == (state.phase is Phase.FIRING), state.phase
        if pending(folder) is not None and place % 2:
            take(folder, "", place)
            ask_again = pending(folder)
            assert ask_again is None
            (folder / "resync.taken.json").unlink()
    store.close()


def _deliver(folder, told):
    if told.kind in {"firing", "reminder"}:
        ask(folder, told)
    elif told.kind == "resolved":
        withdraw(folder, told.episode)
    assert SINK.id == "resync"
