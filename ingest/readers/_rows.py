"""Logged values collected one by one, compactly, and handed over as a RAW_SCALARS table."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow as pa

from ingest.run import ProblemKind, ReadProblem
from ingest.schema import RAW_SCALARS

INT64 = range(-(2**63), 2**63)
_LISTED = 5
_BLOCK = 4096  # rows of text held as one piece; rows that repeat another piece's texts, as most of a log's do, share it


@dataclass
class Rows:
    """Growing columns of logged values; a key is stored once."""

    keys: dict[str, int] = field(default_factory=dict)
    codes: array[int] = field(default_factory=lambda: array("i"))
    steps: array[int] = field(default_factory=lambda: array("q"))
    values: array[float] = field(default_factory=lambda: array("d"))
    walls: array[float] = field(default_factory=lambda: array("d"))  # NaN where not logged; shorter than the others where none follows

    def add(self, key: str, step: int, value: float, wall: float = math.nan) -> None:
        """Append one value."""
        if wall == wall:  # noqa: PLR0124  not NaN, quicker than math.isnan
            self._fill_walls()
            self.walls.append(wall)
        self.codes.append(self.keys.setdefault(key, len(self.keys)))
        self.steps.append(step)
        self.values.append(value)

    def extend(self, key: str, steps: np.ndarray, values: np.ndarray, walls: np.ndarray | None = None) -> None:
        """Append one series; all arrays have the same length."""
        self.extend_many([key], np.zeros(len(values), np.int32), steps, values, walls)

    def extend_many(
        self, keys: Sequence[str], codes: np.ndarray, steps: np.ndarray, values: np.ndarray, walls: np.ndarray | None = None
    ) -> None:
        """Append values of several series; `codes` says which of `keys` each belongs to, and all arrays have the same length."""
        if walls is not None:
            self._fill_walls()
            self.walls.frombytes(_bytes(walls, np.float64))
        own = np.array([self.keys.setdefault(key, len(self.keys)) for key in keys], np.int32)
        self.codes.frombytes(_bytes(own[codes], np.int32))
        self.steps.frombytes(_bytes(steps, np.int64))
        self.values.frombytes(_bytes(values, np.float64))

    def table(self) -> pa.Table:
        """All values in the order they were added, as RAW_SCALARS."""
        if self.walls:
            self._fill_walls()
        walls = pa.array(np.array(self.walls), from_pandas=True) if self.walls else blank(len(self.values))  # NaN becomes null
        codes, steps, values = (np.asarray(column) for column in (self.codes, self.steps, self.values))  # not copied
        (names,) = spelled(codes, [clean(key) for key in self.keys])
        return pa.Table.from_arrays([names, pa.array(steps), pa.array(values), walls], schema=RAW_SCALARS)

    def since(self, start: int) -> pa.Table:
        """The values from one place on, copied, so that more can be added while the table is in use."""
        if self.walls:
            self._fill_walls()
        codes, steps, values, walls = (np.array(column[start:]) for column in (self.codes, self.steps, self.values, self.walls))
        (names,) = spelled(codes.astype(np.int32), [clean(key) for key in self.keys])
        times = pa.array(walls, pa.float64(), from_pandas=True) if self.walls else blank(len(values))
        return pa.Table.from_arrays([names, pa.array(steps, pa.int64()), pa.array(values, pa.float64()), times], schema=RAW_SCALARS)

    def repeated(self, path: str) -> tuple[ReadProblem, ...]:
        """Say which steps a key was logged at more than once; every value is kept."""
        twice = _repeats(np.asarray(self.codes), np.asarray(self.steps))
        if not twice:
            return ()
        shown = ", ".join(str(step) for step in twice[:_LISTED]) + (" …" if len(twice) > _LISTED else "")
        what = f"logged more than once: {len(twice)} of the steps (a resumed or edited log); every value is kept"
        return (ReadProblem(path=path, place=f"step {shown}", what=what, kind=ProblemKind.NOTE),)

    def _fill_walls(self) -> None:
        """Make up for times that were not given, with NaN."""
        if missing := len(self.values) - len(self.walls):
            self.walls.frombytes(_bytes(np.full(missing, np.nan), np.float64))


def spelled(codes: np.ndarray, *texts: Sequence[str]) -> list[pa.ChunkedArray]:
    """Columns of text, of which each row takes the one under its code; equal stretches are held in memory once.

    Args:
        codes: int32, a row each.
        texts: of each column the texts by code.
    """
    known = [pa.array(column, pa.string()) for column in texts]
    built: dict[bytes, list[pa.Array]] = {}
    pieces: list[list[pa.Array]] = []
    for low, high in _stretches(codes):
        piece = codes[low:high]
        found = built.get(content := piece.tobytes())
        if found is None:
            found = built[content] = [column.take(pa.array(piece)) for column in known]
        pieces.append(found)
    return [pa.chunked_array([piece[place] for piece in pieces], pa.string()) for place in range(len(known))]


def _stretches(codes: np.ndarray) -> Iterator[tuple[int, int]]:
    """Cut rows before every so many of their most frequent code, so that what repeats from step to step is cut alike."""
    if not len(codes):
        return
    anchors = np.flatnonzero(codes == np.bincount(codes).argmax())
    cuts = [0, *anchors[:: max(1, _BLOCK * len(anchors) // len(codes))].tolist(), len(codes)]
    for low, high in pairwise(cuts):
        for start in range(low, high, _BLOCK):
            yield start, min(start + _BLOCK, high)


def coded(column: pa.ChunkedArray) -> tuple[list[str], np.ndarray]:
    """The texts of a column in the order of their first rows, and each row's place among them; of equal pieces one is looked at."""
    texts: dict[str, int] = {}
    seen: dict[tuple[int, int, int], np.ndarray] = {}
    codes = [np.zeros(0, np.int32)]
    for piece in column.chunks:
        if not len(piece):
            continue
        place = (piece.buffers()[1].address, piece.offset, len(piece))
        if place not in seen:
            found = piece.dictionary_encode()
            own = np.array([texts.setdefault(text, len(texts)) for text in found.dictionary.to_pylist()], np.int32)
            seen[place] = own[found.indices.to_numpy()]
        codes.append(seen[place])
    return list(texts), np.concatenate(codes)


