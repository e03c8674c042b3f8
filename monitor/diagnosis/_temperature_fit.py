"""Do the two sides differ by a temperature, by which one, and how much of the gap does that explain?

Between the samples of one prefix the trainer's log-probabilities are the engine's times T_engine / T_trainer, exactly (see `_prefixes`).
Without ids there are no such samples; then only the slope over all tokens is left, which the normalisers of many prefixes bend towards 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from monitor.diagnosis._mean_ratio import first_steps
from monitor.diagnosis._profiles import AA, AB, BB, PAIRS, SHIFTS, SURPRISE_EDGES, A, B, N, mean
from monitor.diagnosis.case import Case
from monitor.diagnosis.outcome import Curve
from monitor.diagnosis.portrait import Portrait, StepPortrait

FEWEST = 20  # degrees of freedom a fit needs
FEWEST_TOKENS = 100  # without ids
_CLUSTERS = 5  # steps whose scatter gives an error
_BETTER = 0.05  # share of the gap by which the first steps must be explained better than all of them
_AGREES = 0.03  # difference from a temperature of the settings that is none


@dataclass(frozen=True, kw_only=True)
class Fit:
    """The trainer's log-probabilities as a multiple of the engine's."""

    slope: float  # T_engine / T_trainer where the prefix is the same
    error: float
    explained: float  # share of the gap (inside its prefix) that a slope explains
    pairs: float  # degrees of freedom
    same_prefix: bool  # False: over all tokens, the slope is not a temperature

    def differs(self, effect: float, errors: float, share: float) -> bool:
        """Whether the slope is away from 1 by an effect, beyond its error, and explains this share of the gap; none is negative."""
        away = abs(self.slope - 1)
        return self.slope > 0 and away > max(effect, errors * self.error) and self.explained > share

    def agrees(self, temperature: float | None, fitted: float, error: float) -> bool:
        """Whether a fitted temperature is the one of the settings."""
        return temperature is not None and abs(temperature - fitted) < max(_AGREES, 3 * error)


def fit(whole: StepPortrait, parts: Sequence[StepPortrait] = ()) -> Fit | None:
    """The same-prefix regression; None with too few samples of one prefix.

    Args:
        whole: tokens to fit.
        parts: the steps it is made of, whose scatter is part of the error.
    """
    sums = whole.prefix
    if sums.pairs < FEWEST or sums.engine <= 0 or sums.within <= 0:
        return None
    slope = sums.both / sums.engine
    rest = max(sums.trainer - slope * sums.both, 0.0)
    error = math.sqrt(rest / (sums.pairs - 1) / sums.engine)
    if len(parts) >= _CLUSTERS:
        residual = sum((one.prefix.both - slope * one.prefix.engine) ** 2 for one in parts)
        error = max(error, math.sqrt(residual * len(parts) / (len(parts) - 1)) / sums.engine)
    return Fit(slope=slope, error=error, explained=1 - rest / sums.within, pairs=sums.pairs, same_prefix=True)


def fit_all(whole: StepPortrait) -> Fit | None:
    """The slope over all tokens; None with too few of them, or where a side does not vary."""
    sums = whole.shifted[SHIFTS.index(0)]
    n = sums[PAIRS]
    if n < FEWEST_TOKENS:
        return None
    engine, both, trainer = (float(sums[k] - sums[i] * sums[j] / n) for k, i, j in ((AA, A, A), (AB, A, B), (BB, B, B)))
    gap = trainer - 2 * both + engine
    if engine <= 0 or gap <= 0:
        return None
    rest = max(trainer - both**2 / engine, 0.0)
    return Fit(
        slope=both / engine, error=math.sqrt(rest / (n - 2) / engine), explained=1 - rest / gap, pairs=float(n - 2), same_prefix=False
    )


def fitted(portrait: Portrait) -> Fit | None:
    """The fit where neither lag nor later faults blur it: of all steps, or the first where it explains these better; else of all tokens."""
    first = first_steps(portrait)
    early = fit(first)
    if not portrait.gap.is_discrepancy:
        return early or fit_all(first)
    whole = fit(portrait.whole, tuple(portrait.steps.values()))
    if early and whole and early.explained > whole.explained + _BETTER:
        return early
    return whole or fit_all(portrait.whole)


def sampling_temperature(case: Case) -> float | None:
    """The temperature of the settings; None where the log does not say, or says 0 (greedy)."""
    told = case.number("sampling.temperature")
    return told or None


def curve(whole: StepPortrait) -> Curve:
    """The mean gap by improbability: a temperature crosses 0, truncation lies below it throughout, a constant is level."""
    some = whole.surprise[:, N] > 0
    middle = (SURPRISE_EDGES + np.append(SURPRISE_EDGES[1:], 2 * SURPRISE_EDGES[-1])) / 2
    return Curve(
        x=tuple(middle[some].tolist()),
        y=tuple(mean(whole.surprise)[some].tolist()),
        x_title="minus the engine's log-probability, nats",
        y_title="mean gap, nats",
        expected=(0.0,) * int(some.sum()),
    )
