"""How much lag there is where the log does not separate it, from the version lags: of tokens, or of steps."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from monitor.diagnosis import _profiles
from monitor.diagnosis.case import Case
from monitor.diagnosis.trend import rank_correlation
from monitor.metrics.series import Series

_FEWEST = 50  # tokens on either side of the comparison
_LAGGING = 3  # steps that lag


@dataclass(frozen=True, kw_only=True)
class Added:
    """Root mean square log ratio of the current policy to the engine, nats."""

    floor: float  # of tokens at version lag 0
    rest: float  # of tokens above it
    length: float  # mean tokens of a response

    @property
    def added(self) -> float:
        """What the lag adds, nats."""
        return math.sqrt(max(self.rest**2 - self.floor**2, 0.0))

    @property
    def ess_sequence(self) -> float:
        """exp(-length x variance): ESS of normal log weights whose tokens are independent."""
        return math.exp(-self.length * self.added**2)


@dataclass(frozen=True, kw_only=True)
class Moved:
    """A mismatch at steps without lag, and at later ones."""

    floor: float
    rest: float
    rank: float  # rank correlation with the version lag over steps

    @property
    def factor(self) -> float:
        """How many times the floor the rest is."""
        return self.rest / self.floor if self.floor else math.inf


def estimate(case: Case) -> Added | None:
    """Tokens at version lag 0 against tokens above it; None where either is missing."""
    if case.portrait is None:
        return None
    whole = case.portrait.whole
    at_zero, above = whole.total_lag[0], whole.total_lag[1:].sum(axis=0)
    if min(at_zero[_profiles.N], above[_profiles.N]) < _FEWEST or not at_zero[_profiles.X2]:
        return None
    root = [math.sqrt(sums[_profiles.X2] / sums[_profiles.N]) for sums in (at_zero, above)]
    return Added(floor=root[0], rest=root[1], length=whole.tokens / len(whole.sequences.n))


def moved_with_versions(versions: Series, total: Series) -> Moved | None:
    """The total at steps of version lag 0 against those with more; None where either is missing."""
    _, mine, theirs = np.intersect1d(versions.steps, total.steps, return_indices=True)
    lag, size = versions.values[mine], total.values[theirs]
    known = np.isfinite(lag) & np.isfinite(size)
    fresh, stale = known & (lag <= 0), known & (lag > 0)
    if not fresh.any() or stale.sum() < _LAGGING:
        return None
    return Moved(floor=float(np.median(size[fresh])), rest=float(np.median(size[stale])), rank=rank_correlation(lag[known], size[known]))
