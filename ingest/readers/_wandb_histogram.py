"""The first two moments of a histogram that wandb logged: each bin counts by its middle."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from ingest.readers._numbers import number_of

KIND, HISTOGRAM = "_type", "histogram"
MOMENTS = ("mean", "mean_square")  # endings of the two rows that a histogram becomes
_MOST_BINS = 65_536  # wandb's own bound is 512

Floats = npt.NDArray[np.float64]


def moments(value: Mapping[str, object]) -> tuple[float, float] | None:
    """Mean and mean square over the bins; None for another medium, or for a histogram without usable bins.

    wandb writes `values` (counts) with `bins` (one edge more), or with `packedBins` (min, size, count) where all are equally wide.
    """
    if value.get(KIND) != HISTOGRAM:
        return None
    counts, edges = _numbers(value.get("values")), _edges(value)
    if counts is None or edges is None or edges.size != counts.size + 1 or not counts.sum() > 0:
        return None
    middles = (edges[1:] + edges[:-1]) / 2
    return float((counts * middles).sum() / counts.sum()), float((counts * middles**2).sum() / counts.sum())


def gathered(parts: list[tuple[str, object]]) -> list[tuple[str, object]]:
    """Values of one row with every histogram in one piece: the record file has `x._type`, `x.values` and `x.bins` apart."""
    names = [name.removesuffix(f".{KIND}") for name, value in parts if name.endswith(f".{KIND}") and value == HISTOGRAM]
    if not names:
        return parts
    whole: dict[str, dict[str, object]] = {name: {} for name in names}
    others: list[tuple[str, object]] = []
    for name, value in parts:
        base, _, end = name.rpartition(".")
        if base in whole and end in {KIND, "values", "bins"}:
            whole[base][end] = value
        else:
            others.append((name, value))
    return [*others, *whole.items()]


def _edges(value: Mapping[str, object]) -> Floats | None:
    packed = value.get("packedBins")
    if not isinstance(packed, dict):
        return _numbers(value.get("bins"))
    low, size, count = (number_of(packed.get(name)) for name in ("min", "size", "count"))
    if low is None or size is None or count is None or not (math.isfinite(count) and 0 < count <= _MOST_BINS):
        return None
    return low + size * np.arange(int(count) + 1, dtype=np.float64)


def _numbers(found: object) -> Floats | None:
    """A list of finite numbers, or None."""
    if not isinstance(found, list) or not 0 < len(found) <= _MOST_BINS:
        return None
    read = [number_of(each) for each in found]
    if any(each is None or not math.isfinite(each) for each in read):
        return None
    return np.array(read, np.float64)
