"""What a metric is: a row of the glossary with the function that finishes it from the partial sums of one step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from monitor.metrics import provenance as split
from monitor.metrics.bounds import ClipBounds
from monitor.metrics.partial import Count, StepPartial
from monitor.metrics.terms import RATIOS, Level, Provenance, Ratio
from monitor.metrics.weights import Weights

NEEDS: Mapping[Ratio, tuple[str, ...]] = {
    Ratio.TOTAL: ("rollout_logprob", "current_logprob"),
    Ratio.DISCREPANCY: ("rollout_logprob", "same_weights_logprob"),
    Ratio.LAG: ("same_weights_logprob", "current_logprob"),
}
"""Token columns of each log ratio: the first is subtracted from the second."""


@dataclass(frozen=True, kw_only=True)
class Value:
    """One finished number: NaN with n = 0 where the mask was empty; infinite where it really left float64."""

    value: float
    n: int  # observations that entered it
    standard_error: float | None = None
    caveat: str = ""


@dataclass(frozen=True, kw_only=True)
class StepView:
    """The partial sums of one step with what is needed to finish them; shared by all metrics of the step."""

    partial: StepPartial
    bounds: ClipBounds = field(default_factory=ClipBounds)
    void: str = ""  # why the mean-ratio test says nothing about this run; empty where it does

    @cached_property
    def provenance(self) -> Provenance:
        """How far this step's split may be trusted."""
        return split.provenance(self.partial)

    def shows(self, ratio: Ratio) -> bool:
        """Whether the columns of the step allow any statement about the ratio."""
        counts = self.partial.counts
        generator = counts[Count.SAME_WEIGHTS_ROWS] + counts[Count.OLD_ROWS] > 0
        current, rollout = counts[Count.CURRENT_ROWS] > 0, counts[Count.ROLLOUT_ROWS] > 0
        if ratio is Ratio.TOTAL:
            return bool(current and rollout)
        if ratio is Ratio.DISCREPANCY:
            return bool(generator and rollout) and self.provenance is not Provenance.NOT_SEPARABLE
        return bool(generator and current) and self.provenance in (Provenance.EXACT, Provenance.SYNCHRONOUS)

    def complete(self, *columns: Count) -> bool:
        """Whether every row of the step has the columns (parts of a step may differ)."""
        return all(self.partial.counts[column] == self.partial.counts[Count.ROWS] for column in columns)

    @cached_property
    def log_weights(self) -> dict[tuple[Ratio, Level], NDArray[np.float64]]:
        """Log weight of each sequence (S,), in nats; sequences without a finite token do not count."""
        table = self.partial.sequences
        seen = table["finite"] > 0
        sums = {ratio: table[ratio][seen] for ratio in RATIOS}
        means = {(ratio, Level.SEQUENCE_MEAN): sums[ratio] / table["finite"][seen] for ratio in RATIOS}
        return {(ratio, Level.SEQUENCE): sums[ratio] for ratio in RATIOS} | means

    @cached_property
    def weights(self) -> dict[tuple[Ratio, Level], Weights]:
        """Moments of the importance weights at each level."""
        tokens = {(ratio, Level.TOKEN): Weights.of_partial(self.partial, ratio) for ratio in RATIOS}
        return tokens | {key: Weights.of_logs(logs) for key, logs in self.log_weights.items()}


Compute = Callable[[StepView], Value | None]


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One row of the glossary. Its title and texts are shown on pages, so they are written for readers."""

    id: str  # <quantity>.<ratio>.<level or estimator>
    title: str
    unit: str
    formula: str
    low: float = -np.inf  # no true value lies outside [low, high]
    high: float = np.inf
    ratio: Ratio | None = None
    level: Level = Level.TOKEN
    direction: str  # what better looks like
    no_mismatch: float | None  # its value where engine and trainer agree; None where agreement does not fix it
    blind_to: str  # what it cannot see
    reference: str  # paper, repository, or section of the definitions
    needs: tuple[str, ...] = ()  # token columns
    compute: Compute | None = None  # None: only ever logged
