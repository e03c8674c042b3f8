"""Whether a series that had reached a level has fallen off it for good."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from monitor.metrics.series import Series

Floats = NDArray[np.float64]
FEWEST = 8  # values


@dataclass(frozen=True, kw_only=True)
class Fall:
    """A plateau and what is left of it."""

    plateau: float  # highest median of a stretch
    late: float  # median of the last stretch
    start: float  # median of the first stretch
    noise: float  # standard deviation from one step to the next
    window: int  # steps of a stretch
    since: int  # step behind which it never comes back to half way

    @property
    def share(self) -> float:
        """The drop over what there was to lose: the plateau itself, or what was won since the start."""
        scale = max(abs(self.plateau), self.plateau - self.start)
        return (self.plateau - self.late) / scale if scale else 0.0

    @property
    def sigmas(self) -> float:
        """The drop in standard errors of a difference of two such medians."""
        error = self.noise * math.sqrt(2 * math.pi / 2 / self.window)  # a median's error is sqrt(pi / 2) of a mean's
        return (self.plateau - self.late) / error if error else math.inf


def fall(found: Series) -> Fall | None:
    """The fall of a series from its highest stretch to its last; None with fewer than 8 finite values."""
    use = np.isfinite(found.values)
    values, steps = found.values[use], found.steps[use]
    if len(values) < FEWEST:
        return None
    window = min(max(3, len(values) // 8), 25)
    medians = np.median(np.lib.stride_tricks.sliding_window_view(values, window), axis=1)
    plateau, late = float(medians.max()), float(medians[-1])
    above = np.flatnonzero(values > (plateau + late) / 2)
    return Fall(
        plateau=plateau,
        late=late,
        start=float(medians[0]),
        noise=_noise(values),
        window=window,
        since=int(steps[min(above[-1] + 1, len(steps) - 1)]) if len(above) else int(steps[0]),
    )


def _noise(values: Floats) -> float:
    """From differences of neighbours, so that a trend does not count; no less than what the level itself scatters by where it is flat."""
    differences = np.diff(values)
    middle = float(np.median(np.abs(differences))) * 1.4826 / math.sqrt(2)
    return max(middle, float(np.abs(differences).mean()) / 2 / math.sqrt(2))
