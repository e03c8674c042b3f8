"""What of a rule's changes a trainer's resync signal gets: that an episode begins and that it is over, whether people are told or not.

Cooldown, caps and what comes and goes in one look are about telling people. A trainer that obeys must be asked again however soon, and not
be asked for what is over. A silence is a person's word: while it lasts nothing is asked, and what was asked is withdrawn when it is over.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import replace

from monitor.alerts import _outbox
from monitor.alerts.machine import Change, Kind, Notification, State, Stay
from monitor.alerts.notification import SILENCED

_ASKING = {Kind.FIRING, Kind.REMINDER}


def put(connection: sqlite3.Connection, sink: str, after: State, lasting: Stay | None, changes: Sequence[Change], now: float) -> None:  # noqa: PLR0913, PLR0917
    """Queue for one trainer's signal what is so of one rule in one run, where that is not what was queued last.

    Args:
        connection: within a transaction.
        sink: name of the signal among the destinations.
        after: the state by now.
        lasting: the episode that lasts.
        changes: that led there, told or not.
        now: seconds since the epoch.
    """
    asked, begun = _asked(connection, sink, after), _begun(changes, lasting)
    new = begun is not None and (asked is None or begun.notification.episode != asked.episode)
    if begun is not None and new and begun.withheld != SILENCED:
        _queue(connection, sink, begun, now)  # in place of what the rule asked before
    elif asked is not None and (lasting is None or new):
        ends = (change for change in reversed(changes) if change.notification.kind is Kind.RESOLVED and not change.notification.of_nan)
        over = next(ends, Change(asked, "the values it stood on are gone"))
        withheld = over.withheld or ("" if over.notification.episode == asked.episode else "another episode was told to be over")
        _queue(connection, sink, Change(replace(over.notification, kind=Kind.RESOLVED, episode=asked.episode), withheld), now)
    for change in changes:
        if change.notification.kind is Kind.REMINDER and not change.withheld and not change.notification.of_nan:
            _queue(connection, sink, change, now)


def _begun(changes: Sequence[Change], lasting: Stay | None) -> Change | None:
    """The beginning of the episode that lasts, where it is among the changes."""
    firing = (change for change in reversed(changes) if change.notification.kind is Kind.FIRING)
    return None if lasting is None else next((change for change in firing if change.notification.step == lasting.fired), None)


def _queue(connection: sqlite3.Connection, sink: str, change: Change, now: float) -> None:
    """What is withheld has a key of its own: it leaves no trace in the ids of episodes to come."""
    key = change.notification.key
    _outbox.put(connection, change.notification, (sink,), now, f"{key}@{now}" if change.withheld else key)


def _asked(connection: sqlite3.Connection, sink: str, of: State) -> Notification | None:
    """That for which a signal is asked now, as far as it was queued."""
    row = connection.execute(
        "SELECT notification FROM outbox WHERE sink = ? AND run = ? AND rule = ? ORDER BY id DESC LIMIT 1", (sink, of.run, of.rule)
    ).fetchone()
    latest = None if row is None else Notification.from_json(row[0])
    return latest if latest is not None and latest.kind in _ASKING else None
