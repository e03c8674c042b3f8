"""Episodes that nobody was told of, because no destination that tells people was set up when they began: the table `unheard`.

A watch without destinations, for instance one look in a shell, says them on its terminal. They are kept here as long as they last, and
queued when a watch comes that has somebody to tell.
"""

from __future__ import annotations

import sqlite3

from monitor.alerts import _outbox
from monitor.alerts._settings import Policy
from monitor.alerts.machine import Kind, Notification, State


def heard(connection: sqlite3.Connection, policy: Policy, told: Notification) -> tuple[str, ...]:
    """The destinations that a notification goes to, by name, but for trainers (`_signals.py`); keeps in mind what no people hear of.

    That something is over which nobody heard of is told to nobody.
    """
    trainers = policy.trainers_for(told.rule, told.severity)
    names = tuple(name for name in policy.sinks_for(told.rule, told.severity) if name not in trainers)
    people = policy.people_for(told.rule, told.severity)
    if told.kind is Kind.RESOLVED:
        gone = connection.execute("DELETE FROM unheard WHERE episode = ?", (told.episode,)).rowcount
        return tuple(name for name in names if name not in people) if gone else names
    if people:
        connection.execute("DELETE FROM unheard WHERE episode = ?", (told.episode,))  # a reminder tells it too
    elif told.kind is not Kind.REMINDER:
        connection.execute(
            "INSERT OR IGNORE INTO unheard (episode, run, rule, notification) VALUES (?, ?, ?, ?)",
            (told.episode, told.run, told.rule, told.to_json()),
        )
    return names


def waiting(connection: sqlite3.Connection, policy: Policy, run: str) -> bool:
    """Whether there is something of a run that people can be told now; a look, without writing."""
    rows = connection.execute("SELECT notification FROM unheard WHERE run = ?", (run,)).fetchall()
    found = (Notification.from_json(text) for (text,) in rows)
    return any(policy.people_for(told.rule, told.severity) for told in found)


def catch_up(connection: sqlite3.Connection, policy: Policy, run: str, now: float) -> None:
    """Queue what still lasts and nobody has heard of, for the people who are there by now; not in a silence."""
    applies = {rule.id for rule in policy.rules_for(run)}
    for rule, text in connection.execute("SELECT rule, notification FROM unheard WHERE run = ?", (run,)).fetchall():
        told = Notification.from_json(text)
        people = policy.people_for(rule, told.severity)
        row = connection.execute("SELECT state FROM state WHERE rule = ? AND run = ?", (rule, run)).fetchone()
        state = State(rule=rule, run=run) if row is None else State.from_json(row[0])
        of = next((each for each in (state.told, state.told_nan) if each.episode == told.episode), None)
        if of is not None and not of.acknowledged and (not people or rule not in applies or now < state.silenced_until):
            continue
        if of is not None and not of.acknowledged:
            _outbox.put(connection, told, people, now)
        connection.execute("DELETE FROM unheard WHERE episode = ?", (told.episode,))
