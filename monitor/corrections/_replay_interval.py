"""How many versions the generator may fall behind before the ESS of the lag ratio is under 1/2, from tokens at each version lag."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monitor.corrections._replay_tokens import StepRatios
from monitor.metrics.terms import Level

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
THRESHOLD = 0.5  # definitions, section 5
FEWEST_UNITS = 5  # of one version lag in one step; the ESS of fewer is mostly their number
LEAST_ESS = 0.2  # under it a few weights decide, and the ESS of a sample lies far above that of its distribution
FEWEST_LAGS = 2  # a power law has two unknowns
FARTHEST = 4  # times the largest version lag seen: the fit says nothing beyond
REPLICATES, SEED = 400, 0
MOST_EXACT, RATIO = 32, 1.1  # version lags up to 32 stand for themselves, larger ones share bins 10 % wide
COVERAGE = (5.0, 95.0)  # percentiles of the replicates
_LEAST_LOSS = 1e-12  # nats: an ESS nearer to 1 than this is 1
RECORD = ("rollout_version", "trainer_version")


@dataclass(frozen=True, kw_only=True)
class Interval:
    """The largest version lag whose ESS stays above 1/2, at one level."""

    level: Level
    lags: tuple[int, ...] = ()  # version lags that the log has, 0 among them
    ess: tuple[float, ...] = ()  # at each of them: exp of minus the mean over steps of -log ESS; NaN where every step has too few units
    exponent: float | None = None  # p of -log ESS = c lag^p
    exponent_range: tuple[float, float] | None = None  # 5 % to 95 % of the replicates
    coefficient: float | None = None  # c
    largest_lag: float | None = None  # optimizer steps; where the fitted ESS is 1/2
    largest_lag_range: tuple[float, float] | None = None
    beyond: bool = False  # it lies farther out than the log can show; largest_lag is then that far
    cannot_tell: str = ""  # why there is no fit
    record: tuple[str, ...] = ()

    @property
    def sync_interval(self) -> int | None:
        """Whole optimizer steps between two synchronisations; 0 where one version behind is too many already."""
        return None if self.largest_lag is None else int(self.largest_lag)

    @property
    def shape(self) -> str:
        """The law in words."""
        if self.exponent is None or self.exponent_range is None:
            return ""
        low, high = self.exponent_range
        known = next((word for power, word in ((2, "about quadratic"), (1, "about linear")) if low <= power <= high), "a power")
        return f"-log ESS grows as lag^{self.exponent:.2g} ({low:.2g} to {high:.2g}: {known})"


@dataclass(frozen=True, kw_only=True, eq=False)
class StepLags:
    """One step at each of its version lags, (K,): -log ESS in nats, and the number of units."""

    lags: Ints
    loss: Floats
    count: Ints


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


def fit(level: Level, steps: Sequence[StepLags]) -> Interval:
    """Fit -log ESS = c lag^p over the version lags above 0 up to the first whose ESS is under 0.2, and find where it crosses log 2.

    -log ESS is taken in each step, times n / (n - 1), because n weights scatter around their own mean, and averaged over the steps
    that have the lag; for a log-normal weight it is the variance of the log ratio. Least squares of its logarithm on log lag, weighted by
    units; the range is a percentile bootstrap over steps, seeded. Quadratic where every update goes the same way, linear where each goes
    its own. A lag that occurs at the beginning of a run only, where the policy changes fast, looks worse than it is later.
    """
    lags, loss, count = _dense(steps)
    if not lags.size:
        return Interval(level=level, cannot_tell="the log has no version lag of any token", record=RECORD)
    every = np.ones((1, len(steps)))
    mean = _mean_loss(every, loss, count)[0]
    known = Interval(level=level, lags=tuple(map(int, lags)), ess=tuple(map(float, np.exp(-mean))))
    near = np.cumsum(mean >= -np.log(LEAST_ESS)) == 0
    usable = near & (lags > 0) & (mean > _LEAST_LOSS)
    if usable.sum() < FEWEST_LAGS:
        return replace(known, **_why_not(lags, mean))
    lags, loss, count, farthest = lags[usable], loss[:, usable], count[:, usable], float(FARTHEST * lags.max())
    coefficient, exponent = (float(value[0]) for value in _power_law(every, lags, loss, count))
    if exponent <= 0:
        return replace(known, cannot_tell="the ESS does not fall with the version lag in this log, so no lag can be named")
    crossing = float(_crossing(coefficient, exponent))
    drawn = np.random.default_rng(SEED).multinomial(len(steps), np.full(len(steps), 1 / len(steps)), size=REPLICATES).astype(float)
    coefficients, exponents = _power_law(drawn, lags, loss, count)
    told, falls = np.isfinite(exponents), exponents > 0
    exponent_range = _range(exponents[told])
    if exponent_range is not None and exponent_range[0] <= 0:
        low, high = exponent_range
        why = f"whether the ESS falls with the version lag is lost in the noise: its loss grows as lag^{low:.2g} to lag^{high:.2g}"
        return replace(known, cannot_tell=why, record=("more steps",))
    crossings = np.where(falls, _crossing(coefficients, np.where(falls, exponents, 1.0)), farthest)[told]  # else it falls nowhere
    return replace(
        known,
        exponent=exponent,
        exponent_range=exponent_range,
        coefficient=coefficient,
        largest_lag=min(crossing, farthest),
        largest_lag_range=_range(np.minimum(crossings, farthest)),
        beyond=crossing > farthest,
    )


def _grouped(x: Floats, lags: Ints) -> StepLags:
    order = np.argsort(lags, kind="stable")
    order = order[np.searchsorted(lags[order], 0) :]
    x, lags = x[order], lags[order]
    if not len(x):
        return StepLags(lags=lags, loss=x, count=lags)
    starts = np.flatnonzero(np.r_[True, lags[1:] != lags[:-1]])
    count = np.diff(np.append(starts, len(x)))
    e = np.exp(x - np.repeat(np.maximum.reduceat(x, starts), count))
    first, second = np.add.reduceat(e, starts), np.add.reduceat(e * e, starts)
    return StepLags(lags=lags[starts], loss=np.maximum(np.log(count * second / first**2), 0.0), count=count)


def _dense(steps: Sequence[StepLags]) -> tuple[Ints, Floats, Ints]:
    """Every lag of any step, and for each step -log ESS, corrected for the number of units, and that number; 0 where it has too few."""
    lags = np.unique(np.concatenate([one.lags for one in steps])) if steps else np.zeros(0, np.int64)
    loss, count = np.zeros((len(steps), len(lags))), np.zeros((len(steps), len(lags)), np.int64)
    for row, one in enumerate(steps):
        enough = one.count >= FEWEST_UNITS
        places, n = np.searchsorted(lags, one.lags[enough]), one.count[enough]
        loss[row, places], count[row, places] = one.loss[enough] * n / (n - 1), n
    return lags, loss, count


def _mean_loss(drawn: Floats, loss: Floats, count: Ints) -> Floats:
    """Mean of -log ESS at each lag for each way of drawing steps: (replicates, steps) -> (replicates, lags); NaN where it is not drawn."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((drawn @ (loss * count)) / (drawn @ count))


