"""One metric of a frame as arrays over steps, from the most trustworthy origin it has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

ORIGINS = ("tokens", "logged", "estimated")  # most trusted first; one series never mixes them


@dataclass(frozen=True, kw_only=True, eq=False)
class Series:
    """One metric over the steps it has, rising, each step once. Arrays are of equal length K."""

    metric: str
    steps: NDArray[np.int64]
    values: NDArray[np.float64]
    n: NDArray[np.float64]  # observations; NaN where the log does not say
    standard_error: NDArray[np.float64]  # NaN where none is defined
    origin: str  # "" where the frame does not have the metric
    caveat: str  # the distinct caveats of the steps

    def __len__(self) -> int:
        """How many steps it has."""
        return len(self.steps)


def origins(frame: pa.Table, metric: str) -> tuple[str, ...]:
    """The origins from which the frame has the metric, the most trusted first."""
    present = set(frame.filter(pc.equal(frame["metric"], metric))["origin"].unique().to_pylist())
    return tuple(name for name in ORIGINS if name in present)


def series(frame: pa.Table, metric: str, *, origin: str | None = None) -> Series:
    """The metric from tokens if the frame has it from tokens, else as logged, else estimated; empty where it has none.

    A step that was logged twice (a resumed run) keeps the later row.

    Args:
        frame: rows of `METRIC_FRAME` of one run.
        metric: its id.
        origin: this one and no other, where two runs are to be compared like with like.
    """
    if origin is None:
        origin = next(iter(origins(frame, metric)), "")
    rows = frame.filter(pc.equal(frame["metric"], metric))
    rows = rows.filter(pc.equal(rows["origin"], origin))
    steps = _floats(rows, "step").astype(np.int64)
    kept, last = np.unique(steps[::-1], return_index=True)
    take = len(steps) - 1 - last
    return Series(
        metric=metric,
        steps=kept,
        values=_floats(rows, "value")[take],
        n=_floats(rows, "n")[take],
        standard_error=_floats(rows, "standard_error")[take],
        origin=origin,
        caveat="; ".join(filter(None, dict.fromkeys(rows["caveat"].to_pylist()))),
    )


def _floats(rows: pa.Table, name: str) -> NDArray[np.float64]:
    values: list[Any] = rows[name].to_pylist()
    return np.array([np.nan if value is None else value for value in values], np.float64)
