"""What the reference does, step by step: its centre, its band over seeds, and its own noise.

The noise is what a deviation is measured in (definitions, section 8): from seed to seed where several seeds exist, otherwise the
residual of the one reference around its smoothed curve.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from monitor.metrics.series import Series
from monitor.metrics.smoothing import ema

Floats = npt.NDArray[np.float64]
Steps = npt.NDArray[np.int64]

SMOOTHING = 0.8  # EMA weight per step of every curve that is compared; five steps of memory, short beside the runs we have seen
# An EMA of weight w that includes the current value leaves this share of the variance of independent noise in value - EMA.
NOISE_IN_RESIDUAL = 1 - 2 * (1 - SMOOTHING) + (1 - SMOOTHING) / (1 + SMOOTHING)
NOISE_WINDOW = 10  # steps on either side over which seed-to-seed variance is averaged; three seeds alone give two degrees of freedom


@dataclass(frozen=True, kw_only=True)
class Reference:
    """The reference on given steps; every array has their shape. NaN where a step lies outside what the seeds cover."""

    steps: Steps
    centre: Floats  # mean over seeds of the raw values
    low: Floats  # smallest and largest of the seeds' smoothed curves
    high: Floats
    noise: Floats  # standard deviation that one more seed of the reference would have about the centre
    seeds: int
    basis: str  # "seed to seed" or "residual of the one reference"


def on_steps(found: Series, steps: Steps, values: Floats | None = None) -> Floats:
    """`found` (or `values` on its steps) at `steps`, linear between its finite rows, NaN outside them; nothing is extrapolated."""
    own = found.values if values is None else values
    finite = np.isfinite(own)
    if not finite.any():
        return np.full(steps.shape, np.nan)
    laid: Floats = np.interp(steps, found.steps[finite], own[finite], left=np.nan, right=np.nan)
    return laid


def reference(seeds: Sequence[Series], steps: Steps) -> Reference:
    """Lay the reference's seeds on `steps`.

    Args:
        seeds: one series per seed of one configuration, at least one.
        steps: shape (n,), increasing; usually the candidate's own steps.
    """
    raw = np.stack([on_steps(seed, steps) for seed in seeds])
    smooth = np.stack([on_steps(seed, steps, ema(seed.steps, seed.values, SMOOTHING)) for seed in seeds])
    covered = np.isfinite(raw).all(axis=0)
    centre = np.where(covered, raw.mean(axis=0), np.nan)
    residual = _rolling_mean(((raw - smooth) ** 2).mean(axis=0)) / NOISE_IN_RESIDUAL
    if len(seeds) > 1:
        between = _rolling_mean(raw.var(axis=0, ddof=1)) * (1 + 1 / len(seeds))
        noise, basis = np.sqrt(np.maximum(between, residual)), f"seed to seed ({len(seeds)} seeds)"
    else:
        noise, basis = np.sqrt(2 * residual), "residual of the one reference around its smoothed curve"
    low, high = np.where(covered, smooth.min(axis=0), np.nan), np.where(covered, smooth.max(axis=0), np.nan)
    return Reference(steps=steps, centre=centre, low=low, high=high, noise=noise, seeds=len(seeds), basis=basis)


def _rolling_mean(values: Floats) -> Floats:
    """Mean of the finite values within `NOISE_WINDOW` rows on either side; NaN where there is none."""
    window = np.ones(2 * NOISE_WINDOW + 1)
    finite = np.isfinite(values)
    total = np.convolve(np.where(finite, values, 0.0), window)[NOISE_WINDOW : NOISE_WINDOW + values.size]
    count = np.convolve(finite.astype(float), window)[NOISE_WINDOW : NOISE_WINDOW + values.size]
    mean: Floats = np.divide(total, count, out=np.full(values.shape, np.nan), where=count > 0)
    return mean
