"""A histogram on the bits of a float: quantiles with a known relative error, merged by adding integers in any order.

The bin of x is its sign, its exponent and the first four bits of its mantissa, which is DDSketch's guarantee (arXiv 1908.10693)
without a library. Magnitudes from 2^-24 to 2^8 nats have their own bins; smaller ones share the first, larger ones the last
(the exact minimum and maximum are kept beside the histogram); zero has a bin of its own.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MANTISSA_BITS = 4
LOWEST_EXPONENT = -24
HIGHEST_EXPONENT = 8
SIDE = (HIGHEST_EXPONENT - LOWEST_EXPONENT) << MANTISSA_BITS  # bins per sign: 512
BINS = 2 * SIDE + 1  # the negative side in rising order, zero, the positive side: 1025
ZERO = SIDE
SHIFT = 52 - MANTISSA_BITS  # float64 bits that are dropped
FIRST = (1023 + LOWEST_EXPONENT) << MANTISSA_BITS  # what is left of the bits of 2^-24
# The representative 2ab/(a+b) of a bin [a, b) is wrong by at most (b-a)/(a+b), largest where the mantissa is 1: 1/33, about 3 %.
WORST_RELATIVE_ERROR = 1 / (2 * (1 << MANTISSA_BITS) + 1)


def bins(x_T: NDArray[np.float64]) -> NDArray[np.int64]:
    """Bin of each value; finite values only."""
    rank = (np.abs(x_T).view(np.int64) >> SHIFT) - FIRST
    side = np.clip(rank, 0, SIDE - 1)
    return np.where(x_T == 0, ZERO, np.where(x_T > 0, ZERO + 1 + side, ZERO - 1 - side))


def count(x_T: NDArray[np.float64]) -> NDArray[np.int64]:
    """Histogram of the values, `BINS` integers."""
    return np.bincount(bins(x_T), minlength=BINS).astype(np.int64)


def edges() -> NDArray[np.float64]:
    """The `SIDE` + 1 bounds of the positive bins, in nats."""
    patterns = (np.arange(SIDE + 1, dtype=np.int64) + FIRST) << SHIFT
    return patterns.view(np.float64)


def quantile(histogram: NDArray[np.int64], q: float, lowest: float, highest: float) -> float:
    """The value under which a share q lies: the value of rank ceil(q n), to within `WORST_RELATIVE_ERROR`.

    Args:
        histogram: `BINS` counts.
        q: share in [0, 1].
        lowest: the exact minimum; no answer lies under it.
        highest: the exact maximum; no answer lies over it, which also names a value beyond the last bin.

    Returns:
        NaN where the histogram is empty.
    """
    total = int(histogram.sum())
    if total == 0:
        return float("nan")
    rank = max(1, int(np.ceil(q * total)))
    place = int(np.searchsorted(np.cumsum(histogram), rank))
    return float(min(max(_representative(place, lowest, highest), lowest), highest))


def _representative(place: int, lowest: float, highest: float) -> float:
    if place == ZERO:
        return 0.0
    if (place == BINS - 1 and highest >= edges()[-1]) or (place == 0 and lowest <= -edges()[-1]):
        return highest if place else lowest  # the end bin has no upper bound; the extreme is the one value known to lie there
    side = abs(place - ZERO) - 1
    low, high = edges()[side : side + 2]
    return float(np.copysign(2 * low * high / (low + high), place - ZERO))
