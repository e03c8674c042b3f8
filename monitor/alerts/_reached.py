"""How far each run has come, as the alerts know it, and how often it went back: the table `reached`."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import NamedTuple

from monitor.alerts.machine import News, State


class Reached(NamedTuple):
    """What is known of one run."""

    step: int = -1  # the newest that any rule has seen
    restarts: int = 0  # how often the run went back to an earlier one


def every(connection: sqlite3.Connection) -> dict[str, Reached]:
    """Run -> how far it has come."""
    return {run: Reached(step, restarts) for run, step, restarts in connection.execute("SELECT run, step, restarts FROM reached")}


def keep(connection: sqlite3.Connection, run: str, states: Iterable[State], news: News) -> None:
    """Write down how far a run has come after some values, where that is further than before or the run went back."""
    step = max((state.seen.newest for state in states if state.seen.newest is not None), default=-1)
    row = connection.execute("SELECT step, restarts FROM reached WHERE run = ?", (run,)).fetchone()
    before = Reached() if row is None else Reached(*row)
    after = Reached(step, before.restarts + 1) if news.restarted_from is not None else before._replace(step=max(step, before.step))
    if after != before:
        connection.execute("INSERT OR REPLACE INTO reached (run, step, restarts) VALUES (?, ?, ?)", (run, *after))
