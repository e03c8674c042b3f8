"""History records of a `.wandb` file as values: one record is one step, its items the metrics.

These are nearly all that a file holds, so an item of the common shape (a key, a number as JSON text, both short) is read in place, and the
bytes that spell a key are looked up whole; every other shape takes the way through `fields`.
"""

from __future__ import annotations

from array import array
from copy import deepcopy
from dataclasses import dataclass, field
from math import nan

import numpy as np
import pyarrow as pa

from ingest.readers._numbers import number_of, whole
from ingest.readers._rows import Rows
from ingest.readers._wandb_histogram import gathered
from ingest.readers._wandb_items import KEY, NESTED_KEY, item, key_of
from ingest.readers._wandb_values import BOOKKEEPING, SECONDS, STEP, Values, json_value, outside
from ingest.readers._wandb_wire import fields

_ITEM, _STEP_FIELD, _STEP_NUMBER = 1, 2, 1  # of HistoryRecord and HistoryStep
_ITEM_HEAD = _ITEM << 3 | 2
_KEY_HEADS = (KEY << 3 | 2, NESTED_KEY << 3 | 2)
_VALUE_HEAD = b"\x82\x01"  # of field 16, the value as JSON
_SHORT = 128  # lengths under this take one byte
_WORDS = {b"true": 1.0, b"false": 0.0}


@dataclass
class _Row:
    """One record: numbers with the codes of their keys, the axes, and what is no number."""

    codes: list[int] = field(default_factory=list)
    numbers: list[float] = field(default_factory=list)
    axes: dict[str, float] = field(default_factory=dict)
    others: list[tuple[str, object]] = field(default_factory=list)


@dataclass
class History:
    """The history of one file: its values in the order of the file, and the keys it has had."""

    values: Values = field(default_factory=Values)  # numbers reach it in `close`
    known: dict[bytes, int] = field(default_factory=dict)  # the bytes that spell a key -> its place in `names`; negative for an axis
    names: dict[str, int] = field(default_factory=dict)
    codes: array[int] = field(default_factory=lambda: array("q"))
    numbers: array[float] = field(default_factory=lambda: array("d"))
    steps: array[int] = field(default_factory=lambda: array("q"))
    walls: array[float] = field(default_factory=lambda: array("d"))
    ascending: bool = True  # so far every record's step is beyond the one before, so that none is repeated

    def take(self, data: bytes, place: str) -> None:
        """Add one record.

        Raises:
            ValueError: the bytes are no history record; none of it is added.
            IndexError: they end in the middle of one.
        """
        row = _Row()
        rest = data[self._common(data, row) :]
        for number, inner in fields(rest) if rest else ():
            if number == _ITEM and isinstance(inner, bytes):
                self._other(row, *item(inner))
            elif number == _STEP_FIELD and isinstance(inner, bytes):
                row.axes.setdefault(STEP, float(next((value for key, value in fields(inner) if key == _STEP_NUMBER), 0)))
        self._append(row, place)

    def close(self) -> Values:
        """All values, in the order of the file; more can be taken afterwards."""
        values = deepcopy(self.values)
        values.rows.extend_many(list(self.names), *self._numbers(0))
        return values

    @property
    def held(self) -> tuple[int, int]:
        """How many values there are, for `since`."""
        return len(self.values.rows.values), len(self.numbers)

    def since(self, held: tuple[int, int]) -> pa.Table:
        """What came since there were so many values."""
        rows = Rows()
        rows.extend_many(list(self.names), *self._numbers(held[1]))
        return outside(pa.concat_tables([self.values.rows.since(held[0]), rows.table()]), self.values.media)

    def _numbers(self, start: int) -> list[np.ndarray]:
        return [np.array(column[start:]) for column in (self.codes, self.steps, self.numbers, self.walls)]

    def _common(self, data: bytes, row: _Row) -> int:
        """Read items while they have the common shape; say where another shape begins. No calls: it runs once a value."""
        known, codes, numbers = self.known, row.codes, row.numbers
        at, end = 0, len(data)
        while at < end and data[at] == _ITEM_HEAD:
            size, begin = data[at + 1], at + 2
            if size >= _SHORT:
                if data[begin] >= _SHORT:
                    break
                size, begin = size & 0x7F | data[begin] << 7, begin + 1
            stop, mark = begin + size, begin
            while data[mark] in _KEY_HEADS and data[mark + 1] < _SHORT:
                mark += 2 + data[mark + 1]
            if mark + 3 + data[mark + 2] != stop or data[mark : mark + 2] != _VALUE_HEAD or stop > end or data[mark + 2] >= _SHORT:
                break
            value = data[mark + 3 : stop]
            code = known.get(data[begin:mark])
            if code is None:
                code = self._learn(data[begin:mark])
            try:
                number = _WORDS[value] if value in _WORDS else float(value)
            except ValueError:
                self._other(row, key_of(data[begin:mark]), json_value(value))
            else:
                if code >= 0:
                    codes.append(code)
                    numbers.append(number)
                else:
                    row.axes[BOOKKEEPING[code]] = number
            at = stop
        return at

    def _learn(self, spelled: bytes) -> int:
        name = key_of(spelled)
        code = BOOKKEEPING.index(name) - len(BOOKKEEPING) if name in BOOKKEEPING else self._code(name)
        self.known[spelled] = code
        return code

    def _code(self, name: str) -> int:
        return self.names.setdefault(name, len(self.names))

    def _other(self, row: _Row, name: str, value: object) -> None:
        """Sort in one value of another shape."""
        number = number_of(value)
        if name in BOOKKEEPING:
            row.axes |= {} if number is None else {name: number}
        elif number is None:
            row.others.append((name, value))
        else:
            row.codes.append(self._code(name))
            row.numbers.append(number)

    def _append(self, row: _Row, place: str) -> None:
        step, wall = whole(row.axes.get(STEP)), row.axes.get(SECONDS, nan)
        if step is None:
            names = list(self.names)
            row.others += [(names[code], number) for code, number in zip(row.codes, row.numbers, strict=True)]
        else:
            count = len(row.codes)
            self.ascending = self.ascending and (not self.steps or step > self.steps[-1])
            self.codes.extend(row.codes)
            self.numbers.extend(row.numbers)
            self.steps.extend([step] * count)
            self.walls.extend([wall] * count)
        for name, value in gathered(row.others):
            self.values.take(name, value, step, wall, place)
