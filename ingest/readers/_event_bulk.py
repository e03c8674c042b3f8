"""Events as nearly all writers lay them out, decoded many at a time: time, step, one tag, one float32, in this order.

Records of one length hold the same bytes at the same places, so each field is a column. What does not fit is left to `_event`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

_FEW = 4  # records of one length that are not worth a column each
_LONGEST = 160  # bytes: time 9, step 11, tags of 110; lengths within must fit one byte
_TIME, _STEP, _SUMMARY, _VALUE, _TAG, _SIMPLE = 0x09, 0x10, 0x2A, 0x0A, 0x0A, 0x15  # keys of the fields, on the wire
_MOST_STEP_BYTES = 5  # steps under 2**35; no step at all means 0
_MORE = 128  # a byte of a varint or of a length that says "and more"


@dataclass(frozen=True, kw_only=True)
class Points:
    """Scalars of some records, in any order."""

    records: np.ndarray  # int64: which record each is from
    tags: pa.Array  # dictionary of binary
    steps: np.ndarray  # int64
    walls: np.ndarray  # float64
    values: np.ndarray  # float32


def points(data: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> Iterator[Points]:
    """Decode the records that are laid out as usual.

    Args:
        data: uint8, the whole file.
        starts: int64, where the bytes of each record begin.
        lengths: int64, how many there are.
    """
    order = np.argsort(lengths, kind="stable")
    bounds = np.flatnonzero(np.diff(lengths[order])) + 1
    for there in np.split(order, bounds):
        length = int(lengths[there[0]]) if there.size else 0
        if there.size >= _FEW and length <= _LONGEST:
            rows = np.lib.stride_tricks.sliding_window_view(data, length)[starts[there]]
            for step_bytes in range(_MOST_STEP_BYTES + 1):
                usual = _usual(rows, step_bytes)
                if usual is not None and usual.any():
                    yield _decoded(rows[usual], there[usual], step_bytes)


def _head(step_bytes: int) -> int:
    """Bytes of time and step together."""
    return 9 + (step_bytes + 1 if step_bytes else 0)


def _usual(rows: np.ndarray, step_bytes: int) -> np.ndarray | None:
    """Which rows are laid out as usual, with a step of so many bytes."""
    length, head = rows.shape[1], _head(step_bytes)
    tag = length - head - 11
    if tag < 1 or length - head - 2 >= _MORE:
        return None
    fixed = {
        0: _TIME,
        head: _SUMMARY,
        head + 1: length - head - 2,
        head + 2: _VALUE,
        head + 3: length - head - 4,
        head + 4: _TAG,
        head + 5: tag,
        length - 5: _SIMPLE,
    }
    if step_bytes:
        fixed[9] = _STEP
    usual = np.ones(len(rows), bool)
    for place, byte in fixed.items():
        usual &= rows[:, place] == byte
    for place in range(10, head):
        usual &= (rows[:, place] >= _MORE) if place < head - 1 else (rows[:, place] < _MORE)
    return usual


def _decoded(rows: np.ndarray, records: np.ndarray, step_bytes: int) -> Points:
    length, head = rows.shape[1], _head(step_bytes)
    steps = np.zeros(len(rows), np.int64)
    for index in range(step_bytes):
        steps |= (rows[:, 10 + index].astype(np.int64) & (_MORE - 1)) << (7 * index)
    return Points(
        records=records,
        tags=_tags(rows[:, head + 6 : length - 5]),
        steps=steps,
        walls=np.ascontiguousarray(rows[:, 1:9]).view("<f8")[:, 0],
        values=np.ascontiguousarray(rows[:, length - 4 :]).view("<f4")[:, 0],
    )


def _tags(rows: np.ndarray) -> pa.Array:
    """Rows of bytes as a dictionary: each tag once."""
    buffers = [None, pa.py_buffer(np.ascontiguousarray(rows))]
    return pa.Array.from_buffers(pa.binary(rows.shape[1]), len(rows), buffers).dictionary_encode()
