"""Whether a candidate is as close to the reference as the reference's seeds are to each other.

Yardstick (definitions, section 8): distance(candidate, reference) / distance(reference seed A, reference seed B), per metric; at
most 2 is parity. A distance is the mean over the steps that both cover of the absolute difference of the smoothed curves.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from monitor.compare.reference import NOISE_IN_RESIDUAL, SMOOTHING, on_steps
from monitor.metrics.series import Series
from monitor.metrics.smoothing import ema

PARITY = 2.0  # definitions, section 8: the standard that DLC is held to


@dataclass(frozen=True, kw_only=True)
class Parity:
    """The yardstick for one metric."""

    metric: str
    value: float  # NaN where it cannot be told
    distance: float  # of the candidate to the reference, in the metric's unit, mean over the reference's seeds
    yardstick: float  # distance between two seeds of the reference, mean over pairs
    basis: str  # how the yardstick was had


def parity(metric: str, candidate: Series, seeds: Sequence[Series]) -> Parity:
    """Distance of the candidate to the reference's seeds over the seeds' distance to each other."""
    distance = float(np.mean([_distance(candidate, seed) for seed in seeds]))
    if len(seeds) > 1:
        pairs = list(itertools.combinations(seeds, 2))
        yardstick, basis = float(np.mean([_distance(a, b) for a, b in pairs])), f"{len(pairs)} pairs of seeds"
    else:
        yardstick, basis = _noise_distance(seeds[0]), "estimated from the noise of the one reference"
    value = distance / yardstick if yardstick > 0 else (0.0 if distance == 0 else np.inf)
    return Parity(metric=metric, value=float(value), distance=distance, yardstick=yardstick, basis=basis)


def overall(found: Sequence[Parity]) -> float:
    """The largest yardstick: a backend is at parity where every metric is. NaN where there is none, or one cannot be told."""
    return float(np.max([each.value for each in found])) if found else float("nan")


def _distance(a: Series, b: Series) -> float:
    steps = np.union1d(a.steps, b.steps)
    gap = np.abs(_smooth(a, steps) - _smooth(b, steps))
    return float(np.nanmean(gap)) if np.isfinite(gap).any() else float("nan")


def _smooth(found: Series, steps: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    return on_steps(found, steps, ema(found.steps, found.values, SMOOTHING))


def _noise_distance(seed: Series) -> float:
    """Expected distance of two smoothed curves that share a mean and have this curve's residual noise.

    An EMA of weight w keeps (1 - w) / (1 + w) of the variance of independent noise; the absolute difference of two such normal
    curves has mean sd * 2 / sqrt(pi). Drift between seeds is not in it, so the yardstick is short and parity is judged strictly.
    """
    residual = seed.values - ema(seed.steps, seed.values, SMOOTHING)
    finite = residual[np.isfinite(residual)]
    if not finite.size:
        return float("nan")
    kept = (1 - SMOOTHING) / (1 + SMOOTHING)
    return float(np.sqrt(np.mean(finite**2) / NOISE_IN_RESIDUAL * kept) * 2 / np.sqrt(np.pi))
