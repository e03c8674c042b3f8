"""How large the gap is at the same weights, step by step, in the best measure that the log has."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from monitor.diagnosis.case import Case
from monitor.diagnosis.trend import growth
from monitor.metrics.series import Series

Floats = NDArray[np.float64]

EXP_ABS = "log_ratio.discrepancy.exp_abs_mean"
MEASURES = (EXP_ABS, "log_ratio.discrepancy.abs_mean", "log_ratio.discrepancy.sd", "prob_diff.discrepancy.abs_mean", "kl.discrepancy.k3")
LAG = ("version_lag.max", "version_lag.mean")
_FIRST = 3  # steps that stand for the beginning


@dataclass(frozen=True, kw_only=True, eq=False)
class Level:
    """One measure over the steps that show it; 0 where the two sides agree."""

    metric: str
    steps: NDArray[np.int64]  # (K,), K at least 1
    values: Floats  # (K,), finite; of a mean factor its excess over 1
    limit: float  # of what is healthy, in the same unit
    origin: str
    at_lag_0: bool = False  # a total, of the steps without version lag only

    @property
    def typical(self) -> float:
        """Median over the steps."""
        return float(np.median(self.values))

    @property
    def first(self) -> float:
        """Median of the first steps."""
        return float(np.median(self.values[:_FIRST]))

    @property
    def flat(self) -> bool:
        """Whether it is there from the first steps on and does not grow to several times its size."""
        rise = growth(self.values).factor
        return self.first > self.typical / 2 and not rise > 3  # noqa: PLR2004 - beyond it time matters more than the level

    @property
    def words(self) -> str:
        """What is measured, with its number."""
        if "exp_abs" in self.metric:
            return f"mean exp|gap| {1 + self.typical:.4g}"
        names = {"abs_mean": "mean |gap| {:.3g} nats", "sd": "standard deviation of the gap {:.3g} nats", "k3": "KL {:.3g} nats"}
        if self.metric.startswith("prob_diff"):
            return f"mean |difference of probabilities| {self.typical:.3g}"
        return names[self.metric.rsplit(".", maxsplit=1)[-1]].format(self.typical)

    @property
    def shown(self) -> tuple[float, float]:
        """Typical value and limit as the metric has them."""
        base = 1.0 if "exp_abs" in self.metric else 0.0
        return base + self.typical, base + self.limit


def level(case: Case, limits: Mapping[str, float]) -> Level | None:
    """The level from tokens, else as logged at the same weights, else from the total at steps without lag; None where the log has none.

    Args:
        case: the run.
        limits: of what is healthy, by last part of the metric's name; of a mean factor its excess over 1.
    """
    if case.portrait is not None and case.portrait.gap.is_discrepancy:
        steps, values = case.portrait.over_steps(lambda step: step.multiplicative_error - 1)
        use = np.isfinite(values)
        limit = limits.get(kind(EXP_ABS), math.inf)
        return Level(metric=EXP_ABS, steps=steps[use], values=values[use], limit=limit, origin="tokens") if use.any() else None
    for metric in MEASURES:
        found = case.series(metric)
        if (own := _level(found, limits)) is not None:
            return own
    return _at_lag_0(case, limits)


def kind(metric: str) -> str:
    """Last part of a metric's name; of a difference of probabilities its first."""
    return "prob_diff" if metric.startswith("prob_diff") else metric.rsplit(".", maxsplit=1)[-1]


def _at_lag_0(case: Case, limits: Mapping[str, float]) -> Level | None:
    lag = case.series(*LAG)
    fresh = lag.steps[lag.values == 0]
    for metric in MEASURES:
        found = case.series(metric.replace("discrepancy", "total"))
        if (own := _level(found, limits, fresh)) is not None:
            return own
    return None


def _level(found: Series, limits: Mapping[str, float], steps: NDArray[np.int64] | None = None) -> Level | None:
    """The level that a metric of the log shows, at some steps or at all."""
    values = found.values - 1 if "exp_abs" in found.metric else found.values
    use = np.isfinite(values) if steps is None else np.isfinite(values) & np.isin(found.steps, steps)
    if not use.any():
        return None
    return Level(
        metric=found.metric,
        steps=found.steps[use],
        values=values[use],
        limit=limits.get(kind(found.metric), math.inf),
        origin=found.origin,
        at_lag_0=steps is not None,
    )
