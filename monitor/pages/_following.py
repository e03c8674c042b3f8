"""Logs that grow while they are looked at: what is new in them is read once, for whoever looks, and put to what was there.

A log is followed once it has been seen to grow, or was written a moment ago; any other is read as a whole, and stays so. To look costs
the sizes and times of its files; only when one of them has changed is anything read, and then what is new (`monitor.watch.follow`). A log
that can only be read as a whole may be read some looks later, when it has come to rest: so what counts is what was read, not what changed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import pyarrow as pa
import streamlit as st

from ingest.errors import RatiometerError
from ingest.run import ReadProblem
from ingest.schema import METRIC_FRAME
from monitor.watch.follow import Follower, follow
from monitor.watch.update import applied

RECENT_S = 600.0  # a log that was written within these is taken for one that grows
SHARE = 20  # files are looked at again after so many times what a look takes
READ_SHARE = 4  # the same for a look in which something was read
AGAIN_S = 1.0  # and not before this
MAX_FOLLOWED = 32  # sources

Key = tuple[tuple[str, int, int], ...]
T = TypeVar("T")
_NANO = 1e9


@dataclass(eq=False)
class Followed:
    """One source that grows: a frame for each of its runs."""

    follower: Follower
    due: float = -float("inf")  # when to look again
    frames: dict[str, pa.Table] = field(default_factory=dict)  # by the run's own id
    problems: dict[str, tuple[ReadProblem, ...]] = field(default_factory=dict)
    keys: dict[str, Key] = field(default_factory=dict)  # of the content of each run's frame
    revision: int = 0
    made: dict[str, tuple[Key, object]] = field(default_factory=dict)
    turn: threading.Lock = field(default_factory=threading.Lock)

    def catch_up(self, key: Key) -> None:
        """Take in what is new.

        Args:
            key: the files as they are.
        """
        begun = time.monotonic()
        if begun < self.due:
            return
        updates = self.follower.poll()
        for update in updates:
            self.revision += 1
            of_now = (*key, ("revision", self.revision, 0))
            run_id = update.run.id
            if update.steps or run_id not in self.frames:
                self.frames[run_id] = applied(self.frames.get(run_id, METRIC_FRAME.empty_table()), update)
                self.keys[run_id] = of_now
            if update.problems:
                self.problems[run_id] = (*self.problems.get(run_id, ()), *update.problems)
                self.keys[run_id] = of_now
        took = time.monotonic() - begun
        self.due = time.monotonic() + max(AGAIN_S, (READ_SHARE if updates else SHARE) * took)


class Looks:
    """Keys of sources, looked up no oftener than their number of files allows; shared by all sessions."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._turn = clock, threading.Lock()
        self._known: dict[str, tuple[float, Key]] = {}  # when to look again

    def key(self, where: str, look: Callable[[], Key]) -> Key:
        """The key as it is now, or was a moment ago."""
        with self._turn:
            due, key = self._known.get(where, (-float("inf"), ()))
            begun = self._clock()
            if begun >= due:
                key = look()
                took = self._clock() - begun
                self._known[where] = (self._clock() + max(AGAIN_S, SHARE * took), key)
        return key


@dataclass
class Registry(Generic[T]):
    """Every source that is followed."""

    looks: Looks = field(default_factory=Looks)
    followed: dict[str, Followed] = field(default_factory=dict)
    turn: threading.Lock = field(default_factory=threading.Lock)

    def of(self, where: str) -> Followed:
        """The source, followed from now on."""
        with self.turn:
            if where not in self.followed:
                while len(self.followed) >= MAX_FOLLOWED:
                    del self.followed[next(iter(self.followed))]
                self.followed[where] = Followed(follow(where))
            return self.followed[where]


def recent(key: Key, now: float) -> bool:
    """Whether a file was written within the last minutes."""
    return any(now - stamp / _NANO < RECENT_S for _, size, stamp in key if size)


def followed(
    where: str, run_id: str, before: Key, look: Callable[[], Key], make: Callable[[pa.Table, tuple[ReadProblem, ...], Key], T]
) -> T | None:
    """What is made of a run's frame as `state` last found it; None where the source does not grow, or cannot be followed.

    Args:
        where: the source's path.
        run_id: the run's own id.
        before: the files as they were when the source was read.
        look: the files as they are.
        make: makes it; called once per content.
    """
    registry = _registry()
    key = registry.looks.key(where, look)
    if where not in registry.followed and key == before and not recent(key, time.time()):
        return None
    try:
        source = registry.of(where)
        with source.turn:
            if run_id not in source.frames:
                source.catch_up(key)
            if run_id not in source.frames:
                return None
            at = source.keys[run_id]
            known = source.made.get(run_id)
            if known is None or known[0] != at:
                known = source.made[run_id] = (at, make(source.frames[run_id], source.problems.get(run_id, ()), at))
    except (RatiometerError, OSError):
        return None
    return known[1]  # type: ignore[return-value]  # what `make` made


def seen(where: str, look: Callable[[], Key]) -> Key:
    """The files of a source as they are now, or were a moment ago."""
    return _registry().looks.key(where, look)


def state(where: str, look: Callable[[], Key]) -> object:
    """What there is to be shown of a source: another as soon as anything else would be. Only here is anything new read."""
    registry, key = _registry(), seen(where, look)
    source = registry.followed.get(where)
    if source is None and not recent(key, time.time()):
        return key
    try:
        source = source or registry.of(where)  # or what a page draws first would follow it, and so be news to that page
        with source.turn:
            source.catch_up(key)
    except (RatiometerError, OSError):
        return key
    return source.revision


def known_runs(where: str) -> frozenset[str]:
    """Ids of the runs that following a source has found; empty where it is not followed."""
    source = _registry().followed.get(where)
    return frozenset() if source is None else frozenset(source.frames)


@st.cache_resource(show_spinner=False)
def _registry() -> Registry[object]:
    return Registry()
