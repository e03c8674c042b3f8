"""What of two logs can be compared: the same metric, of the same origin, at steps that both have; and what is not a number at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from monitor.compare.reference import on_steps
from monitor.metrics.series import Series, origins, series

FEWEST = 5  # steps in common below which neither a divergence nor a distance can be told: the memory of the smoothing
_SIDES = {"nonfinite.engine": "the engine's log-probabilities", "nonfinite.trainer": "the trainer's log-probabilities"}


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One metric of the candidate and of each seed of the reference."""

    own: Series
    seeds: tuple[Series, ...]


@dataclass(frozen=True, kw_only=True)
class NotFinite:
    """A metric, or a side's log-probabilities, that is no number at some steps."""

    what: str
    steps: int
    of: int
    first_step: int

    def __str__(self) -> str:
        return f"{self.what} not finite at {self.steps} of {self.of} steps, first at step {self.first_step}"


def pair(candidate: pa.Table, references: dict[str, pa.Table], metric: str) -> Pair | str:
    """The metric from the most trusted origin that all logs have; or why there is no pair.

    A logged aggregate is never laid beside one computed from tokens: a framework's mean over sequences is not our mean over tokens.
    """
    own = origins(candidate, metric)
    theirs = [origins(frame, metric) for frame in references.values()]
    if not own or not all(theirs):
        return "not in the candidate's log" if not own else "not in every reference's log"
    shared = next((origin for origin in own if all(origin in each for each in theirs)), None)
    if shared is None:
        return f"the candidate has it from {' and '.join(own)}, the reference from {' and '.join(theirs[0])}"
    found = series(candidate, metric, origin=shared)
    seeds = tuple(series(frame, metric, origin=shared) for frame in references.values())
    return _too_little(found, seeds) or Pair(own=found, seeds=seeds)


def _too_little(own: Series, seeds: Sequence[Series]) -> str:
    finite = np.isfinite(own.values)
    if not finite.any():
        return f"none of the candidate's {own.steps.size} values is a number"
    common = int(np.isfinite(np.stack([on_steps(seed, own.steps[finite]) for seed in seeds])).all(axis=0).sum())
    if common >= FEWEST:
        return ""
    return f"too few steps in common ({common}, at least {FEWEST} are needed)" if common else "no step in common"


def not_finite(candidate: pa.Table, metrics: dict[str, str]) -> tuple[NotFinite, ...]:
    """What of the candidate is no number: a side's log-probabilities, else a compared metric under its name in a sentence."""
    sides = [_counted(series(candidate, metric), what) for metric, what in _SIDES.items()]
    found = [each for each in sides if each]
    return tuple(found or (each for metric, what in metrics.items() if (each := _bad(series(candidate, metric), what))))


def _counted(counts: Series, what: str) -> NotFinite | None:
    """Steps at which a count of non-finite tokens is above 0."""
    bad = counts.values > 0
    return _at(counts, bad, f"{what} are") if bad.any() else None


def _bad(one: Series, what: str) -> NotFinite | None:
    """Steps at which a value is NaN or infinite; for one from tokens an empty mask is none."""
    bad = ~np.isfinite(one.values) & (one.n != 0)
    return _at(one, bad, f"{what} is") if bad.any() else None


def _at(one: Series, bad: np.ndarray[tuple[int], np.dtype[np.bool_]], what: str) -> NotFinite:
    return NotFinite(what=what, steps=int(bad.sum()), of=int(one.steps.size), first_step=int(one.steps[bad][0]))
