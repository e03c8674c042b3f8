"""The alerts on disk: state, history and what waits to be sent, in one SQLite file that several processes may use.

What a batch of values changes is written in one transaction: the new states, a history row for each change, and an outbox row for each
notification and destination. A process that is killed at any moment has either written all of it or nothing; then the same values are given
again and come to the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from monitor.alerts import _outbox, _reached, _rows, _signals, _unheard
from monitor.alerts._database import Database, DiskFullError, StoreError
from monitor.alerts._outbox import Queued, SinkHealth
from monitor.alerts._reached import Reached
from monitor.alerts._settings import Policy
from monitor.alerts.machine import NOTHING, Against, News, Notification, Observation, State, acknowledge, advance, episodes, silence
from monitor.alerts.rule import RuleKind
from monitor.store import home

FILE = "alerts.sqlite"
LEASE_S = 60.0  # longer than any destination may take


@dataclass(frozen=True, kw_only=True)
class Past:
    """One change of state that happened."""

    id: int
    notification: Notification
    withheld: str  # why it was not told; "" where it was
    at: float


@dataclass(frozen=True, kw_only=True)
class Silence:
    """Somebody asked not to be told of a rule in a run until a time."""

    rule: str
    run: str
    until: float
    by: str
    at: float


class AlertStore:
    """State, history and outbox of all rules in all runs; see the module."""

    def __init__(self, path: Path | None = None) -> None:
        """Open the file, `alerts.sqlite` in the run store where none is named.

        Raises:
            StoreError: it cannot be opened.
        """
        self._database = Database(home() / FILE if path is None else path)
        self.path = self._database.path
        self._reached: tuple[tuple[int, ...], Mapping[str, Reached]] = ((), {})  # as it was last read

    @property
    def remade(self) -> int:
        """How often the file was deleted, or another put in its place, while it was open; it is then begun anew, and knows nothing."""
        return self._database.remade

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def known_as(self, place: str, *wanted: str) -> str:
        """The id under which the run at a place is kept: always the same one, and no other run's.

        Args:
            place: where the run lies, with what tells it from others there.
            wanted: ids, the best first; the first that no run of another place has is given, and kept.

        Raises:
            StoreError: the file cannot be written; ValueError: every id is taken.
        """
        with self._database.writing() as connection:
            row = connection.execute("SELECT run FROM runs WHERE place = ?", (place,)).fetchone()
            if row is not None:
                return str(row[0])
            for name in wanted:
                if connection.execute("INSERT OR IGNORE INTO runs (place, run) VALUES (?, ?)", (place, name)).rowcount:
                    return name
        raise ValueError(f"{place}: every id of {', '.join(wanted)} is another run's")

    def take(  # noqa: PLR0913 - what `machine.update` takes
        self,
        policy: Policy,
        run: str,
        observations: Sequence[Observation],
        now: float,
        *,
        compared: Against = NOTHING,
        news: News = News(),  # noqa: B008 - frozen
    ) -> tuple[Notification, ...]:
        """Take a run's new values under every rule that applies to it, and return what is told now; it is queued already.

        To be called without values too, see `machine.update`. Values that were taken before change nothing.

        Raises:
            DiskFullError: there is no room; nothing was taken, so give the same values again.
            StoreError: the file cannot be written.
        """
        rules = policy.rules_for(run)
        late = False
        if not observations and news == News():
            with self._database.reading() as connection:
                rules = _rows.due(connection, rules, run, now)
                late = _unheard.waiting(connection, policy, run)
        if not rules and not late:
            return ()
        told: list[Notification] = []
        states = []
        with self._database.writing() as connection:
            for rule in rules:
                before, terms = _rows.kept(connection, rule.id, run), _rows.terms_of(rule)
                state, changes = advance(before.state, rule, observations, now, compared=compared, news=news)
                if changes or state.to_json() != before.text or terms != before.terms or before.at > now:
                    _rows.keep(connection, state, now, terms)
                told += _rows.keep_changes(connection, policy, changes, now)
                for trainer in policy.trainers_for(rule.id, rule.severity) if rule.kind is not RuleKind.NO_DATA else ():
                    _signals.put(connection, trainer, state, episodes(state, rule.hold).end.firing, changes, now)
                states.append(state)
            if observations or news.restarted_from is not None:
                _reached.keep(connection, run, states, news)
            _unheard.catch_up(connection, policy, run, now)
        return tuple(told)

    def reached(self) -> Mapping[str, Reached]:
        """Run -> how far it has come, and how often it went back; to be asked before a log is read that is compared with it.

        Raises:
            StoreError: the file cannot be read.
        """
        with self._database.reading() as connection:
            others = connection.execute("PRAGMA data_version").fetchone()[0]
            version = (self._database.remade, others, connection.total_changes)  # which file, others' writes, and ours
            if version != self._reached[0]:
                self._reached = (version, _reached.every(connection))
            return self._reached[1]

    def claim(self, now: float, lease_s: float = LEASE_S, sinks: Sequence[str] | None = None) -> Queued | None:
        """Hand out the oldest notification that nobody holds, for some destinations or any; None where there is none.

        Raises:
            StoreError: the file cannot be written.
        """
        with self._database.writing() as connection:
            return _outbox.claimed(connection, now, lease_s, sinks)

    def sent(self, identity: int, now: float) -> None:
        """Record that a claimed notification arrived."""
        with self._database.writing() as connection:
            _outbox.sent(connection, identity, now)

    def failed(self, identity: int, error: str, retry_at: float | None, now: float) -> None:
        """Record that a claimed notification did not arrive, and when to hand it out again; None gives it up."""
        with self._database.writing() as connection:
            _outbox.failed(connection, identity, error, retry_at, now)

    def sinks(self) -> tuple[SinkHealth, ...]:
        """How every destination has been doing."""
        with self._database.reading() as connection:
            return _outbox.health(connection)

    def states(self, run: str | None = None) -> tuple[State, ...]:
        """Every state, or those of one run, by run and rule."""
        with self._database.reading() as connection:
            rows = connection.execute("SELECT state FROM state WHERE ? IS NULL OR run = ? ORDER BY run, rule", (run, run)).fetchall()
        return tuple(State.from_json(text) for (text,) in rows)

    def history(self, run: str | None = None, rule: str | None = None, limit: int = 200) -> tuple[Past, ...]:
        """The latest changes of state, told or not, the newest first."""
        with self._database.reading() as connection:
            rows = connection.execute(
                "SELECT id, notification, withheld, at FROM history WHERE (?1 IS NULL OR run = ?1) AND (?2 IS NULL OR rule = ?2) "
                "ORDER BY id DESC LIMIT ?3",
                (run, rule, limit),
            ).fetchall()
        return tuple(Past(id=row[0], notification=Notification.from_json(row[1]), withheld=row[2], at=row[3]) for row in rows)

    def arrivals(self, pasts: Iterable[Past]) -> Mapping[str, tuple[int, int]]:
        """Key of a notification -> at how many destinations it arrived, and how many it goes to; none where there are none."""
        with self._database.reading() as connection:
            return _outbox.arrivals(connection, {past.notification.key for past in pasts if not past.withheld})

    def silence(self, rule: str, run: str, until: float, *, by: str, now: float) -> None:
        """Tell nothing of a rule in a run before `until`; see `machine.silence`. A time that is past ends a silence."""
        with self._database.writing() as connection:
            connection.execute("INSERT INTO silences (rule, run, until, by, at) VALUES (?, ?, ?, ?, ?)", (rule, run, until, by, now))
            _rows.keep(connection, silence(_rows.kept(connection, rule, run).state, until), now)

    def silences(self, now: float) -> tuple[Silence, ...]:
        """The silences in force: of each rule and run the latest word."""
        with self._database.reading() as connection:
            rows = connection.execute(
                "SELECT rule, run, until, by, at FROM silences WHERE id IN (SELECT max(id) FROM silences GROUP BY rule, run) AND until > ? "
                "ORDER BY run, rule",
                (now,),
            ).fetchall()
        return tuple(Silence(rule=row[0], run=row[1], until=row[2], by=row[3], at=row[4]) for row in rows)

    def acknowledge(self, episode: str, *, by: str, now: float) -> bool:
        """No more reminders of an episode; False where no such episode lasts."""
        with self._database.writing() as connection:
            row = connection.execute("SELECT state FROM state WHERE ? IN (episode, nan_episode)", (episode,)).fetchone()
            before = None if row is None or not episode else State.from_json(row[0])
            if before is None:
                return False
            _rows.keep(connection, acknowledge(before, episode), now)
            connection.execute("INSERT INTO acknowledgements (episode, by, at) VALUES (?, ?, ?)", (episode, by, now))
            return True

    def forget(self, run: str) -> None:
        """Drop everything about a run, and what of it waits to be sent."""
        with self._database.writing() as connection:
            for table in ("state", "history", "outbox", "silences", "reached", "unheard"):
                connection.execute(f"DELETE FROM {table} WHERE run = ?", (run,))  # noqa: S608 - six names of ours


__all__ = ["FILE", "LEASE_S", "AlertStore", "DiskFullError", "Past", "Queued", "Reached", "Silence", "SinkHealth", "StoreError"]
