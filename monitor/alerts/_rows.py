"""Rows of states and of what became of them: the tables `state` and `history`."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from monitor.alerts import _outbox, _unheard
from monitor.alerts._settings import Policy
from monitor.alerts.machine import Change, Notification, State
from monitor.alerts.rule import AlertRule


def keep_changes(connection: sqlite3.Connection, policy: Policy, changes: Sequence[Change], now: float) -> list[Notification]:
    """Write the history of some changes of one rule, queue what is told for whoever is told in words, and return that."""
    told = []
    for notification, withheld in changes:
        connection.execute(
            "INSERT INTO history (run, rule, at, withheld, notification) VALUES (?, ?, ?, ?, ?)",
            (notification.run, notification.rule, now, withheld, notification.to_json()),
        )
        if not withheld:
            _outbox.put(connection, notification, _unheard.heard(connection, policy, notification), now)
            told.append(notification)
    return told


def due(connection: sqlite3.Connection, rules: Sequence[AlertRule], run: str, now: float) -> tuple[AlertRule, ...]:
    """The rules that must be looked at although no value came; those too whose state was kept under other terms, or in a future."""
    rows = connection.execute("SELECT rule, due, updated_at, terms FROM state WHERE run = ?", (run,)).fetchall()
    idle = {rule: terms for rule, at, updated_at, terms in rows if updated_at <= now < at}
    return tuple(rule for rule in rules if idle.get(rule.id) != terms_of(rule))


@lru_cache(maxsize=1024)
def terms_of(rule: AlertRule) -> str:
    """The same for the same rule."""
    return blake2b(repr(rule).encode(), digest_size=8).hexdigest()


def keep(connection: sqlite3.Connection, state: State, now: float, terms: str = "") -> None:
    """Write a state, and the terms it was made under; without any it is looked at again at once."""
    connection.execute(
        "INSERT OR REPLACE INTO state (rule, run, phase, since, episode, nan_episode, due, terms, updated_at, state) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(state.rule, state.run, state.phase, state.since, state.told.episode, state.told_nan.episode, state.due),
            terms,
            now,
            state.to_json(),
        ),
    )


class Kept(NamedTuple):
    """A state with what its row says of it; text and terms are empty where there is no row."""

    state: State
    text: str = ""
    terms: str = ""
    at: float = 0.0


def kept(connection: sqlite3.Connection, rule: str, run: str) -> Kept:
    """The state of a rule in a run; a new one where there is none."""
    row = connection.execute("SELECT state, terms, updated_at FROM state WHERE rule = ? AND run = ?", (rule, run)).fetchone()
    return Kept(State(rule=rule, run=run)) if row is None else Kept(State.from_json(row[0]), *row)
