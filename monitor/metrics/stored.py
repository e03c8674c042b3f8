"""Partial sums as a small Arrow table, so that they can lie beside the part they were made from.

A stored table says which kernel made it, with which clip bounds, and which file it stands for; where any of these differs from
what is wanted it is not used, and the tokens are read again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from monitor.metrics.bounds import ClipBounds
from monitor.metrics.partial import KERNEL_VERSION, SEQUENCE_COLUMNS, StepPartial

SUFFIX = ".sums.parquet"
NOTE = b"ratiometer_sums"
FOOTER_BYTES = 1 << 16
_ARRAYS = tuple(item.name for item in fields(StepPartial) if item.name not in {"step", "sequences"})


def beside(part: Path) -> Path:
    """Where the sums of a part lie: rank=000.parquet -> rank=000.sums.parquet."""
    return part.with_name(part.name.removesuffix(".parquet") + SUFFIX)


def stamp(part: Path, bounds: ClipBounds) -> dict[str, Any]:
    """What stored sums must agree with: kernel, bounds, and the part's size and the hash of its end.

    The end of a Parquet file holds its footer (offsets, sizes and statistics of every column), so a part that was rewritten in
    place at the same size is noticed. Modification times are not used: copying a run folder must not make its sums stale.
    """
    with part.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - FOOTER_BYTES))
        end = hashlib.sha256(file.read()).hexdigest()
    return {"kernel_version": KERNEL_VERSION, "bounds": bounds.as_dict(), "part_size": size, "part_end": end}


def to_table(partials: Iterable[StepPartial], note: dict[str, Any]) -> pa.Table:
    """One row per step, arrays flattened into lists; `note` goes into the schema's metadata."""
    rows = sorted(partials, key=lambda partial: partial.step)
    columns: dict[str, pa.Array] = {"step": pa.array([partial.step for partial in rows], pa.int64())}
    for name in _ARRAYS:
        columns[name] = _lists([getattr(partial, name).reshape(-1) for partial in rows], _shape(name).dtype)
    for name, kind in SEQUENCE_COLUMNS.items():
        columns[f"sequences.{name}"] = _lists([partial.sequences[name] for partial in rows], np.dtype(kind))
    return pa.table(columns).replace_schema_metadata({NOTE: json.dumps(note, sort_keys=True).encode()})


def from_table(table: pa.Table) -> dict[int, StepPartial]:
    """The partials of `to_table`, by step."""
    return {int(step.as_py()): _partial(table, index) for index, step in enumerate(table.column("step"))}


def read(part: Path, bounds: ClipBounds) -> dict[int, StepPartial] | None:
    """The sums stored beside a part, or None where there are none, they do not fit, or they cannot be read."""
    path = beside(part)
    if not path.is_file():
        return None
    try:
        table = pq.ParquetFile(path).read()
        fits = json.loads((table.schema.metadata or {}).get(NOTE, b"{}")) == stamp(part, bounds)
        return from_table(table) if fits else None
    except (OSError, pa.ArrowException, ValueError, KeyError, TypeError):
        return None  # sums are a shortcut: whatever is wrong with them, the tokens still have the answer


def _partial(table: pa.Table, index: int) -> StepPartial:
    arrays = {name: _values(table, name, index).reshape(_shape(name).shape) for name in _ARRAYS}
    sequences = {name: _values(table, f"sequences.{name}", index) for name in SEQUENCE_COLUMNS}
    return StepPartial(step=table.column("step")[index].as_py(), sequences=sequences, **arrays)


def _lists(arrays: list[np.ndarray[Any, Any]], kind: np.dtype[Any]) -> pa.Array:
    offsets = np.cumsum([0, *(len(array) for array in arrays)])
    values = np.concatenate(arrays) if arrays else np.zeros(0, kind)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(values.astype(kind)))


def _values(table: pa.Table, name: str, index: int) -> np.ndarray[Any, Any]:
    array = table.column(name)[index].values
    kind = array.type.to_pandas_dtype()
    data = array.buffers()[1]
    return np.zeros(0, kind) if data is None else np.frombuffer(data, kind)[array.offset : array.offset + len(array)]


@cache
def _shape(name: str) -> np.ndarray[Any, Any]:
    array: np.ndarray[Any, Any] = getattr(StepPartial.empty(0), name)
    return array
