"""What a correction leaves of one step's weights: effective sample size, what it touches, its variance, and how far it can be off."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from monitor.corrections._replay_recipes import Action, Recipe
from monitor.corrections._replay_tokens import StepRatios, Units
from monitor.metrics.terms import Level

Floats = NDArray[np.float64]
_SAFE = 300.0  # nats; from here on the square of a weight comes near the end of float64
NAN = float("nan")


@dataclass(frozen=True, kw_only=True)
class Left:
    """One correction on one step; g are its weights, rho the uncorrected ones, over the n units of its level."""

    ess: float = NAN  # (sum g)^2 / (n sum g^2); dropped units count in n. 0 where nothing is left; NaN where n = 0
    tokens: float = NAN  # share of the tokens whose weight was truncated, or that were dropped
    sequences: float = NAN  # share of the sequences with such a token
    heaviest_sequence: float = NAN  # share of all weight on one sequence
    second_moment: float = NAN  # mean of g^2; inf where it leaves float64
    spread: float = NAN  # variance of g over n: the variance of the mean weight
    variance_factor: float | None = None  # sum (A g)^2 / sum A^2; None without advantages
    kept_mass: float = NAN  # sum min(g, rho) / sum rho
    distance: float | None = None  # mean |rho - g|, which bounds the bias per unit of |A grad|; None where rho is no importance ratio
    bias_bound: float | None = None  # distance x max |A|; None without advantages


def left(recipe: Recipe, step: StepRatios) -> Left | None:
    """Replay one correction on one step; None where it needs advantages and none were recorded.

    ESS, shares and mass do not change with a common scale of the weights. The bias bound is |E[(rho - g) A grad]| <=
    E|rho - g| max |A grad|, for truncation at C the E[(rho - C)+] of the definitions (section 10); it is of the correction's own level,
    so that a bound at token level says nothing of the prefixes. Oracle: plain loops in the tests.
    """
    units = step.units[recipe.level]
    if recipe.action is Action.CLIP and units.advantage is None:
        return None
    if not len(units.x):
        return Left()
    touched = _touched(recipe, units)
    g = _weights(recipe, units, touched)
    scaled = g
    if recipe.action is Action.CLIP and (top := float(units.x.max())) > _SAFE:
        scaled = np.where(touched, 0.0, np.exp(units.x - top))
    first, second = float(scaled.sum()), float((scaled * scaled).sum())
    with np.errstate(over="ignore", invalid="ignore"):
        moment = float((g * g).mean())
        spread = max(moment - float(g.mean()) ** 2, 0.0) / len(g) if np.isfinite(moment) else np.inf
    tokens, sequences = _shares(recipe, step, touched)
    distance, bias_bound = _bias(recipe, units, g)
    return Left(
        ess=first * first / (len(g) * second) if second > 0 else 0.0,
        tokens=tokens,
        sequences=sequences,
        heaviest_sequence=_heaviest(recipe, step, scaled, first),
        second_moment=moment,
        spread=spread,
        variance_factor=_variance_factor(units, g),
        kept_mass=_kept_mass(units, g),
        distance=distance,
        bias_bound=bias_bound,
    )


def _touched(recipe: Recipe, units: Units) -> NDArray[np.bool_]:
    if recipe.action is Action.KEEP:
        return np.zeros(len(units.x), bool)
    low, high = recipe.logs
    under, over = units.x < low, units.x > high
    if recipe.action is Action.CLIP:
        assert units.advantage is not None  # noqa: S101 - asked before
        return ((units.advantage > 0) & over) | ((units.advantage < 0) & under)
    return under | over


def _weights(recipe: Recipe, units: Units, touched: NDArray[np.bool_]) -> Floats:
    if recipe.action is Action.TRUNCATE:
        return np.clip(units.rho, recipe.low, recipe.high)
    if recipe.action in (Action.KEEP, Action.REJECT):
        return np.where(touched, 0.0, 1.0)
    return np.where(touched, 0.0, units.rho)


def _shares(recipe: Recipe, step: StepRatios, touched: NDArray[np.bool_]) -> tuple[float, float]:
    """Of tokens and of sequences."""
    if recipe.level is Level.TOKEN:
        return float(touched.mean()), float(np.logical_or.reduceat(touched, step.starts).mean())
    return float(step.lengths[touched].sum() / len(step.x)), float(touched.mean())


def _heaviest(recipe: Recipe, step: StepRatios, g: Floats, total: float) -> float:
    """The gradient of a sequence's every token carries its weight, so a long sequence weighs more at each level."""
    per_sequence = np.add.reduceat(g, step.starts) if recipe.level is Level.TOKEN else g * step.lengths
    total = total if recipe.level is Level.TOKEN else float(per_sequence.sum())
    return float(per_sequence.max() / total) if total > 0 else NAN


def _variance_factor(units: Units, g: Floats) -> float | None:
    if units.advantage is None:
        return None
    known = np.isfinite(units.advantage) & (units.advantage != 0)
    if not known.any():
        return NAN
    squared = (units.advantage[known] / units.largest_advantage) ** 2  # scaled, because the square of a tiny one is 0
    with np.errstate(over="ignore"):
        return float((squared * g[known] ** 2).sum() / squared.sum())


def _kept_mass(units: Units, g: Floats) -> float:
    top = float(units.x.max())
    if top <= _SAFE:
        return float(np.minimum(g, units.rho).sum() / units.rho.sum())
    scaled = np.exp(units.x - top)
    return float(np.minimum(g * np.exp(-top) if np.isfinite(g).all() else scaled, scaled).sum() / scaled.sum())


def _bias(recipe: Recipe, units: Units, g: Floats) -> tuple[float | None, float | None]:
    """Distance and bound; a sequence mean's rho is no importance ratio."""
    if recipe.level is Level.SEQUENCE_MEAN:
        return None, None
    with np.errstate(invalid="ignore", over="ignore"):
        distance = float(np.where(g == units.rho, 0.0, np.abs(units.rho - g)).mean())
    largest = units.largest_advantage
    return distance, distance * largest if np.isfinite(largest) else None
