"""Mean, spread and standard error from a count, a sum and a sum of squares."""

from __future__ import annotations

import math

from monitor.metrics.metric import Value

# A variance under this share of the mean square is the rounding of the two sums it is the difference of.
RESOLUTION = 1e-14


def mean(n: int, total: float, squares: float, *, caveat: str = "") -> Value:
    """Mean of n values and its iid standard error; NaN with n = 0 where there are none, no standard error under n = 2."""
    if n == 0:
        return Value(value=math.nan, n=0, caveat=caveat)
    error = math.sqrt(variance(n, total, squares) / (n - 1)) if n > 1 else None
    return Value(value=total / n, n=n, standard_error=error, caveat=caveat)


def variance(n: int, total: float, squares: float) -> float:
    """Mean square around the mean (divided by n); 0 below what float64 sums resolve, inf where a sum left float64."""
    if not (math.isfinite(total) and math.isfinite(squares)):
        return math.inf
    found = squares / n - (total / n) ** 2
    return found if found > RESOLUTION * squares / n else 0.0


def share(count: int, n: int, *, caveat: str = "") -> Value:
    """A share of n observations and its binomial standard error sqrt(p (1 - p) / n)."""
    if n == 0:
        return Value(value=math.nan, n=0, caveat=caveat)
    p = count / n
    return Value(value=p, n=n, standard_error=math.sqrt(p * (1 - p) / n), caveat=caveat)
