"""JSON lines become rows: lines of one shape are collected and converted at once, every other line is looked at value by value."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ingest.readers._json import leaves, parsed, step_of
from ingest.readers._numbers import number_of
from ingest.readers._rows import Rows
from ingest.readers._tally import Tally
from ingest.run import ProblemKind, ReadProblem

_BATCH = 4096  # lines converted at once
_NUMBERS = frozenset({float, int, bool})
# Objects that a logger puts all metrics of a step into, beside the step: verl's file logger writes `data`. Their name is no part of a key.
_WRAPPERS = ("data", "metrics")
_BOOKKEEPING = ("_step", "_timestamp", "_runtime", "elapsed_seconds")  # of wandb's records and verl's file logger: axes, not quantities
_WALL_KEYS = ("_timestamp", "timestamp", "wall_time", "time")
_EPOCH = 1e8  # seconds; a time under this counts from the start of the run


@dataclass
class Lines:
    """What has been read of one file so far."""

    path: Path
    axis: str | None  # key of the step; None where the line's number stands for it
    rows: Rows = field(default_factory=Rows)
    broken: Tally = field(default_factory=Tally)
    others: Tally = field(default_factory=Tally)
    stepless: Tally = field(default_factory=Tally)
    empty_values: int = 0
    cut: ReadProblem | None = None
    _shape: tuple[str, ...] = ()
    _alike: list[list[float]] = field(default_factory=list)  # lines of that shape that wait to be converted
    _numbers: list[int] = field(default_factory=list)

    @property
    def lost(self) -> int:
        """How many lines and values could not be read."""
        return self.broken.count + self.others.count + self.stepless.count

    def take(self, number: int, line: bytes, *, is_last: bool) -> None:
        """Add one line's values to what has been read."""
        values = parsed(line)
        if values is None:
            self._unread(number, is_last=is_last)
            return
        kinds = set(map(type, values.values()))
        if dict in kinds:
            values = flat(values)
            kinds = set(map(type, values.values()))
        if not kinds <= _NUMBERS:
            self.flush()
            self._each(number, values)
            return
        shape = tuple(values)
        if shape != self._shape or len(self._alike) >= _BATCH:
            self.flush()
            self._shape = shape
        self._alike.append(list(values.values()))
        self._numbers.append(number)

    def flush(self) -> None:
        """Convert the lines that wait; one by one where they are not alike after all, or a number is beyond what fits a column."""
        if not self._alike:
            return
        try:
            self._convert()
        except OverflowError:
            for number, line in zip(self._numbers, self._alike, strict=True):
                self._each(number, dict(zip(self._shape, line, strict=True)))
        self._alike, self._numbers = [], []

    def _convert(self) -> None:
        """Turn lines of one shape into rows, in their order."""
        at = self._shape.index(self.axis) if self.axis in self._shape else -1
        if at >= 0 and any(type(line[at]) is not int for line in self._alike):
            raise OverflowError
        if at < 0 and self.axis is not None:
            raise OverflowError
        steps = np.array([line[at] for line in self._alike] if at >= 0 else self._numbers, np.int64)
        table = np.array(self._alike, np.float64)
        wall = self._wall(table)
        walls = None if wall is None else table[:, wall]
        kept = [place for place, key in enumerate(self._shape) if place not in {at, wall} and key not in _BOOKKEEPING]
        self.rows.extend_many(
            [self._shape[place] for place in kept],
            np.tile(np.arange(len(kept)), len(table)),
            np.repeat(steps, len(kept)),
            table[:, kept].ravel(),
            np.repeat(walls, len(kept)) if walls is not None else None,
        )

    def _wall(self, table: np.ndarray) -> int | None:
        """The column that says when each line was written; lines of which only some say so are looked at one by one."""
        for place in (self._shape.index(key) for key in _WALL_KEYS if key in self._shape):
            told = table[:, place] > _EPOCH
            if told.all():
                return place
            if told.any():
                raise OverflowError
        return None

    def _each(self, number: int, values: Mapping[str, Any]) -> None:
        step = number if self.axis is None else step_of(values.get(self.axis))
        clock = next((key for key in _WALL_KEYS if (number_of(values.get(key)) or 0) > _EPOCH), None)
        wall = float(number_of(values[clock]) or 0) if clock else math.nan
        for key, value in values.items():
            if key in (self.axis, clock) or key in _BOOKKEEPING:
                continue
            if value is None:
                self.empty_values += 1
            elif (read := number_of(_alone(value))) is None:
                self.others.add(f"line {number}, key {key}", group=key)
            elif step is None:
                self.stepless.add(f"line {number}, key {key}")
            else:
                self.rows.add(key, step, read, wall)

    def _unread(self, number: int, *, is_last: bool) -> None:
        if not is_last:
            self.broken.add(f"line {number}")
            return
        what = "the last line is cut, as in a log that is being written; it is not read"
        self.cut = ReadProblem(path=str(self.path), place=f"line {number}", what=what, kind=ProblemKind.NOTE)


def flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """Nested keys joined with "/"; what lies in a wrapper stands beside it, unless the name is taken there."""
    found: dict[str, Any] = {}
    for key, value in _leaves(values):
        name = next((key.removeprefix(f"{wrapper}/") for wrapper in _WRAPPERS if key.startswith(f"{wrapper}/")), key)
        found[name if name not in found and (name == key or name not in values) else key] = value
    return found


def _leaves(values: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """The leaves of a line; an empty object says nothing."""
    return ((key, value) for key, value in leaves(values) if value != {})


def _alone(value: object) -> object:
    """The one element of a list: some loggers write a slice of a batch, also where it holds one value."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value
