"""When a quantity that grows by a constant factor a step will reach a level, with the interval that its fit leaves."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_WIDE = 2.0  # standard errors on either side: about 95 %


@dataclass(frozen=True, kw_only=True)
class Fit:
    """log(y) = level + rate (step - centre)."""

    centre: float  # step
    level: float
    level_error: float
    rate: float  # per step
    rate_error: float

    def at(self, step: float) -> float:
        """The fitted value at a step."""
        return math.exp(self.level + self.rate * (step - self.centre))

    def reaches(self, value: float) -> tuple[float, float, float]:
        """The step at which it reaches a value, and the ends of its interval; infinite where the growth may be none."""
        need = math.log(value) - self.level
        low, high = need - _WIDE * self.level_error, need + _WIDE * self.level_error
        rates = self.rate - _WIDE * self.rate_error, self.rate + _WIDE * self.rate_error
        ends = [distance / rate if rate > 0 else math.inf for distance in (low, high) for rate in rates]
        middle = need / self.rate if self.rate > 0 else math.inf
        return self.centre + middle, self.centre + min(ends), self.centre + max(ends)


def exponential(steps: NDArray[np.int64], values: Floats) -> Fit | None:
    """Least squares of log(values) on the steps; None with fewer than 4 positive values.

    Errors are widened for residuals that follow one another (first-order autocorrelation).

    Args:
        steps: (K,), rising.
        values: (K,); those that are not positive and finite are left out.
    """
    use = np.isfinite(values) & (values > 0)
    if use.sum() < 4:  # noqa: PLR2004 - two parameters and an error
        return None
    x, y = steps[use].astype(float), np.log(values[use])
    centre, n = float(x.mean()), len(x)
    spread = float(((x - centre) ** 2).sum())
    rate = float(((x - centre) * y).sum() / spread)
    residual = y - y.mean() - rate * (x - centre)
    variance = float((residual**2).sum() / (n - 2)) * _inflation(residual)
    return Fit(
        centre=centre, level=float(y.mean()), level_error=math.sqrt(variance / n), rate=rate, rate_error=math.sqrt(variance / spread)
    )


def _inflation(residual: Floats) -> float:
    total = float((residual**2).sum())
    rho = float((residual[1:] * residual[:-1]).sum()) / total if total else 0.0
    rho = min(max(rho, 0.0), 0.9)
    return (1 + rho) / (1 - rho)
