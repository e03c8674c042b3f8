"""The SQLite file of the alerts: its tables, how it is opened, and what its errors mean to whoever must do something about them."""

from __future__ import annotations

import errno
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ingest.errors import RatiometerError

VERSION = 2
_BUSY_MS = 10_000  # how long to wait for another process; a transaction of ours takes milliseconds
_FIRST = """
CREATE TABLE state (
    rule TEXT NOT NULL, run TEXT NOT NULL, phase TEXT NOT NULL, since INTEGER, episode TEXT NOT NULL, nan_episode TEXT NOT NULL,
    due REAL NOT NULL, terms TEXT NOT NULL, updated_at REAL NOT NULL, state TEXT NOT NULL, PRIMARY KEY (rule, run)
) WITHOUT ROWID;
CREATE TABLE history (
    id INTEGER PRIMARY KEY, run TEXT NOT NULL, rule TEXT NOT NULL, at REAL NOT NULL, withheld TEXT NOT NULL, notification TEXT NOT NULL
);
CREATE INDEX history_of_run ON history (run, rule, id);
CREATE TABLE outbox (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL, sink TEXT NOT NULL, run TEXT NOT NULL, rule TEXT NOT NULL, notification TEXT NOT NULL,
    made_at REAL NOT NULL, tries INTEGER NOT NULL DEFAULT 0, held_at REAL NOT NULL DEFAULT 0, held_until REAL NOT NULL DEFAULT 0,
    error TEXT NOT NULL DEFAULT '', sent_at REAL, given_up_at REAL, UNIQUE (key, sink)
);
CREATE INDEX outbox_open ON outbox (sink, id) WHERE sent_at IS NULL AND given_up_at IS NULL;
CREATE TABLE sinks (
    name TEXT PRIMARY KEY, succeeded_at REAL, failed_at REAL, error TEXT NOT NULL DEFAULT '', failures INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE TABLE silences (
    id INTEGER PRIMARY KEY, rule TEXT NOT NULL, run TEXT NOT NULL, until REAL NOT NULL, by TEXT NOT NULL, at REAL NOT NULL
);
CREATE TABLE runs (place TEXT PRIMARY KEY, run TEXT NOT NULL UNIQUE) WITHOUT ROWID;
CREATE TABLE acknowledgements (
    id INTEGER PRIMARY KEY, episode TEXT NOT NULL, by TEXT NOT NULL, at REAL NOT NULL
);
"""
_SECOND = """
CREATE TABLE reached (run TEXT PRIMARY KEY, step INTEGER NOT NULL, restarts INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO reached SELECT run, max(newest), 0 FROM (
    SELECT run, coalesce(json_extract(state, '$.seen.runs[#-1][1]'), json_extract(state, '$.seen.folded')) AS newest FROM state
) WHERE newest IS NOT NULL GROUP BY run;
CREATE TABLE unheard (
    episode TEXT PRIMARY KEY, run TEXT NOT NULL, rule TEXT NOT NULL, notification TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX unheard_of_run ON unheard (run);
CREATE INDEX outbox_of_rule ON outbox (sink, run, rule, id)
"""
_TABLES = (_FIRST, _SECOND)  # what each version added


class StoreError(RatiometerError):
    """The file of the alerts cannot be used; what was in it before is as it was."""


class DiskFullError(StoreError):
    """There is no room on the disk. Nothing was taken, so that the same values can be given again; nothing was lost."""


class Database:
    """One open SQLite file. Threads of one process take turns, and so do processes."""

    def __init__(self, path: Path) -> None:
        """Open the file, and make it where there is none.

        Raises:
            StoreError: it cannot be opened, is no such file, or was made by a later version.
        """
        self.path = path
        self.remade = 0  # times that the file was gone, or another in its place, and was opened anew
        self._turn = threading.RLock()
        with self._explained():
            self._open()
        self._migrate()

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction that no other process writes beside; all of it or nothing.

        Raises:
            DiskFullError: there is no room.
            StoreError: the file cannot be written.
        """
        with self._turn, self._explained():
            self._look()
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield self.connection
                self.connection.execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                raise

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """The connection, for reading what was committed.

        Raises:
            StoreError: the file cannot be read.
        """
        with self._turn, self._explained():
            self._look()
            yield self.connection

    def close(self) -> None:
        """Close the file."""
        with self._turn:
            self.connection.close()

    def _open(self) -> None:
        self._known: tuple[int, int] | None = None
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.connection = sqlite3.connect(self.path, timeout=_BUSY_MS / 1000, isolation_level=None, check_same_thread=False)
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.execute("PRAGMA synchronous = FULL")  # what was sent must be known to be sent, after a power cut too
        self._known = self._there()

    def _there(self) -> tuple[int, int] | None:
        try:
            found = self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return found.st_dev, found.st_ino

    def _look(self) -> None:
        """Open the file anew where it is no longer the one that is open: what is written into one that was deleted is gone."""
        if self._known is not None and self._there() == self._known:
            return
        if self._known is not None and self.connection.in_transaction:  # of this very thread, which has looked
            return
        self._known = None
        self.connection.close()
        self._open()
        self.remade += 1
        self._migrate()

    def _migrate(self) -> None:
        with self.reading() as connection:
            version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version > VERSION:
            raise StoreError(f"{self.path}: made by a later version of Ratiometer ({version}; this one knows {VERSION}). Use that one.")
        if version == VERSION:
            return
        with self.writing() as connection:
            version = connection.execute("PRAGMA user_version").fetchone()[0]  # another process may have been quicker
            for statement in ";".join(_TABLES[version:]).split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {VERSION}")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """SQLite's errors in words that say what to do."""
        try:
            yield
        except (sqlite3.Error, OSError) as failed:
            raise _explained(self.path, failed) from failed


def _explained(path: Path, failed: Exception) -> StoreError:
    said = str(failed)
    if "disk is full" in said or getattr(failed, "errno", None) == errno.ENOSPC:
        return DiskFullError(f"{path}: the disk is full. Nothing was lost: alerts go on from where they were when there is room again.")
    if "not a database" in said or "malformed" in said:
        return StoreError(f"{path}: not a file of alerts, or damaged ({said}). Move it away: alerts begin anew from the logs.")
    if "locked" in said or "busy" in said:
        return StoreError(f"{path}: another process has held it for {_BUSY_MS // 1000} seconds ({said}). It will be tried again.")
    return StoreError(f"{path}: the alerts cannot be kept there ({said}). Check that its folder exists and can be written.")