def blank(length: int) -> pa.ChunkedArray:
    """A column of floats that are all null, of which one piece is held in memory."""
    piece = pa.nulls(min(length, _BLOCK), pa.float64())
    full, rest = divmod(length, _BLOCK)
    return pa.chunked_array([*[piece] * full, piece.slice(0, rest)], pa.float64())


def _bytes(values: np.ndarray, kind: type[np.number]) -> memoryview:
    """The bytes of an array, not copied where it has the type already."""
    return np.ascontiguousarray(values, kind).data.cast("B") if len(values) else memoryview(b"")


def _repeats(codes: np.ndarray, steps: np.ndarray) -> list[int]:
    """The steps at which any key stands more than once, ascending."""
    if not len(steps):
        return []
    low = int(steps.min())
    span = int(steps.max()) - low + 1
    if span * (int(codes.max()) + 1) < INT64.stop:  # one number for both is much quicker to sort
        both = codes * np.int64(span) + (steps - low)
        if (both[1:] > both[:-1]).all():  # nothing to sort, as in most files of one key
            return []
        both.sort()
        return [int(step) + low for step in np.unique(both[1:][both[1:] == both[:-1]] % span)]
    order = np.lexsort((steps, codes))
    codes, steps = codes[order], steps[order]
    same = (codes[1:] == codes[:-1]) & (steps[1:] == steps[:-1])
    return [int(step) for step in np.unique(steps[1:][same])]


def clean(text: str) -> str:
    """Make any text storable: half a surrogate pair, which JSON escapes can spell, becomes a question mark."""
    return text.encode("utf-8", "replace").decode("utf-8")
