"""An exponential moving average that knows about uneven steps and missing values, computed on all rows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def ema(steps: npt.NDArray[np.int64], values: Floats, weight: float) -> Floats:
    """Exponential moving average of `values`, debiased, decaying by `weight` per step (not per row).

    y_k = sum_j weight^(s_k - s_j) x_j / sum_j weight^(s_k - s_j) over the finite x_j with j <= k, so that the first value is
    the first observation and a gap of ten steps forgets ten times as much as a gap of one. A value that is not finite stays
    in the result as it is (a finding is not smoothed away) and does not enter its neighbours.

    Args:
        steps: shape (n,), not decreasing.
        values: shape (n,).
        weight: in [0, 1); 0 returns the values unchanged.

    Raises:
        ValueError: `weight` lies outside [0, 1).
    """
    if not 0 <= weight < 1:
        raise ValueError(f"the smoothing weight must lie in [0, 1), found {weight}")
    smoothed = values.astype(np.float64, copy=True)
    total = mass = 0.0
    previous: int | None = None
    for row, (step, value) in enumerate(zip(steps.tolist(), values.tolist(), strict=True)):
        if not np.isfinite(value):
            continue
        decay = 0.0 if previous is None else weight ** max(step - previous, 0)
        total, mass, previous = total * decay + value, mass * decay + 1.0, step
        smoothed[row] = total / mass
    return smoothed