def _power_law(drawn: Floats, lags: Ints, loss: Floats, count: Ints) -> tuple[Floats, Floats]:
    """(coefficient, exponent) for each way of drawing; NaN where it leaves fewer than two lags."""
    mean = _mean_loss(drawn, loss, count)
    fitted = mean > _LEAST_LOSS
    weight = np.where(fitted, drawn @ count, 0.0)
    x, y = np.log(lags)[None, :], np.log(np.where(fitted, mean, 1.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        total = weight.sum(axis=1, keepdims=True)
        x_mean, y_mean = ((weight * each).sum(axis=1, keepdims=True) / total for each in (x, y))
        exponent = (weight * (x - x_mean) * (y - y_mean)).sum(axis=1) / (weight * (x - x_mean) ** 2).sum(axis=1)
        coefficient = np.exp(y_mean[:, 0] - exponent * x_mean[:, 0])
    alone = fitted.sum(axis=1) < FEWEST_LAGS
    return np.where(alone, np.nan, coefficient), np.where(alone, np.nan, exponent)


def _crossing(coefficient: Floats | float, exponent: Floats | float) -> Floats:
    with np.errstate(over="ignore"):
        return np.asarray((-np.log(THRESHOLD) / np.asarray(coefficient)) ** (1 / np.asarray(exponent)))


def _range(values: Floats) -> tuple[float, float] | None:
    return None if not len(values) else (float(np.percentile(values, COVERAGE[0])), float(np.percentile(values, COVERAGE[1])))


def _why_not(lags: Ints, mean: Floats) -> dict[str, Any]:
    positive, far = lags[lags > 0], (lags > 0) & (mean >= -np.log(LEAST_ESS))
    if not len(positive):
        return {"cannot_tell": "every token was sampled by the newest weights, so this log has no version lag to learn from"}
    if len(positive) == 1:
        only = f"the log has one version lag only ({positive[0]})"
        return {"cannot_tell": f"{only}, and how the ESS falls with the lag takes at least two"}
    if far.any():
        first = int(np.argmax(far))
        said = f"the ESS is {np.exp(-mean[first]):.2g} at version lag {lags[first]}"
        return {"cannot_tell": f"{said}, and fewer than two version lags have one that is large enough to fit"}
    return {"cannot_tell": "fewer than two version lags have enough tokens whose ratio is not 1"}
