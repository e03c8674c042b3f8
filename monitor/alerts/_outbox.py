"""What waits to be sent: one row for each notification and destination, handed to one process at a time.

A process that claims a row holds it for a while (a lease) and says afterwards how it went. Where one dies in between, the lease runs out
and the row is handed out once more: it is sent at most once more for each such death, and never lost. Rows of one rule and run go to a
destination in their order, so that nobody hears that something is over before they hear of it.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from monitor.alerts.notification import Notification

# A row is held while the clock stands between the two times; a clock that was set back to before the first holds nothing.
_CLAIMABLE = """
SELECT id, sink, notification, tries, made_at FROM outbox AS row
WHERE sent_at IS NULL AND given_up_at IS NULL AND NOT (held_at <= :now AND :now < held_until) AND {sinks}
  AND NOT EXISTS (
    SELECT 1 FROM outbox AS earlier
    WHERE earlier.sink = row.sink AND earlier.id < row.id AND earlier.run = row.run AND earlier.rule = row.rule
      AND earlier.sent_at IS NULL AND earlier.given_up_at IS NULL)
ORDER BY id LIMIT 1
"""
_FAILED = """
INSERT INTO sinks (name, failed_at, error, failures) VALUES (?, ?, ?, 1)
ON CONFLICT (name) DO UPDATE SET failed_at = excluded.failed_at, error = excluded.error, failures = failures + 1
"""
_WORKED = """
INSERT INTO sinks (name, succeeded_at, failures) VALUES (?, ?, 0)
ON CONFLICT (name) DO UPDATE SET succeeded_at = excluded.succeeded_at, failures = 0
"""


@dataclass(frozen=True, kw_only=True)
class Queued:
    """One notification for one destination, held by whoever claimed it."""

    id: int
    sink: str  # name of the destination
    notification: Notification
    tries: int  # times it was handed out, this one included
    made_at: float


@dataclass(frozen=True, kw_only=True)
class SinkHealth:
    """How a destination has been doing."""

    name: str
    succeeded_at: float | None
    failed_at: float | None
    error: str  # the latest; it may be older than the latest success
    failures: int  # in a row
    waiting: int  # notifications that are not there yet


def put(connection: sqlite3.Connection, notification: Notification, sinks: Iterable[str], now: float, key: str = "") -> None:
    """Queue a notification for some destinations; one that is queued already, by its key, is not queued again."""
    text = notification.to_json()
    connection.executemany(
        "INSERT OR IGNORE INTO outbox (key, sink, run, rule, notification, made_at) VALUES (?, ?, ?, ?, ?, ?)",
        [(key or notification.key, sink, notification.run, notification.rule, text, now) for sink in sinks],
    )


def claimed(connection: sqlite3.Connection, now: float, lease_s: float, sinks: Sequence[str] | None) -> Queued | None:
    """The oldest row that nobody holds, held from now on."""
    among = "1" if sinks is None else f"sink IN ({', '.join(f':sink{place}' for place in range(len(sinks)))})"
    named = {f"sink{place}": sink for place, sink in enumerate(sinks or ())}
    row = connection.execute(_CLAIMABLE.format(sinks=among), {"now": now, **named}).fetchone()
    if row is None:
        return None
    identity, sink, text, tries, made_at = row
    connection.execute("UPDATE outbox SET tries = tries + 1, held_at = ?, held_until = ? WHERE id = ?", (now, now + lease_s, identity))
    return Queued(id=identity, sink=sink, notification=Notification.from_json(text), tries=tries + 1, made_at=made_at)


def sent(connection: sqlite3.Connection, identity: int, now: float) -> None:
    """It arrived."""
    row = connection.execute("UPDATE outbox SET sent_at = ?, error = '' WHERE id = ? RETURNING sink", (now, identity)).fetchone()
    if row is not None:
        connection.execute(_WORKED, (row[0], now))


def failed(connection: sqlite3.Connection, identity: int, error: str, retry_at: float | None, now: float) -> None:
    """It did not arrive; to be tried again at a time, or given up."""
    row = connection.execute(
        "UPDATE outbox SET error = ?, held_at = ?, held_until = ?, given_up_at = ? WHERE id = ? AND sent_at IS NULL RETURNING sink",
        (error, now, now if retry_at is None else retry_at, now if retry_at is None else None, identity),
    ).fetchone()
    if row is not None:
        connection.execute(_FAILED, (row[0], now, error))


def arrivals(connection: sqlite3.Connection, keys: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Key of a notification -> at how many destinations it arrived, and how many it was queued for; without those queued for none."""
    asked = json.dumps(list(keys))
    rows = connection.execute(
        "SELECT key, count(sent_at), count(*) FROM outbox WHERE key IN (SELECT value FROM json_each(?)) GROUP BY key", (asked,)
    )
    return {key: (arrived, queued) for key, arrived, queued in rows}


def health(connection: sqlite3.Connection) -> tuple[SinkHealth, ...]:
    """Every destination that was ever tried or has something waiting."""
    waiting = dict(connection.execute("SELECT sink, count(*) FROM outbox WHERE sent_at IS NULL AND given_up_at IS NULL GROUP BY sink"))
    known = {row[0]: row[1:] for row in connection.execute("SELECT name, succeeded_at, failed_at, error, failures FROM sinks")}
    return tuple(
        SinkHealth(name=name, succeeded_at=succeeded, failed_at=at, error=error, failures=failures, waiting=waiting.get(name, 0))
        for name in sorted({*waiting, *known})
        for succeeded, at, error, failures in [known.get(name, (None, None, "", 0))]
    )
