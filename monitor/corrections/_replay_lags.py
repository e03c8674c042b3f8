"""-log ESS of the lag ratio at each version lag: the units of all steps together, and how far so few of them can be believed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from monitor.corrections._replay_tokens import StepRatios
from monitor.metrics.terms import Level

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
MOST_EXACT, RATIO = 32, 1.1  # version lags up to 32 stand for themselves, larger ones share bins 10 % wide
_MOST_LOSS = 5.0  # nats: exp(4 x) of more says only that no log has enough units
_LEAST_LOSS = 1e-12  # nats: an ESS nearer to 1 than this is 1


@dataclass(frozen=True, kw_only=True, eq=False)
class StepLags:
    """One step at each of its version lags, (K,); x is a unit's log ratio in nats."""

    lags: Ints
    count: Ints  # units
    first: Floats  # log of the sum of exp(x)
    second: Floats  # log of the sum of exp(2 x)
    scatter: Floats  # sum of (x - mean x)^2


@dataclass(frozen=True, kw_only=True, eq=False)
class Pooled:
    """Two estimates of -log ESS at each lag for each way of drawing steps, (replicates, lags); NaN where nothing is drawn."""

    direct: Floats  # from the weights' own moments
    variance: Floats  # of the log ratio inside a step, which -log ESS is where the weight is log-normal
    count: Floats

    @property
    def larger(self) -> Floats:
        """The larger of the two: a sample that lacks the tail of its weights shows too small a loss, and still the scatter of its logs."""
        return np.clip(np.fmax(self.direct, self.variance), 0.0, _MOST_LOSS)

    @property
    def weights_needed(self) -> Floats:
        """A lag needs several times as many units, or mean w^2 is not its distribution's: E[w^4] / E[w^2]^2, w log-normal."""
        return np.asarray(np.exp(4 * self.larger))

    @property
    def unbiased(self) -> Floats:
        """The direct estimate with its bias of first order in 1/n, that of a log-normal weight, taken out; v n/(n - 1) for a small v."""
        v = np.clip(self.direct, 0.0, _MOST_LOSS)
        return np.asarray(self.direct + (np.expm1(4 * v) / 2 - np.expm1(v)) / np.maximum(self.count, 1.0))

    @property
    def noise(self) -> Floats:
        """Variance of the logarithm of `unbiased`, by the delta method for a log-normal weight; 2/n for small losses."""
        v = np.clip(self.direct, 1e-3, _MOST_LOSS)
        return np.asarray((np.expm1(4 * v) - 4 * np.expm1(2 * v) + 4 * np.expm1(v)) / v**2 / np.maximum(self.count, 1.0))


@dataclass(frozen=True, kw_only=True, eq=False)
class Cells:
    """Every step at every lag of any step, (steps, lags); sums are of exp(x - largest) so that nothing overflows."""

    lags: Ints
    count: Floats
    first: Floats
    second: Floats
    scatter: Floats

    @classmethod
    def of(cls, steps: Sequence[StepLags]) -> Self:
        """Zero where a step has no unit of a lag."""
        lags = np.unique(np.concatenate([one.lags for one in steps])) if steps else np.zeros(0, np.int64)
        count, scatter = np.zeros((2, len(steps), len(lags)))
        first, second = np.full((2, len(steps), len(lags)), -np.inf)
        for row, one in enumerate(steps):
            at = np.searchsorted(lags, one.lags)
            count[row, at], scatter[row, at], first[row, at], second[row, at] = one.count, one.scatter, one.first, one.second
        tops = second.max(axis=0, keepdims=True, initial=-np.inf) / 2
        tops = np.where(np.isfinite(tops), tops, 0.0)
        return cls(lags=lags, count=count, scatter=scatter, first=np.exp(first - tops), second=np.exp(second - 2 * tops))

    def take(self, usable: NDArray[np.bool_]) -> Cells:
        """Some of the lags."""
        of = (self.lags[usable], self.count[:, usable], self.first[:, usable], self.second[:, usable], self.scatter[:, usable])
        return Cells(lags=of[0], count=of[1], first=of[2], second=of[3], scatter=of[4])

    def pooled(self, drawn: Floats) -> Pooled:
        """All units of a lag as one sample, each step as often as it is drawn: (replicates, steps) -> (replicates, lags)."""
        count = drawn @ self.count
        with np.errstate(invalid="ignore", divide="ignore"):
            direct = np.log(count * (drawn @ self.second) / (drawn @ self.first) ** 2)
            variance = (drawn @ self.scatter) / (drawn @ np.maximum(self.count - 1, 0.0))
        return Pooled(direct=np.where(direct < _LEAST_LOSS, 0.0, direct), variance=variance, count=count)


def by_lag(step: StepRatios) -> dict[Level, StepLags]:
    """The step's sums at each level; a sequence over several versions counts at its mean lag, rounded. Negative lags are left out."""
    if not len(step.version_lag) or not len(step.x):
        return {}
    mean_lag = np.rint(np.add.reduceat(step.version_lag.astype(float), step.starts) / step.lengths).astype(np.int64)
    lags = {Level.TOKEN: step.version_lag, Level.SEQUENCE: mean_lag, Level.SEQUENCE_MEAN: mean_lag}
    return {level: _grouped(step.units[level].x, binned(of)) for level, of in lags.items()}


def binned(lags: Ints) -> Ints:
    """Version lags up to 32 as they are, larger ones as the middle of their bin."""
    wide = lags > MOST_EXACT
    steps = np.rint(np.log(np.where(wide, lags, MOST_EXACT) / MOST_EXACT) / np.log(RATIO))
    return np.asarray(np.where(wide, np.rint(MOST_EXACT * RATIO**steps), lags), dtype=np.int64)


def _grouped(x: Floats, lags: Ints) -> StepLags:
    order = np.argsort(lags, kind="stable")
    order = order[np.searchsorted(lags[order], 0) :]
    x, lags = x[order], lags[order]
    if not len(x):
        return StepLags(lags=lags, count=lags, first=x, second=x, scatter=x)
    starts = np.flatnonzero(np.r_[True, lags[1:] != lags[:-1]])
    count = np.diff(np.append(starts, len(x)))
    top = np.maximum.reduceat(x, starts)
    e = np.exp(x - np.repeat(top, count))
    apart = x - np.repeat(np.add.reduceat(x, starts) / count, count)
    return StepLags(
        lags=lags[starts],
        count=count,
        first=np.log(np.add.reduceat(e, starts)) + top,
        second=np.log(np.add.reduceat(e * e, starts)) + 2 * top,
        scatter=np.add.reduceat(apart * apart, starts),
    )
