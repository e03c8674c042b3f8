"""Values that take several keys of one log: joined by step, computed, and marked as derived."""

from __future__ import annotations

import math
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from ingest.dialect import Derived
from ingest.run import ProblemKind, RawLog, ReadProblem
from ingest.schema import SCALARS


def has(raw: RawLog, key: str) -> bool:
    """Whether the log has a value under a key."""
    return bool(pc.any(pc.equal(raw.scalars.column("key"), key)).as_py())


def series(raw: RawLog, key: str) -> dict[int, float]:
    """Step -> value of a key; of a repeated step the last value."""
    rows = raw.scalars.filter(pc.equal(raw.scalars.column("key"), key))
    return dict(zip(rows.column("step").to_pylist(), rows.column("value").to_pylist(), strict=True))


def derived(raw: RawLog, quantity: str, keys: tuple[str, ...], formula: Callable[..., float], caveat: str) -> Derived:
    """One quantity at every step that has all the keys.

    Args:
        raw: the log.
        quantity: metric id.
        keys: raw keys, in the order of the formula's arguments.
        formula: one value per key -> the quantity.
        caveat: what must be known beside "derived".
    """
    logged = [series(raw, key) for key in keys]
    rows = [
        {
            "step": step,
            "quantity": quantity,
            "value": _value(formula, [values[step] for values in logged]),
            "source_key": ", ".join(keys),
            "caveat": f"derived: {caveat}",
            "wall_time": None,
        }
        for step in sorted(set.intersection(*map(set, logged)))
    ]
    return Derived(scalars=pa.Table.from_pylist(rows, schema=SCALARS))


def _value(formula: Callable[..., float], arguments: list[float]) -> float:
    try:
        return formula(*arguments)
    except OverflowError:  # of a power, where a product would have been infinite
        return math.inf


def together(*parts: Derived) -> Derived:
    """Several derivations as one."""
    tables = [part.scalars for part in parts]
    return Derived(scalars=pa.concat_tables([SCALARS.empty_table(), *tables]), problems=tuple(p for part in parts for p in part.problems))


def remark(raw: RawLog, key: str, what: str) -> Derived:
    """Nothing computed, but something to say about a key."""
    return Derived(problems=(ReadProblem(path=raw.path, place=f"key {key}", what=what, kind=ProblemKind.NOTE),))
