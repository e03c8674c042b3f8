"""How a series moves over the steps of a run: whether it grows, whether it jumps once and stays, how it is related to another."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_MOST = 400  # points a rank statistic is computed over; longer series are averaged into as many


@dataclass(frozen=True, kw_only=True)
class Growth:
    """First and last part of a series, and how surely it rises between them."""

    early: float  # median of the first fifth
    late: float  # median of the last fifth
    tau: float  # Kendall's tau against the step: 1 rises always, 0 no trend
    z: float  # tau in standard errors of a series without trend (Mann 1945)

    @property
    def factor(self) -> float:
        """Late / early; NaN where either is missing, infinite from 0."""
        if self.early:
            return self.late / self.early
        return math.inf if self.late > 0 else math.nan


@dataclass(frozen=True, kw_only=True)
class Jump:
    """One change of level."""

    index: int  # first value after it, among the finite values
    before: float  # median before and after
    after: float
    steady: bool  # neither part changes by more than a third of the jump inside itself

    @property
    def factor(self) -> float:
        """After / before; infinite from 0."""
        return self.after / self.before if self.before else math.inf


def growth(values: Floats) -> Growth:
    """Trend of a series; NaN throughout with fewer than 3 finite values.

    Args:
        values: (K,), in the order of the steps; values that are not finite are passed over.
    """
    finite = values[np.isfinite(values)]
    if len(finite) < 3:  # noqa: PLR2004 - two points always rise or fall
        return Growth(early=math.nan, late=math.nan, tau=math.nan, z=math.nan)
    part = max(1, len(finite) // 5)
    points = thinned(finite)
    n = len(points)
    signs = np.sign(points[None, :] - points[:, None])[np.triu_indices(n, 1)]
    tau = float(signs.mean())
    error = math.sqrt(2 * (2 * n + 5) / (9 * n * (n - 1)))
    return Growth(early=float(np.median(finite[:part])), late=float(np.median(finite[-part:])), tau=tau, z=tau / error)


def jump(values: Floats) -> Jump | None:
    """The best split of a series into two levels, by absolute log residual; None with fewer than 2 finite values or without a change.

    Args:
        values: (K,), at least 0, in the order of the steps; values that are not finite are passed over.
    """
    finite = values[np.isfinite(values)]
    if len(finite) < 2:  # noqa: PLR2004 - one value has no level before it
        return None
    logs = np.log(np.maximum(finite, 1e-12))
    splits = range(1, min(len(logs), _MOST))
    cost = [_residual(logs[:k]) + _residual(logs[k:]) for k in splits]
    at = 1 + int(np.argmin(cost))
    before, after = float(np.median(finite[:at])), float(np.median(finite[at:]))
    step = abs(math.log(max(after, 1e-12) / max(before, 1e-12)))
    if not step:
        return None
    inner = max(_drift(logs[:at]), _drift(logs[at:]))
    return Jump(index=at, before=before, after=after, steady=inner < step / 3)


def thinned(values: Floats) -> Floats:
    """At most 400 values: means of equal stretches of a longer series."""
    if len(values) <= _MOST:
        return values
    return np.array([part.mean() for part in np.array_split(values, _MOST)])


def rank_correlation(a: Floats, b: Floats) -> float:
    """Spearman's rank correlation of two series (K,), over rows where both are finite; NaN with fewer than 3, or a constant."""
    both = np.isfinite(a) & np.isfinite(b)
    if both.sum() < 3:  # noqa: PLR2004 - two points always correlate
        return math.nan
    one, two = _ranks(a[both]), _ranks(b[both])
    spread = float(one.std() * two.std())
    return float(((one - one.mean()) * (two - two.mean())).mean() / spread) if spread else math.nan


def _ranks(values: Floats) -> Floats:
    """Ranks from 0; equal values share the mean of theirs, so that a constant has no order."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    last: Floats = np.cumsum(count).astype(float)
    return (last - (count + 1) / 2)[place]


def _residual(logs: Floats) -> float:
    return float(np.abs(logs - np.median(logs)).sum())


def _drift(logs: Floats) -> float:
    """How far the second half of a part lies from its first half."""
    half = len(logs) // 2
    return abs(float(np.median(logs[half:]) - np.median(logs[:half]))) if half else 0.0
