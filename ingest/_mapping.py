"""Raw keys become quantities: what a dialect knows is renamed, what it does not know or what is given twice is counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ingest._names import Names, base_key, hint_for
from ingest.dialect import Dialect, Key
from ingest.readers._rows import blank, coded, spelled
from ingest.run import Config, ProblemKind, RawLog, ReadProblem
from ingest.schema import SCALARS

Marks = Mapping[tuple[str, int], str]  # (key, step) -> what must be known about that value
_NOTHING: Marks = {}
_NARROW = 2**16
_UNDER_SETTINGS = "no quantity of ours under this run's settings"


def map_scalars(
    raw: RawLog, dialect: Dialect, config: Config, marks: Marks = _NOTHING, caveats: Mapping[str, str] | None = None
) -> tuple[pa.Table, tuple[ReadProblem, ...]]:
    """Turn raw values into quantities, sorted by step; values of one step keep the order of the file.

    Rows in = rows out (derived values apart) + rows of the problems.

    Args:
        raw: the log.
        dialect: the framework's names.
        config: settings, under our names too.
        marks: what must be known about single values.
        caveats: what must be known about all values of a key.
    """
    derived = dialect.derive(raw, config)
    keys, codes = coded(raw.scalars.column("key"))
    names = Names(dialect=dialect, config=config, present={base_key(key) for key in keys})
    taken, problems = _Taken(codes=codes, values=raw.scalars.column("value").to_numpy(), kept=np.zeros(len(keys), bool)), []
    for code, (name, rows) in enumerate(zip(keys, np.bincount(codes, minlength=len(keys)).tolist(), strict=True)):
        key = names.key(base_key(name))
        taken.labels.append(_label(name, key, (caveats or {}).get(name, "")))
        if key is None:
            problems.append(_unmapped(raw.path, name, rows, names))
        elif names.winners[key.quantity] != base_key(name):
            problems.append(_shadowed(raw.path, name, rows, names.winners[key.quantity], key.quantity))
        else:
            problems += [*_placeholders(raw.path, name, taken.take(code, key), key), *_constants(raw.path, name, key)]
    return _table(raw.scalars, taken, marks, derived.scalars), (*problems, *derived.problems)


def by_key(scalars: pa.Table) -> list[tuple[str, pa.Table]]:
    """The rows of each key, without the key, in the order of the file; one pass over the table, however many keys there are."""
    names, codes = coded(scalars.column("key"))
    rows = scalars.drop_columns(["key"])
    if (codes[1:] < codes[:-1]).any():
        rows = rows.take(pa.array(np.argsort(_narrow(codes), kind="stable")))
    ends = np.cumsum(np.bincount(codes, minlength=len(names))).tolist()
    return [(name, rows.slice(start, end - start)) for name, start, end in zip(names, [0, *ends], ends, strict=False)]


class _Label(NamedTuple):
    """The text of a row."""

    quantity: str
    source_key: str
    caveat: str


@dataclass(kw_only=True)
class _Taken:
    """What the keys of a log are, by their codes, and which of its rows are values."""

    codes: np.ndarray  # of each row its key
    values: np.ndarray  # as logged
    kept: np.ndarray  # of each key whether it is taken
    labels: list[_Label] = field(default_factory=list)
    factors: dict[int, float] = field(default_factory=dict)  # of the keys that have another than 1
    void: list[np.ndarray] = field(default_factory=list)  # rows that hold a placeholder

    def take(self, code: int, key: Key) -> int:
        """Take a key's rows; says how many of them are placeholders and are not taken."""
        self.kept[code] = True
        if _factor(key) != 1:
            self.factors[code] = _factor(key)
        if key.placeholder is None:
            return 0
        self.void.append(np.flatnonzero((self.codes == code) & (self.values == key.placeholder)))
        return len(self.void[-1])

    def rows(self) -> np.ndarray | None:
        """The rows that are taken; None for all."""
        if self.kept.all() and not self.void:
            return None
        there = self.kept[self.codes]
        for rows in self.void:
            there[rows] = False
        return np.flatnonzero(there)

    def scaled(self) -> np.ndarray:
        """The values in our sign and unit."""
        if not self.factors:
            return self.values
        factors = np.array([self.factors.get(code, 1.0) for code in range(len(self.kept))])
        scaled: np.ndarray = self.values * factors[self.codes]
        return scaled


def _factor(key: Key) -> float:
    return float(key.sign) * key.scale


def _label(name: str, key: Key | None, caveat: str) -> _Label:
    """The text of one key's rows; an envelope keeps its ending, and changes sides where the sign does."""
    if key is None:
        return _Label("", name, "")
    end = name.removeprefix(base_key(name))
    if _factor(key) < 0:
        end = {".group_low": ".group_high", ".group_high": ".group_low"}.get(end, end)
    return _Label(key.quantity + end, name, "; ".join(part for part in (key.all_caveats, caveat) if part))


