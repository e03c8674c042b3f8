"""What a replay answers: each correction over the steps, the steps that would have resynchronised, and a recommendation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ingest.run import Run
from monitor.corrections._replay_interval import THRESHOLD, Interval
from monitor.corrections._replay_own import Own
from monitor.corrections._replay_recipes import Recipe
from monitor.corrections._replay_weights import Left
from monitor.metrics.terms import Level, Ratio

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
MEASURES = (
    "ess",
    "tokens",
    "sequences",
    "heaviest_sequence",
    "second_moment",
    "spread",
    "variance_factor",
    "kept_mass",
    "distance",
    "bias_bound",
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """One correction over the steps of the run."""

    recipe: Recipe
    ratio: Ratio
    measures: Mapping[str, Floats] = field(default_factory=dict)  # fields of `Left` over the run's steps; empty where it cannot be told
    cannot_tell: str = ""
    record: tuple[str, ...] = ()

    @classmethod
    def of(cls, recipe: Recipe, ratio: Ratio, lefts: Sequence[Left]) -> Self:
        """Put the steps together; what a step does not have is NaN."""
        rows = [[np.nan if (value := getattr(one, name)) is None else value for name in MEASURES] for one in lefts]
        table = np.array(rows, np.float64).reshape(len(rows), len(MEASURES))
        return cls(recipe=recipe, ratio=ratio, measures={name: table[:, place].copy() for place, name in enumerate(MEASURES)})

    def values(self, measure: str) -> Floats:
        """One field of `Left` at each step; NaN where it has none, empty where the correction cannot be told."""
        return self.measures.get(measure, np.zeros(0))

    def lowest_ess(self) -> float:
        """Over the steps; NaN where no step has any."""
        return _over(np.min, self.values("ess"))

    def mean(self, measure: str) -> float:
        """Mean over the steps that have it; NaN where none has."""
        return _over(np.mean, self.values(measure))

    def largest(self, measure: str) -> float:
        """Largest over the steps that have it; NaN where none has."""
        return _over(np.max, self.values(measure))

    def under(self) -> int:
        """At how many steps the ESS that is left lies under 1/2."""
        return int((self.values("ess") < THRESHOLD).sum())


@dataclass(frozen=True, kw_only=True, eq=False)
class Replay:
    """Everything that was replayed of one run. Arrays are (steps,), by rising step."""

    run: Run
    ratio: Ratio | None  # which ratio everything is replayed on; None where the log has none
    says: str  # that in words, or why nothing can be told
    steps: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    tokens: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    sequences: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    left_out: int = 0  # masked-in tokens without a finite log-probability
    untold: tuple[int, ...] = ()  # steps whose columns do not give the ratio
    ess: Mapping[Level, Floats] = field(default_factory=dict)  # of the uncorrected ratio
    results: tuple[Result, ...] = ()
    own: tuple[Own, ...] = ()
    own_results: tuple[Result | None, ...] = ()  # for each of `own`; None where it cannot be replayed
    intervals: tuple[Interval, ...] = ()
    record: tuple[str, ...] = ()  # columns that would tell more

    def resync(self, level: Level) -> tuple[int, ...]:
        """Steps at which the strict trigger would have thrown the batch away and resynchronised: ESS under 1/2."""
        return tuple(int(step) for step in self.steps[self.ess[level] < THRESHOLD]) if level in self.ess else ()

    def result(self, recipe: Recipe) -> Result | None:
        """The result of one correction; None where it was not tried."""
        return next((one for one in self.results if one.recipe == recipe), None)

    def interval(self, level: Level) -> Interval | None:
        """The sync interval at one level."""
        return next((one for one in self.intervals if one.level is level), None)


def _over(reduce: Callable[[Floats], np.float64], values: Floats) -> float:
    known = values[~np.isnan(values)]
    return float(reduce(known)) if known.size else float("nan")
