"""Does every token carry the same gap?"""

from __future__ import annotations

import math

import numpy as np

from monitor.diagnosis._mean_ratio import FRESH, SUMS, Floats
from monitor.diagnosis.case import Case
from monitor.diagnosis.portrait import StepPortrait

SPREAD = 0.15  # standard deviation over |mean|; field report A57: 0.02, the lab with bfloat16 noise: 0.06, truncation: 0.25 and more
BELOW = 0.05  # the same for a gap below 0, where a top-p cut of broad distributions comes close: 0.10 for top-p 0.9 at 2.4 nats of entropy
SMALLEST = 5e-4  # nats; a systematic part of the noise stays below it
FEWEST = 20  # tokens; two or three equal ones prove nothing


def is_constant(whole: StepPortrait) -> bool:
    """Whether the gap of these tokens has a mean and, beside it, hardly any spread."""
    if whole.n < FEWEST or not math.isfinite(whole.mean):
        return False
    return level(whole.mean, whole.sd)


def level(mean: float, spread: float) -> bool:
    """Whether a mean is there and large beside its spread, both in nats."""
    return abs(mean) > SMALLEST and spread < (SPREAD if mean > 0 else BELOW) * abs(mean)


def constant_in_log(case: Case) -> tuple[float, float] | None:
    """Middle and spread of the gap inside the first steps, nats; None where the log has neither extremes nor second moments.

    Ratios that are all one and the same number sit on a cap, and are not a gap of that size.
    """
    for ratio in ("discrepancy", "total"):
        low, high = case.series(f"ratio.{ratio}.min").values[:FRESH], case.series(f"ratio.{ratio}.max").values[:FRESH]
        if len(low) and len(low) == len(high):
            good = (low > 0) & (high > low)
            return _middle(np.log(low[good]), np.log(high[good])) if good.any() else None
        low, high = case.series(f"log_ratio.{ratio}.abs_min").values[:FRESH], case.series(f"log_ratio.{ratio}.abs_max").values[:FRESH]
        if len(low) and len(low) == len(high):
            return _middle(low[high > low], high[high > low]) if (high > low).any() else None
    return _from_sums(case)


def _from_sums(case: Case) -> tuple[float, float] | None:
    """The same from sum and sum of squares of the ratio: a constant has no spread about its mean."""
    total, squares, tokens = (case.series(name).values[:FRESH] for name in SUMS)
    if not len(total) or not len(total) == len(squares) == len(tokens):
        return None
    mean, second = float(total.sum() / tokens.sum()), float(squares.sum() / tokens.sum())
    if not mean > 0:
        return None
    return math.log(mean), math.sqrt(max(second / mean**2 - 1, 0.0))


def _middle(low: Floats, high: Floats) -> tuple[float, float]:
    return float(np.median((low + high) / 2)), float(np.median((high - low) / 2))
