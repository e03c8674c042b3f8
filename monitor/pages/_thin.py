"""Which rows of a long series are drawn: the lowest and the highest of each column, so that a one-step dip stays visible."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]

COLUMNS = 300  # two points each; reference point of the payload and drawing cost in a chart about 1,000 pixels wide


def kept_rows(x: Floats, y: Floats, columns: int = COLUMNS) -> Rows:
    """Row numbers to draw, in order: all of a short series; else each column's lowest, highest and first missing value.

    Args:
        x: shape (n,), finite, not decreasing.
        y: shape (n,); what is not finite stays as a gap.
        columns: parts of equal width that the range of x is cut into.
    """
    if x.size <= 2 * columns:
        return np.arange(x.size)
    width = (x[-1] - x[0]) or 1.0
    column = np.minimum(((x - x[0]) / width * columns).astype(np.int64), columns - 1)
    finite = np.isfinite(y)
    rows = np.flatnonzero(finite)
    by_value = rows[np.lexsort((y[rows], column[rows]))]
    borders = np.flatnonzero(np.diff(column[by_value]))
    lowest, highest = by_value[np.r_[0, borders + 1]] if rows.size else by_value, by_value[np.r_[borders, -1]] if rows.size else by_value
    gaps = np.flatnonzero(~finite)
    first_gap = gaps[np.unique(column[gaps], return_index=True)[1]]
    return np.unique(np.concatenate((lowest, highest, first_gap, [0, x.size - 1]))).astype(np.intp)
