"""Where a series lies under a threshold: the steps at which it crosses, in either direction, on the raw values.

A crossing is read off every row, never off a smoothed or thinned curve: of 40 one-step dips, a thinned curve keeps as few as one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Steps = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Crossing:
    """One stay of a series under a threshold.

    A NaN is neither under nor above: it does not end a stay, and the steps at which it occurs inside one are counted.
    """

    from_step: int  # first step under the threshold
    to_step: int  # last step seen under it before the recovery, or before the end of the log
    lowest: float
    lowest_step: int
    recovered_step: int | None  # first step back at or above the threshold; None while still under at the end
    starts_under: bool  # the first finite value of the series is already under: when it fell cannot be told
    unknown_steps: int  # steps without a finite value between from_step and the recovery (or the end)


def crossings(steps: Steps, values: Values, threshold: float) -> tuple[Crossing, ...]:
    """Every stay of `values` under `threshold`, in order.

    Args:
        steps: shape (n,), not decreasing.
        values: shape (n,), any unit; NaN allowed. Infinities compare as numbers.
        threshold: in the unit of `values`; a value equal to it is not under it.

    Raises:
        ValueError: the shapes differ, or the steps decrease.
    """
    if steps.shape != values.shape or steps.ndim != 1:
        raise ValueError(f"steps {steps.shape} and values {values.shape} must be two equal 1-D shapes")
    if np.any(np.diff(steps) < 0):
        raise ValueError("steps decrease; sort the series by step first")
    known = np.flatnonzero(~np.isnan(values))
    under = values[known] < threshold
    starts = np.flatnonzero(under & ~np.concatenate(([False], under[:-1])))
    ends = np.flatnonzero(under & ~np.concatenate((under[1:], [False])))
    return tuple(_stay(steps, values, known, int(first), int(last)) for first, last in zip(starts, ends, strict=True))


def _stay(steps: Steps, values: Values, known: npt.NDArray[np.intp], first: int, last: int) -> Crossing:
    """The stay from the `first` to the `last` of the known rows."""
    recovered = int(known[last + 1]) if last + 1 < known.size else None
    until = values.size if recovered is None else recovered
    inside = values[known[first] : until]
    lowest = int(known[first] + np.nanargmin(inside))
    return Crossing(
        from_step=int(steps[known[first]]),
        to_step=int(steps[known[last]]),
        lowest=float(values[lowest]),
        lowest_step=int(steps[lowest]),
        recovered_step=None if recovered is None else int(steps[recovered]),
        starts_under=first == 0,
        unknown_steps=int(np.isnan(inside).sum()),
    )
