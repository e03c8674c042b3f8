"""How many versions the generator may fall behind before the ESS of the lag ratio is under 1/2, from tokens at each version lag."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monitor.corrections._replay_lags import Cells, StepLags, binned, by_lag
from monitor.metrics.terms import Level

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
THRESHOLD = 0.5  # definitions, section 5
FEWEST_UNITS = 20  # of one version lag in all steps together
BELIEVED = (
    3.0  # times the units a lag needs at least (Pooled.weights_needed); simulated in tests/monitor/corrections/test_replay_coverage.py
)
FEWEST_LAGS = 2  # a power law has two unknowns
FARTHEST = 4  # times the largest version lag seen: the fit says nothing beyond
REPLICATES, SEED = 400, 0
COVERAGE = (5.0, 95.0)  # percentiles of the replicates
APART = 1.2  # two ranges that lie farther from each other than this factor contradict each other
_LEAST_LOSS = 1e-12  # nats: an ESS nearer to 1 than this is 1
RECORD = ("rollout_version", "trainer_version")


@dataclass(frozen=True, kw_only=True)
class Interval:
    """The largest version lag whose ESS stays above 1/2, at one level."""

    level: Level
    lags: tuple[int, ...] = ()  # version lags that the log has, 0 among them
    ess: tuple[float, ...] = ()  # at each of them, of the units of all steps together; an upper bound where they are too few to be believed
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
class _Law:
    """-log ESS = c lag^p fitted to one of the two estimates."""

    coefficient: float
    exponent: float
    exponent_range: tuple[float, float] | None
    crossing: float  # lag at which the ESS is 1/2
    crossing_range: tuple[float, float] | None


def fit(level: Level, steps: Sequence[StepLags]) -> Interval:
    """Fit -log ESS = c lag^p over the version lags above 0 up to the first with too few units, and find where it crosses log 2.

    All units of a lag are one sample, so that a few in each step tell as much as many in one. Two estimates are fitted: the ESS of the
    weights, its bias of order 1/n taken out, and the variance of the log ratio, which -log ESS is for a log-normal weight, and which
    no heavy tail biases. Where their ranges contradict each other the weight is not log-normal, and the first alone is the answer; where
    not, the second is, in a range over both. Least squares of the logarithm on log lag, weighted by precision; percentile bootstrap over
    steps, recentred on the estimate, seeded. A lag of m steps is drawn with 1/m of its sampling noise besides, which m steps cannot show.
    """
    cells = Cells.of(steps)
    lags = cells.lags
    if not lags.size:
        return Interval(level=level, cannot_tell="the log has no version lag of any token", record=RECORD)
    pooled = cells.pooled(np.ones((1, len(steps))))
    enough = pooled.count[0] >= np.maximum(FEWEST_UNITS, BELIEVED * pooled.weights_needed[0])
    loss = np.where(enough, pooled.unbiased[0], pooled.direct[0])
    known = Interval(level=level, lags=tuple(map(int, lags)), ess=tuple(map(float, np.exp(-np.maximum(loss, 0.0)))))
    near = np.cumsum(~enough & (lags > 0)) == 0
    usable = near & (lags > 0) & (loss > _LEAST_LOSS)
    if usable.sum() < FEWEST_LAGS:
        return replace(known, **_why_not(lags, loss, enough))
    direct, variance = _laws(cells.take(usable))
    return replace(known, **_answer(direct, variance, float(FARTHEST * lags[usable].max())))


def _answer(direct: _Law, variance: _Law, farthest: float) -> dict[str, Any]:
    """Fields of Interval."""
    if direct.exponent <= 0:
        return {"cannot_tell": "the ESS does not fall with the version lag in this log, so no lag can be named"}
    both = variance.exponent > 0 and not _contradict(direct.crossing_range, variance.crossing_range)
    chosen = variance if both else direct
    exponents = _span(direct.exponent_range, variance.exponent_range) if both else direct.exponent_range
    crossings = _span(direct.crossing_range, variance.crossing_range) if both else direct.crossing_range
    if exponents is not None and exponents[0] <= 0:
        low, high = exponents
        why = f"whether the ESS falls with the version lag is lost in the noise: its loss grows as lag^{low:.2g} to lag^{high:.2g}"
        return {"cannot_tell": why, "record": ("more steps",)}
    return {
        "exponent": chosen.exponent,
        "exponent_range": exponents,
        "coefficient": chosen.coefficient,
        "largest_lag": min(chosen.crossing, farthest),
        "largest_lag_range": crossings and (min(crossings[0], farthest), min(crossings[1], farthest)),
        "beyond": chosen.crossing > farthest,
    }


def _laws(cells: Cells) -> tuple[_Law, _Law]:
    """Fitted to the ESS of the weights, and to the variance of the log ratio."""
    steps = len(cells.count)
    rng = np.random.default_rng(SEED)
    drawn = rng.multinomial(steps, np.full(steps, 1 / steps), size=REPLICATES).astype(float)
    pooled, again = cells.pooled(np.ones((1, steps))), cells.pooled(drawn)
    unseen = np.sqrt(1 / np.maximum((cells.count > 0).sum(axis=0), 1))  # what the scatter between so few steps leaves out
    noise = rng.standard_normal(again.count.shape) * unseen
    few = np.sqrt(2 / np.maximum(pooled.count, 1.0))  # of the logarithm of a variance
    direct, variance = pooled.unbiased, pooled.variance
    return (
        _law(cells.lags, direct, again.unbiased * np.exp(noise * np.sqrt(pooled.noise)), 1 / pooled.noise),
        _law(cells.lags, variance, again.variance * np.exp(noise * few), pooled.count / 2),
    )


def _law(lags: Ints, loss: Floats, losses: Floats, precision: Floats) -> _Law:
    """From the estimate (1, lags) and its replicates."""
    ((coefficient,), (exponent,)) = _power_law(lags, loss, precision)
    crossing = float(_crossing(coefficient, exponent)) if exponent > 0 else np.inf
    coefficients, exponents = _power_law(lags, losses, precision)
    told, falls = np.isfinite(exponents), exponents > 0
    logs = np.where(falls, np.log(_crossing(coefficients, np.where(falls, exponents, 1.0))), np.inf)[told]  # else it falls nowhere
    return _Law(
        coefficient=float(coefficient),
        exponent=float(exponent),
        exponent_range=_range(exponents[told], float(exponent)),
        crossing=crossing,
        crossing_range=_exp(_range(logs, float(np.log(crossing)))),
    )


def _power_law(lags: Ints, loss: Floats, precision: Floats) -> tuple[Floats, Floats]:
    """(coefficient, exponent) for each row of losses; NaN where it has fewer than two lags."""
    fitted = loss > _LEAST_LOSS
    weight = np.where(fitted, precision, 0.0)
    x, y = np.log(lags)[None, :], np.log(np.where(fitted, loss, 1.0))
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


def _range(values: Floats, estimate: float) -> tuple[float, float] | None:
    """Percentiles, moved so that their middle is the estimate: the replicates are as far beside it as it is beside the truth."""
    if not len(values):
        return None
    low, middle, high = (float(np.percentile(values, q, method="nearest")) for q in (COVERAGE[0], 50, COVERAGE[1]))
    shift = estimate - middle if np.isfinite(middle) and np.isfinite(estimate) else 0.0
    return low + shift, high + shift


def _exp(ends: tuple[float, float] | None) -> tuple[float, float] | None:
    with np.errstate(over="ignore"):
        return ends and (float(np.exp(ends[0])), float(np.exp(ends[1])))


def _contradict(one: tuple[float, float] | None, other: tuple[float, float] | None) -> bool:
    return one is None or other is None or max(one[0], other[0]) > APART * min(one[1], other[1])


def _span(one: tuple[float, float] | None, other: tuple[float, float] | None) -> tuple[float, float] | None:
    return (min(one[0], other[0]), max(one[1], other[1])) if one and other else one or other


def _why_not(lags: Ints, loss: Floats, enough: NDArray[np.bool_]) -> dict[str, Any]:
    positive, few = lags[lags > 0], (lags > 0) & ~enough
    if not len(positive):
        return {"cannot_tell": "every token was sampled by the newest weights, so this log has no version lag to learn from"}
    if len(positive) == 1:
        only = f"the log has one version lag only ({positive[0]})"
        return {"cannot_tell": f"{only}, and how the ESS falls with the lag takes at least two"}
    if few.any():
        first = int(np.argmax(few))
        said = (
            f"the ESS is {np.exp(-loss[first]):.2g} at version lag {lags[first]}, or less, because there are too few weights to measure it"
        )
        return {"cannot_tell": f"{said}, and fewer than two version lags before it can be fitted", "record": ("more sequences or steps",)}
    return {"cannot_tell": "fewer than two version lags have tokens whose ratio is not 1"}


__all__ = ["FARTHEST", "RECORD", "THRESHOLD", "Interval", "StepLags", "binned", "by_lag", "fit"]