class _Columns(NamedTuple):
    """Rows by column; a row's texts go by its id."""

    steps: np.ndarray
    values: np.ndarray
    ids: np.ndarray
    walls: pa.ChunkedArray

    def ordered(self, order: np.ndarray) -> _Columns:
        """The rows in another order."""
        return _Columns(self.steps[order], self.values[order], self.ids[order], _taken(self.walls, order))

    def with_others(self, others: _Columns) -> _Columns:
        """Both by step, if each is; of one step the others come last."""
        at = np.searchsorted(self.steps, others.steps, side="right")
        steps, values, ids = (np.insert(own, at, new) for own, new in zip(self[:3], others[:3], strict=True))
        walls = pa.chunked_array([*self.walls.chunks, *others.walls.chunks], pa.float64())
        if walls.null_count < len(walls):
            walls = walls.take(pa.array(np.insert(np.arange(len(self.steps)), at, len(self.steps) + np.arange(len(at)))))
        return _Columns(steps, values, ids, walls)


def _table(scalars: pa.Table, taken: _Taken, marks: Marks, derived: pa.Table) -> pa.Table:
    """What is taken of a log and what is derived from it as SCALARS, by step; of one step key by key in the order of the file."""
    labels = list(taken.labels)
    columns = _Columns(scalars.column("step").to_numpy(), taken.scaled(), taken.codes, scalars.column("wall_time"))
    if (rows := taken.rows()) is not None:
        columns = columns.ordered(rows)
    if not _ascend(columns.steps, columns.ids):
        columns = columns.ordered(np.lexsort((_narrow(columns.ids), columns.steps)))
    columns = columns._replace(ids=_marked(columns.ids, columns.steps, marks, labels))
    if derived.num_rows:
        columns = columns.with_others(_derived(derived, labels))
    if not labels:
        return SCALARS.empty_table()
    texts = dict(zip(_Label._fields, spelled(columns.ids, *zip(*labels, strict=True)), strict=True))
    found = {"step": pa.array(columns.steps), "value": pa.array(columns.values), "wall_time": columns.walls, **texts}
    return pa.Table.from_arrays([found[column.name] for column in SCALARS], schema=SCALARS)


def _taken(walls: pa.ChunkedArray, order: np.ndarray) -> pa.ChunkedArray:
    return blank(len(order)) if walls.null_count == len(walls) else walls.take(pa.array(order))


def _ascend(steps: np.ndarray, codes: np.ndarray) -> bool:
    """Whether rows stand by step, and of one step by key."""
    after, same = steps[1:] > steps[:-1], steps[1:] == steps[:-1]
    return bool((after | (same & (codes[1:] >= codes[:-1]))).all())


def _narrow(codes: np.ndarray) -> np.ndarray:
    """Codes in a type that numpy sorts in one pass, where they fit it."""
    return codes.astype(np.uint16) if len(codes) and codes.max() < _NARROW else codes


def _marked(codes: np.ndarray, steps: np.ndarray, marks: Marks, labels: list[_Label]) -> np.ndarray:
    """Of each row its label; marked rows get one of their own, which is added."""
    if not marks:
        return codes
    ids, added = codes.copy(), dict[tuple[int, str], int]()
    for row in np.flatnonzero(np.isin(steps, sorted({step for _, step in marks}))).tolist():
        code = int(codes[row])
        label = labels[code]
        if said := marks.get((label.source_key, int(steps[row]))):
            ids[row] = added.setdefault((code, said), len(labels))
            if ids[row] == len(labels):
                labels.append(label._replace(caveat="; ".join(part for part in (label.caveat, said) if part)))
    return ids


def _derived(table: pa.Table, labels: list[_Label]) -> _Columns:
    """Derived rows by step; their labels are added."""
    texts, codes = zip(*(coded(table.column(name)) for name in _Label._fields), strict=True)
    both = np.zeros(table.num_rows, np.int64)
    for known, own in zip(texts, codes, strict=True):
        both = both * len(known) + own
    _, first, ids = np.unique(both, return_index=True, return_inverse=True)
    ids = (ids + len(labels)).astype(np.int32)
    labels += [_Label(*(known[own[row]] for known, own in zip(texts, codes, strict=True))) for row in first.tolist()]
    steps, values = table.column("step").to_numpy(), table.column("value").to_numpy()
    return _Columns(steps, values, ids, table.column("wall_time")).ordered(np.argsort(steps, kind="stable"))


def _unmapped(path: str, name: str, rows: int, names: Names) -> ReadProblem:
    base = base_key(name)
    otherwise = _UNDER_SETTINGS if base in names.spelled else "no quantity of ours goes by this key, so it is not shown"
    what = hint_for(names.dialect.hints, base) or otherwise
    return ReadProblem(path=path, place=f"key {name}", what=what, rows=rows, kind=ProblemKind.UNMAPPED)


def _shadowed(path: str, name: str, rows: int, winner: str, quantity: str) -> ReadProblem:
    what = f"{quantity} is taken from {winner}"
    return ReadProblem(path=path, place=f"key {name}", what=what, rows=rows, kind=ProblemKind.SHADOWED)


def _placeholders(path: str, name: str, rows: int, key: Key) -> list[ReadProblem]:
    if not rows:
        return []
    what = f"the framework writes {key.placeholder:g} for 'none': these are not values of {key.quantity}"
    return [ReadProblem(path=path, place=f"key {name}", what=what, rows=rows, kind=ProblemKind.PLACEHOLDER)]


def _constants(path: str, name: str, key: Key) -> list[ReadProblem]:
    if not key.constant:
        return []
    what = f"{key.quantity} is constant by construction: {key.constant}"
    return [ReadProblem(path=path, place=f"key {name}", what=what, kind=ProblemKind.NOTE)]
