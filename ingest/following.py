"""A log that grows becomes a run again and again: only what is new is understood, wherever that gives what understanding all of it would.

What a value means depends on the whole log: which dialect knows its keys, which of two keys is taken, on which clock it runs, where it was
resumed. So the first look understands everything. After that the last steps are understood with and without what came, and what differs is
what changed, if nothing came that could reach further back: a new key, another setting, a step that falls, a value on another clock. Then
everything is understood again, from memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest._clock import Timed, timed
from ingest._mapping import map_scalars
from ingest._seams import LONG_ENOUGH
from ingest._step_digests import step_digests
from ingest._understand import Explained, Wish, explained, understood
from ingest.dialect import Dialect
from ingest.readers._rows import coded
from ingest.run import Config, ProblemKind, RawLog, Run
from ingest.schema import RAW_SCALARS, SCALARS

KEPT = 32  # of the log's own steps, the last of which all values are kept; twice as many before they are cut back


@dataclass(frozen=True, kw_only=True)
class Changed:
    """What is other than before, step by step."""

    steps: frozenset[int] = frozenset()  # whose rows are others now, or are no more
    scalars: pa.Table = field(default_factory=SCALARS.empty_table)  # all rows of these steps
    restarted_from: int | None = None  # the first step that the run has come to again, since the look before
    reach: Mapping[str, int] = field(default_factory=dict)  # key -> as far as it has come again; what lies beyond is from before a restart


@dataclass(frozen=True, kw_only=True)
class Understood(Changed):
    """The same where everything was understood again."""

    run: Run


class Understanding:
    """One run and its log, as it grows."""

    def __init__(self, wish: Wish, run_id: str) -> None:
        self._wish, self.run_id = wish, run_id
        self._digests: dict[int, int] = {}
        self._facts: _Facts | None = None
        self._raw = RawLog(name="", path="", container="")
        self._tail = self._witness = RAW_SCALARS.empty_table()
        self._before: pa.Table | None = None  # the tail, understood
        self._course: dict[int, float] = {}  # of the key that all of a log has a say in, see `Dialect.pooled`
        self._restarts: dict[str, int] = {}  # key -> how often it was restarted
        self._reach: dict[str, int] = {}

    def whole(self, raw: RawLog) -> Understood:
        """Understand everything.

        Raises:
            UnknownDialectError: as `ingest.load.load`.
        """
        known = explained(raw, self._wish)
        run = understood(raw, known, self._wish, self.run_id)
        before, self._digests = self._digests, step_digests(run.scalars)
        falls = _falls(known.on_clock.raw.scalars)
        steps = {step for step in before.keys() | self._digests.keys() if before.get(step) != self._digests.get(step)}
        restarted_from = self._note_restarts([fall for fall in falls if not fall.disorder], steps)
        if restarted_from is None:
            restarted_from = _taken_back(before, self._digests)
        self._course = _course(known.whole.raw.scalars, known.dialect)
        self._facts = _facts(raw, known, falls, self._course)
        self._raw = replace(raw, scalars=RAW_SCALARS.empty_table(), tokens=None, problems=())
        self._tail = self._witness = RAW_SCALARS.empty_table()
        self._before = None
        if not self._facts.unsafe:
            self._tail = raw.scalars
            self._cut_back()
        scalars = _of(run.scalars, steps)
        return Understood(steps=frozenset(steps), scalars=scalars, run=run, restarted_from=restarted_from, reach=self._reach)

    def more(self, fresh: pa.Table) -> Changed | None:
        """Understand what came, with the steps before it; None where everything has to be understood.

        Args:
            fresh: RAW_SCALARS, the rows that stand behind all others of the log.
        """
        facts = self._facts
        if facts is None or facts.unsafe or self._reach or not set(coded(fresh.column("key"))[0]) <= facts.keys:
            return None
        if facts.cut_at is not None and fresh.num_rows and pc.min(fresh.column("step")).as_py() < facts.cut_at:
            return None
        grown = pa.concat_tables([self._tail, fresh])
        before = self._understood(self._tail) if self._before is None else self._before
        after = self._understood(grown)
        if before is None or after is None:
            return None
        was, now = step_digests(before), step_digests(after)
        steps = {step for step in was.keys() | now.keys() if was.get(step) != now.get(step)}
        if steps and min(steps) <= facts.settled:
            return None
        for step in was.keys() - now.keys():
            self._digests.pop(step, None)
        self._digests |= {step: now[step] for step in steps if step in now}
        self._tail, self._before = grown, after
        if len(np.unique(grown.column("step").to_numpy())) > 2 * KEPT:
            self._cut_back()
        return Changed(steps=frozenset(steps), scalars=_of(after, steps))

    def _note_restarts(self, falls: list[_Fall], steps: set[int]) -> int | None:
        """Note how far each key has come again, add these steps to those that changed, and say where the latest restart began."""
        told, self._restarts = self._restarts, {fall.key: fall.count for fall in falls}
        latest = [fall for fall in falls if fall.count > told.get(fall.key, 0) and (self._facts is not None or fall.reach < fall.highest)]
        first = min((fall.first for fall in latest), default=None)
        for fall in falls:
            come_to = self._reach.get(fall.key, fall.first) if fall not in latest else fall.first
            steps |= {step for step in self._digests if come_to <= step <= fall.reach and (fall in latest or fall.key in self._reach)}
        self._reach = {fall.key: fall.reach for fall in falls if fall.reach < fall.highest}
        return first

    def _understood(self, tail: pa.Table) -> pa.Table | None:
        """SCALARS of some last rows; None where they are not what they would be among all rows."""
        facts = self._facts
        if facts is None:
            return None
        raw = replace(self._raw, scalars=pa.concat_tables([self._witness, tail]))
        on_clock = timed(raw, facts.dialect.step)
        if on_clock.caveats or _lost(raw, on_clock) or _falls(on_clock.raw.scalars) or _moved(raw, facts.dialect) != facts.moved:
            return None
        if facts.dialect.pooled:
            self._course |= _course(on_clock.raw.scalars, facts.dialect)
            if facts.dialect.pool(facts.config, self._course) != facts.pooled:
                return None  # and all is understood again, with what the course says by now
        return map_scalars(on_clock.raw, facts.dialect, {**facts.config, **facts.pooled})[0]

    def _cut_back(self) -> None:
        """Keep the last steps, and of keys that are not among them the step that has them last, with all that stands there."""
        facts, steps = self._facts, self._tail.column("step").to_numpy()
        kept = np.unique(steps)[-KEPT:]
        if facts is None or not kept.size or (later := steps >= kept[0]).all():
            return
        dropped = self._tail.filter(pa.array(~later))
        true = timed(replace(self._raw, scalars=dropped), facts.dialect.step).raw.scalars.column("step")
        settled = pc.max(true).as_py() if len(true) else facts.settled
        self._facts = replace(facts, cut_at=int(kept[0]), settled=max(facts.settled, settled))
        self._tail = self._tail.filter(pa.array(later))
        self._witness = _last_of(pa.concat_tables([self._witness, dropped]), facts.keys - set(coded(self._tail.column("key"))[0]))
        self._before = None


@dataclass(frozen=True, kw_only=True)
class _Facts:
    """What was found out when everything was understood."""

    dialect: Dialect
    config: Config
    pooled: Config  # what the course of one key over all steps adds to it
    keys: frozenset[str]
    unsafe: bool  # values may change long after they were logged, so everything has to be understood every time
    moved: bool  # whether the clock moves any value
    settled: int  # up to this step a value may depend on rows that are not kept
    cut_at: int | None = None  # of the log's own steps the first of which all rows are kept; None for all


def _facts(raw: RawLog, known: Explained, falling: list[_Fall], course: Mapping[int, float]) -> _Facts:
    return _Facts(
        dialect=known.dialect,
        config=known.config,
        pooled=known.dialect.pool(known.config, course),
        keys=frozenset(coded(raw.scalars.column("key"))[0]),
        unsafe=bool(known.on_clock.caveats or _lost(raw, known.on_clock) or any(fall.disorder for fall in falling)),
        moved=_moved(raw, known.dialect),
        settled=max((fall.highest for fall in falling), default=np.iinfo(np.int64).min),
    )


def _course(scalars: pa.Table, dialect: Dialect) -> dict[int, float]:
    """Step -> the last value of the key that all of a log has a say in; empty where the dialect has none."""
    if not dialect.pooled:
        return {}
    rows = scalars.filter(pc.equal(scalars.column("key"), dialect.pooled))
    return dict(zip(rows.column("step").to_pylist(), rows.column("value").to_pylist(), strict=True))


@dataclass(frozen=True, kw_only=True)
class _Fall:
    """A key whose steps fall somewhere."""

    key: str
    count: int
    first: int  # step at the last fall
    reach: int  # highest step since
    highest: int  # of all
    disorder: bool  # so often that it is not taken for a restart, as long as there are not more rows


def _falls(scalars: pa.Table) -> list[_Fall]:
    steps = scalars.column("step").to_numpy()
    if (steps[1:] >= steps[:-1]).all():
        return []
    names, codes = coded(scalars.column("key"))
    order = np.argsort(codes, kind="stable")
    fell = np.flatnonzero((np.diff(steps[order]) < 0) & (np.diff(codes[order]) == 0))
    found = []
    for code, count in zip(*np.unique(codes[order][fell], return_counts=True), strict=True):
        own = steps[codes == code]
        since = own[np.flatnonzero(np.diff(own) < 0)[-1] + 1 :]
        spans = {"first": int(since[0]), "reach": int(since.max()), "highest": int(own.max())}
        found.append(_Fall(key=names[code], count=int(count), disorder=bool(count * LONG_ENOUGH > own.size), **spans))
    return found


def _taken_back(before: dict[int, int], now: dict[int, int]) -> int | None:
    """The first of the last steps that are all gone or others, where the very last is gone; a log that was rotated goes on behind it."""
    first: int | None = None
    if before and max(now, default=-1) > max(before):
        return None
    for step in sorted(before, reverse=True):
        if (first is None and step in now) or before[step] == now.get(step):
            break
        first = step
    return first


def _lost(raw: RawLog, on_clock: Timed) -> bool:
    """Whether the clock has left out values, which come back when their step is logged after all."""
    return any(problem.kind is ProblemKind.LOST for problem in on_clock.raw.problems[len(raw.problems) :])


def _moved(raw: RawLog, dialect: Dialect) -> bool:
    """Whether the log's own steps are not those of its clock."""
    keys = set(coded(raw.scalars.column("key"))[0]) if dialect.step else set()
    axis = next((key for key in dialect.step if key in keys or key == raw.axis), raw.axis)
    rows = raw.scalars.filter(pc.equal(raw.scalars.column("key"), axis)) if axis in keys else RAW_SCALARS.empty_table()
    return bool((rows.column("value").to_numpy() != rows.column("step").to_numpy()).any())


def _last_of(rows: pa.Table, keys: set[str] | frozenset[str]) -> pa.Table:
    """All rows at the last step of each key."""
    names, codes = coded(rows.column("key"))
    steps = rows.column("step").to_numpy()
    last = np.full(len(names), np.iinfo(np.int64).min)
    np.maximum.at(last, codes, steps)
    wanted = [step for name, step in zip(names, last.tolist(), strict=True) if name in keys]
    return rows.filter(pa.array(np.isin(steps, wanted)))


def _of(scalars: pa.Table, steps: set[int]) -> pa.Table:
    """The rows of some steps."""
    return scalars.filter(pa.array(np.isin(scalars.column("step").to_numpy(), sorted(steps)))) if steps else scalars.slice(0, 0)


__all__ = ["Changed", "Understanding", "Understood", "Wish"]
