"""Raw keys become quantities: what a dialect knows is renamed, what it does not know or what is given twice is counted."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest._names import Names, base_key, hint_for
from ingest.dialect import Dialect, Key
from ingest.run import Config, ProblemKind, RawLog, ReadProblem
from ingest.schema import SCALARS

Marks = Mapping[tuple[str, int], str]  # (key, step) -> what must be known about that value
_NOTHING: Marks = {}
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
    names = Names(dialect=dialect, config=config, present={base_key(key) for key in _keys(raw)})
    tables, problems = [], []
    for name, rows in by_key(raw.scalars):
        key = names.key(base_key(name))
        if key is None:
            problems.append(_unmapped(raw.path, name, rows.num_rows, names))
        elif names.winners[key.quantity] != base_key(name):
            problems.append(_shadowed(raw.path, name, rows.num_rows, names.winners[key.quantity], key.quantity))
        else:
            kept = rows.filter(pc.not_equal(rows.column("value"), key.placeholder)) if key.placeholder is not None else rows
            problems += [*_placeholders(raw.path, name, rows.num_rows - kept.num_rows, key), *_constants(raw.path, name, key)]
            tables.append(_renamed(kept, name, key, marks, (caveats or {}).get(name, "")))
    table = pa.concat_tables([SCALARS.empty_table(), *tables, derived.scalars])
    return table.take(pc.sort_indices(table, sort_keys=[("step", "ascending")])), (*problems, *derived.problems)


def _keys(raw: RawLog) -> list[str]:
    keys: list[str] = pc.unique(raw.scalars.column("key")).to_pylist()
    return keys


def by_key(scalars: pa.Table) -> list[tuple[str, pa.Table]]:
    """The rows of each key in the order of the file; one pass over the table, however many keys there are."""
    coded = scalars.column("key").combine_chunks().dictionary_encode()
    coded = coded.combine_chunks() if isinstance(coded, pa.ChunkedArray) else coded
    codes = coded.indices.to_numpy(zero_copy_only=False)
    order = np.argsort(codes, kind="stable")
    rows = scalars.take(pa.array(order))
    ends = np.cumsum(np.bincount(codes, minlength=len(coded.dictionary)))
    starts = [0, *ends[:-1]]
    return [(name, rows.slice(start, end - start)) for name, start, end in zip(coded.dictionary.to_pylist(), starts, ends, strict=False)]


def _renamed(rows: pa.Table, name: str, key: Key, marks: Marks, caveat: str) -> pa.Table:
    """One key's rows as SCALARS; an envelope keeps its ending, and changes sides where the sign does."""
    factor = float(key.sign) * key.scale
    end = name.removeprefix(base_key(name))
    if factor < 0:
        end = {".group_low": ".group_high", ".group_high": ".group_low"}.get(end, end)
    length = rows.num_rows
    columns = {
        "step": rows.column("step"),
        "quantity": pa.repeat(pa.scalar(key.quantity + end), length),
        "value": pc.multiply(rows.column("value"), factor),
        "source_key": pa.repeat(pa.scalar(name), length),
        "caveat": _caveats(rows, name, "; ".join(part for part in (key.all_caveats, caveat) if part), marks),
        "wall_time": rows.column("wall_time"),
    }
    return pa.Table.from_arrays([columns[field.name] for field in SCALARS], schema=SCALARS)


def _caveats(rows: pa.Table, name: str, common: str, marks: Marks) -> pa.Array:
    own = {step: said for (key, step), said in marks.items() if key == name}
    if not own:
        return pa.repeat(pa.scalar(common), rows.num_rows)
    texts = {step: "; ".join(part for part in (common, said) if part) for step, said in own.items()}
    return pa.array([texts.get(step, common) for step in rows.column("step").to_pylist()], pa.string())


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
