"""Raw keys become quantities: what a dialect knows is renamed, what it does not know or what is given twice is counted."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from ingest.dialect import Dialect, Key
from ingest.identify import base_key
from ingest.run import Config, ProblemKind, RawLog, ReadProblem
from ingest.schema import SCALARS


def settings(config: Config, dialect: Dialect) -> Config:
    """Add our names of a framework's settings to a configuration; what is set under our names already stays."""
    return {ours: config[theirs] for theirs, ours in dialect.config.items() if theirs in config} | dict(config)


def map_scalars(raw: RawLog, dialect: Dialect, config: Config) -> tuple[pa.Table, tuple[ReadProblem, ...]]:
    """Turn raw values into quantities, sorted by step; values of one step keep the order of the file.

    Rows in = rows out (derived values apart) + rows of the problems.

    Args:
        raw: the log.
        dialect: the framework's names.
        config: settings, under our names too.
    """
    derived = dialect.derive(raw, config)
    keys = {key.raw: dialect.adjust(key, config) for key in reversed((*dialect.keys, *dialect.aliases))}
    seen = pc.unique(raw.scalars.column("key")).to_pylist()
    winners = _winners(keys, dialect, {base_key(key) for key in seen})
    tables, problems = [], []
    for name in seen:
        rows = raw.scalars.filter(pc.equal(raw.scalars.column("key"), name))
        key = keys.get(base_key(name))
        if key is None:
            problems.append(_unmapped(raw.path, name, rows.num_rows, dialect.hints))
        elif winners[key.quantity] != key.raw:
            problems.append(_shadowed(raw.path, name, rows.num_rows, winners[key.quantity], key.quantity))
        else:
            kept = rows.filter(pc.not_equal(rows.column("value"), key.placeholder)) if key.placeholder is not None else rows
            problems += _placeholders(raw.path, name, rows.num_rows - kept.num_rows, key)
            tables.append(_renamed(kept, name, key))
    table = pa.concat_tables([SCALARS.empty_table(), *tables, derived.scalars])
    return table.take(pc.sort_indices(table, sort_keys=[("step", "ascending")])), (*problems, *derived.problems)


def _winners(keys: Mapping[str, Key], dialect: Dialect, present: set[str]) -> dict[str, str]:
    """Quantity -> the raw key it is taken from: the first in the dialect's order that the log has."""
    winners: dict[str, str] = {}
    for known in (*dialect.keys, *dialect.aliases):
        if known.raw in present:
            winners.setdefault(keys[known.raw].quantity, known.raw)
    return winners


def _renamed(rows: pa.Table, name: str, key: Key) -> pa.Table:
    """One key's rows as SCALARS; an envelope keeps its ending, and changes sides where the sign does."""
    end = name.removeprefix(key.raw)
    if key.sign < 0:
        end = {".group_low": ".group_high", ".group_high": ".group_low"}.get(end, end)
    length = rows.num_rows
    columns = {
        "step": rows.column("step"),
        "quantity": pa.repeat(pa.scalar(key.quantity + end), length),
        "value": pc.multiply(rows.column("value"), float(key.sign)),
        "source_key": pa.repeat(pa.scalar(name), length),
        "caveat": pa.repeat(pa.scalar(key.all_caveats), length),
        "wall_time": rows.column("wall_time"),
    }
    return pa.Table.from_arrays([columns[field.name] for field in SCALARS], schema=SCALARS)


def _unmapped(path: str, name: str, rows: int, hints: Mapping[str, str]) -> ReadProblem:
    what = hints.get(base_key(name), "no quantity of ours goes by this key, so it is not shown")
    return ReadProblem(path=path, place=f"key {name}", what=what, rows=rows, kind=ProblemKind.UNMAPPED)


def _shadowed(path: str, name: str, rows: int, winner: str, quantity: str) -> ReadProblem:
    what = f"{quantity} is taken from {winner}"
    return ReadProblem(path=path, place=f"key {name}", what=what, rows=rows, kind=ProblemKind.SHADOWED)


def _placeholders(path: str, name: str, rows: int, key: Key) -> list[ReadProblem]:
    if not rows:
        return []
    what = f"the framework writes {key.placeholder:g} for 'none': these are not values of {key.quantity}"
    return [ReadProblem(path=path, place=f"key {name}", what=what, rows=rows, kind=ProblemKind.PLACEHOLDER)]
