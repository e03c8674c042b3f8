"""Paths at which nothing came yet: to rules on missing data they are runs, so that a trainer that hangs before its first value is told of.

Such a run has the id that a run at the path will have, as far as its name tells; where it gets another, or is several, what was told of the
path is over when they begin.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container
from dataclasses import replace
from itertools import islice
from pathlib import Path

from ingest.identify import address_reader
from ingest.load import ids_of
from ingest.run import RawLog
from monitor.alerts.machine import News, Notification, Phase
from monitor.alerts.policy import Policy, RuleKind
from monitor.alerts.store import AlertStore

_FILES = (".jsonl", ".ndjson", ".json", ".csv", ".wandb", ".parquet", ".log")  # a run in a file is called as the file without these
IDS = 8  # of a run that are tried


class Unbegun:
    """What is known of such paths."""

    def __init__(self, store: AlertStore, clock: Callable[[], float]) -> None:
        self._store, self._clock = store, clock
        self._ids: dict[str, str] = {}  # path -> id, of those at which nothing came yet
        self._begun: set[str] = set()

    @property
    def ids(self) -> Collection[str]:
        """The ids under which it is waited."""
        return self._ids.values()

    def waits(self, path: str, policy: Policy) -> tuple[Notification, ...]:
        """Take note that nothing came yet; gives what is told.

        Raises:
            StoreError: the alerts cannot be kept now.
        """
        own = _only_silence(policy)
        if not own.rules:
            return ()
        if path in self._ids:
            return self._store.take(own, self._ids[path], (), self._clock())
        place, name = _place(path)
        run = self._store.known_as(place, *islice(ids_of(RawLog(name=name, path=path, container="")), IDS))
        fires = any(state.phase is Phase.FIRING for state in self._store.states(run) if _is_of(state.rule, own))
        # Its time begins now, whatever an earlier watch saw at this path; unless that has told of it already.
        told = self._store.take(own, run, (), self._clock(), news=News(expected=not fires))
        self._ids[path] = run
        self._begun.discard(path)
        return told

    def begins(self, path: str, policy: Policy, runs: Container[str]) -> tuple[Notification, ...]:
        """Take note that something came; gives what is told: that it is over, where no run goes on with it.

        Args:
            path: the path.
            policy: the rules.
            runs: ids of all runs that are followed by now.

        Raises:
            StoreError: the alerts cannot be kept now.
        """
        if path in self._begun:
            return ()
        run = self._ids.get(path) or self._known(path)
        told: tuple[Notification, ...] = ()
        if run and run not in runs:
            told = self._store.take(_only_silence(policy), run, (), self._clock(), news=News(came=True))
        self._ids.pop(path, None)
        self._begun.add(path)
        return told

    def _known(self, path: str) -> str:
        """The id under which an earlier watch has waited at a path."""
        try:
            return self._store.known_as(_place(path)[0])
        except ValueError:
            return ""


def _only_silence(policy: Policy) -> Policy:
    return replace(policy, rules=tuple(rule for rule in policy.rules if rule.kind is RuleKind.NO_DATA))


def _is_of(rule: str, policy: Policy) -> bool:
    return any(one.id == rule for one in policy.rules)


def _place(path: str) -> tuple[str, str]:
    """The place by which a run at a path is known, and its name."""
    at = Path(path)
    name = at.stem if at.suffix.lower() in _FILES and not at.is_dir() else at.resolve().name
    if address_reader(path) is not None:
        return f"{path}|{path.rpartition('/')[2]}", path.rpartition("/")[2]
    return f"{at.resolve()}|{name}", name
