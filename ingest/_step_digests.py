"""Whether the rows of a step are those that they were: a number for each step of a table, which changes with any of its rows.

The order of a step's rows does not count, but for rows that are alike in all but their value: of these the last is what a series shows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import lru_cache

import numpy as np
import pyarrow as pa

from ingest.readers._rows import coded

_MIXES = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))  # of splitmix64
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))


def step_digests(scalars: pa.Table, texts: Iterable[str] = ("quantity", "source_key", "caveat")) -> dict[int, int]:
    """Step -> a number of 64 bits that its rows decide.

    Args:
        scalars: SCALARS, or a table that has a step, a value and these columns of text.
        texts: the columns that tell rows of a step apart.
    """
    if not scalars.num_rows:
        return {}
    labels = np.zeros(scalars.num_rows, np.uint64)
    for name in texts:
        words, codes = coded(scalars.column(name))
        labels = _mixed(labels + np.array([_number(word) for word in words], np.uint64)[codes])
    steps = scalars.column("step").to_numpy()
    order = np.lexsort((labels, steps))  # stable: rows that are alike keep their order
    steps, labels = steps[order], labels[order]
    values = np.ascontiguousarray(scalars.column("value").to_numpy()[order]).view(np.uint64)
    begins = np.flatnonzero(np.r_[True, (steps[1:] != steps[:-1]) | (labels[1:] != labels[:-1])])
    rank = np.arange(len(steps)) - np.repeat(begins, np.diff(np.r_[begins, len(steps)]))
    rows = _mixed(_mixed(labels + rank.astype(np.uint64)) ^ values)
    firsts = np.flatnonzero(np.r_[True, steps[1:] != steps[:-1]])
    return dict(zip(steps[firsts].tolist(), np.add.reduceat(rows, firsts).tolist(), strict=True))


def _mixed(numbers: np.ndarray) -> np.ndarray:
    """Spread what differs in one bit over all."""
    with np.errstate(over="ignore"):
        for shift, mix in zip(_SHIFTS, _MIXES, strict=False):
            numbers = (numbers ^ numbers >> shift) * mix
    mixed: np.ndarray = numbers ^ numbers >> _SHIFTS[2]
    return mixed


@lru_cache(maxsize=65_536)
def _number(word: str) -> int:
    return int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "big")
