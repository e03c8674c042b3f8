"""The token columns of a table as plain numpy arrays, step by step: views of the Arrow buffers wherever nothing is missing.

`Array.to_numpy` would import pandas; the buffers are read directly, with their offsets, and a bool bitmap with its bit offset.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ingest.errors import ReadError
from ingest.schema import TOKENS, TOKENS_REQUIRED

READ = frozenset(
    {
        *TOKENS_REQUIRED,
        *("same_weights_logprob", "old_logprob", "current_logprob", "loss_mask", "advantage", "reward"),
        *("rollout_version", "trainer_version", "old_version", "entropy", "position"),
    },
)
"""Canonical columns that a pass over the tokens uses; the others need not be decoded."""
_ROWS_PER_STRETCH = 2  # with fewer on average, sorting stretches costs about what sorting the rows does, and may not settle it


@dataclass(frozen=True, kw_only=True, eq=False)
class Columns:
    """Tokens of one step (or of all, before they are cut). A column that was not recorded has length 0."""

    step: NDArray[np.int64]
    sample_id: NDArray[np.int64]
    mask: NDArray[np.uint8]  # 1 where the token counts; all 1 where no mask was recorded
    rollout: NDArray[np.float32]
    generator: NDArray[np.float32]  # same_weights_logprob, or old_logprob standing for it
    stands_in: bool  # generator is old_logprob
    current: NDArray[np.float32]
    advantage: NDArray[np.float32]
    reward: NDArray[np.float32]
    entropy: NDArray[np.float32]
    rollout_version: NDArray[np.int64]
    trainer_version: NDArray[np.int64]
    old_version: NDArray[np.int64]
    position: NDArray[np.int32]

    def cut(self, low: int, high: int) -> Columns:
        """Rows low to high; absent columns stay absent."""
        names = [item.name for item in fields(self) if item.name != "stands_in"]
        return Columns(stands_in=self.stands_in, **{name: getattr(self, name)[low:high] for name in names})

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """Where each run of equal `sample_id` begins."""
        return _starts(self.sample_id)

    def repeated(self) -> int:
        """Masked-in rows whose sample_id and position an earlier masked-in row has; 0 where positions were not recorded.

        Rows are sorted only where the stretches of rising positions that they come in do not show by themselves that all are distinct.
        """
        if not len(self.position) or self._stretches_are_apart():
            return 0
        counted = self.mask.astype(bool)
        return repeats(self.sample_id[counted], self.position[counted])

    def _stretches_are_apart(self) -> bool:
        """Whether the rows are seen to be distinct: no two stretches of one sequence reach into each other.

        A stretch is rows of one sequence that follow each other with rising positions: as a recorder leaves them, a whole sequence.
        """
        rising = self.position[1:] > self.position[:-1]
        rising[self.starts[1:] - 1] = False
        firsts = np.append(0, np.flatnonzero(~rising) + 1)
        if len(firsts) * _ROWS_PER_STRETCH > len(self.position):
            return False
        lasts = np.append(firsts[1:], len(self.position)) - 1
        order = np.lexsort((self.position[firsts], self.sample_id[firsts]))
        ids, lowest, highest = self.sample_id[firsts[order]], self.position[firsts[order]], self.position[lasts[order]]
        return not np.any((ids[1:] == ids[:-1]) & (lowest[1:] <= highest[:-1]))


def repeats(sample_id: NDArray[np.int64], position: NDArray[np.int32]) -> int:
    """How many rows have a sample_id and a position that another row has already."""
    order = np.lexsort((position, sample_id))
    ids, places = sample_id[order], position[order]
    return int(((ids[1:] == ids[:-1]) & (places[1:] == places[:-1])).sum())


def by_step(table: pa.Table) -> Iterator[tuple[int, Columns]]:
    """Each step of the table once, rising, with its rows in the order of the file."""
    columns = _of(table)
    if np.any(columns.step[1:] < columns.step[:-1]):
        # Files of others may interleave steps; sort_indices is stable, so the order inside a step is kept.
        columns = _of(table.take(pc.sort_indices(table, sort_keys=[("step", "ascending")])))
    for low, high in pairwise([*_starts(columns.step), len(columns.step)]):
        yield int(columns.step[low]), columns.cut(int(low), int(high))


def _of(table: pa.Table) -> Columns:
    generator = "same_weights_logprob" if "same_weights_logprob" in table.column_names else "old_logprob"
    mask = view(table, "loss_mask") if "loss_mask" in table.column_names else _frozen(np.ones(table.num_rows, np.uint8))
    names = ("step", "sample_id", "advantage", "reward", "entropy", "rollout_version", "trainer_version", "old_version", "position")
    return Columns(
        mask=mask,
        rollout=view(table, "rollout_logprob"),
        generator=view(table, generator),
        stands_in=generator == "old_logprob",
        current=view(table, "current_logprob"),
        **{name: view(table, name) for name in names},
    )


def view(table: pa.Table, name: str) -> NDArray[Any]:
    """A canonical column as a read-only numpy array, without a copy where nothing is missing; length 0 where the table lacks it.

    Raises:
        ReadError: a whole-number column has rows without a value.
    """
    kind = TOKENS.field(name).type
    if name not in table.column_names:
        return _frozen(np.zeros(0, kind.to_pandas_dtype()))
    column = table.column(name).cast(kind)
    array = column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], kind)
    array = _without_nulls(name, array)
    data = array.buffers()[1]
    if data is None or len(array) == 0:
        return _frozen(np.zeros(0, np.uint8 if pa.types.is_boolean(kind) else kind.to_pandas_dtype()))
    if pa.types.is_boolean(kind):
        bits = np.unpackbits(np.frombuffer(data, np.uint8), count=array.offset + len(array), bitorder="little")
        return _frozen(bits[array.offset :])
    # Some Arrow buffers come writeable, some not: read-only views throughout, so that the compiled pass has one specialisation.
    return _frozen(np.frombuffer(data, kind.to_pandas_dtype())[array.offset : array.offset + len(array)])


def _without_nulls(name: str, array: pa.Array) -> pa.Array:
    """A missing float is NaN, which is counted as non-finite; a missing mask is out; a missing integer has no stand-in."""
    if not array.null_count:
        return array
    if pa.types.is_floating(array.type):
        return pc.fill_null(array, float("nan"))
    if pa.types.is_boolean(array.type):
        return pc.fill_null(array, fill_value=False)
    raise ReadError(
        f"column {name}",
        expected="a whole number in every row",
        found=f"{array.null_count} of {len(array)} missing",
        remedy=f"Leave the column out, or write {name} for every token.",
    )


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.setflags(write=False)
    return array


def _starts(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    if not len(keys):
        return np.zeros(0, np.int64)
    return np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]])
