"""Logged values collected one by one, compactly, and handed over as a RAW_SCALARS table."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from ingest.run import ProblemKind, ReadProblem
from ingest.schema import RAW_SCALARS

INT64 = range(-(2**63), 2**63)
_LISTED = 5


@dataclass
class Rows:
    """Growing columns of logged values; a key is stored once."""

    keys: dict[str, int] = field(default_factory=dict)
    codes: array[int] = field(default_factory=lambda: array("l"))
    steps: array[int] = field(default_factory=lambda: array("q"))
    values: array[float] = field(default_factory=lambda: array("d"))
    walls: array[float] = field(default_factory=lambda: array("d"))  # NaN where not logged

    def add(self, key: str, step: int, value: float, wall: float = float("nan")) -> None:
        """Append one value."""
        self.codes.append(self.keys.setdefault(key, len(self.keys)))
        self.steps.append(step)
        self.values.append(value)
        self.walls.append(wall)

    def extend(self, key: str, steps: np.ndarray, values: np.ndarray, walls: np.ndarray | None = None) -> None:
        """Append one series; all arrays have the same length."""
        self.codes.extend([self.keys.setdefault(key, len(self.keys))] * len(values))
        self.steps.frombytes(np.ascontiguousarray(steps, np.int64).tobytes())
        self.values.frombytes(np.ascontiguousarray(values, np.float64).tobytes())
        filled = np.full(len(values), np.nan) if walls is None else np.ascontiguousarray(walls, np.float64)
        self.walls.frombytes(filled.tobytes())

    def table(self) -> pa.Table:
        """All values in the order they were added, as RAW_SCALARS."""
        names = pa.array([clean(key) for key in self.keys], pa.string())
        codes = pa.array(np.array(self.codes, np.int64))
        walls = pa.array(np.array(self.walls), from_pandas=True)  # NaN becomes null
        columns = [names.take(codes), pa.array(np.array(self.steps)), pa.array(np.array(self.values)), walls]
        return pa.Table.from_arrays(columns, schema=RAW_SCALARS)

    def repeated(self, path: str) -> tuple[ReadProblem, ...]:
        """Say which steps a key was logged at more than once; every value is kept."""
        pairs, counts = np.unique(np.array([self.codes, self.steps], np.int64), axis=1, return_counts=True)
        twice = np.unique(pairs[1][counts > 1]).tolist()
        if not twice:
            return ()
        shown = ", ".join(str(step) for step in twice[:_LISTED]) + (" …" if len(twice) > _LISTED else "")
        what = f"logged more than once: {len(twice)} of the steps (a resumed or edited log); every value is kept"
        return (ReadProblem(path=path, place=f"step {shown}", what=what, kind=ProblemKind.NOTE),)


def clean(text: str) -> str:
    """Make any text storable: half a surrogate pair, which JSON escapes can spell, becomes a question mark."""
    return text.encode("utf-8", "replace").decode("utf-8")
