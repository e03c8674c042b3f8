"""The log ratios of one step's tokens, sequence by sequence, and which of the three ratios a log can give."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ingest.tokens import TokenLog
from monitor.diagnosis._step_tokens import tables
from monitor.metrics.columns import Columns, by_step
from monitor.metrics.terms import Level, Ratio
from monitor.metrics.weights import Weights

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
READ = frozenset(
    {
        *("step", "sample_id", "loss_mask", "advantage", "rollout_version", "trainer_version", "old_version"),
        *("rollout_logprob", "same_weights_logprob", "old_logprob", "current_logprob"),
    },
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Units:
    """What one level weighs: tokens or sequences (n,)."""

    x: Floats  # log ratio, nats, finite
    advantage: Floats | None  # None where it was not recorded; NaN where a unit has none

    @cached_property
    def rho(self) -> Floats:
        """exp(x); inf where it leaves float64."""
        with np.errstate(over="ignore"):
            return np.exp(self.x)

    @cached_property
    def largest_advantage(self) -> float:
        """Largest |A|; NaN where there is none."""
        known = np.zeros(0) if self.advantage is None else self.advantage[np.isfinite(self.advantage)]
        return float(np.abs(known).max()) if len(known) else np.nan

    @cached_property
    def weights(self) -> Weights:
        """Moments of exp(x), as the metric frame has them."""
        return Weights.of_logs(self.x)


@dataclass(frozen=True, kw_only=True, eq=False)
class StepRatios:
    """The counted tokens (T,) of one step, those of a sequence beside each other."""

    step: int
    x: Floats  # (T,) log ratio, nats
    starts: Ints  # (S,) first token of each sequence
    advantage: Floats | None  # (T,)
    version_lag: Ints  # (T,) or length 0: trainer_version - rollout_version
    left_out: int  # masked-in tokens without a finite log-probability

    @cached_property
    def lengths(self) -> Ints:
        """Counted tokens of each sequence (S,)."""
        return np.diff(np.append(self.starts, len(self.x)))

    @cached_property
    def units(self) -> dict[Level, Units]:
        """The weights' logarithms at each level; a sequence's advantage is the mean over its tokens."""
        total, advantage = self._sums(self.x), None
        if self.advantage is not None:
            known = np.isfinite(self.advantage)
            with np.errstate(invalid="ignore"):
                advantage = self._sums(np.where(known, self.advantage, 0.0)) / self._sums(known.astype(float))
        return {
            Level.TOKEN: Units(x=self.x, advantage=self.advantage),
            Level.SEQUENCE: Units(x=total, advantage=advantage),
            Level.SEQUENCE_MEAN: Units(x=total / self.lengths, advantage=advantage),
        }

    def _sums(self, values: Floats) -> Floats:
        return np.add.reduceat(values, self.starts) if len(self.starts) else np.zeros(0)


@dataclass(frozen=True, kw_only=True, eq=False)
class StepSides:
    """The columns of one step, from which each ratio can be taken."""

    step: int
    columns: Columns

    def gives(self, ratio: Ratio) -> bool:
        """Whether both sides of a ratio are there, the generator's taken for what it is only where that is certain."""
        generator, current = len(self.columns.generator), len(self.columns.current)
        first, second = {
            Ratio.TOTAL: (len(self.columns.rollout), current),
            Ratio.LAG: (generator, current),
            Ratio.DISCREPANCY: (len(self.columns.rollout), generator),
        }[ratio]
        return bool(first and second) and (ratio is Ratio.TOTAL or not self.columns.stands_in or synchronous(self.columns))

    def ratios(self, ratio: Ratio) -> StepRatios:
        """The log ratios of the counted tokens."""
        return _of(self.step, self.columns, ratio)


def sides(log: TokenLog) -> Iterator[StepSides]:
    """Every step of the log, each once, in the order in which the log has finished with them."""
    for number, table in tables(log, READ):
        ((_, columns),) = by_step(table)
        yield StepSides(step=number, columns=columns)


def synchronous(columns: Columns) -> bool:
    """Whether `old_logprob` was computed under the very weights that sampled each token (definitions, section 2)."""
    counted = columns.mask.astype(bool)
    if not len(columns.rollout_version):
        return False
    rollout = columns.rollout_version[counted]
    if len(columns.old_version):
        return bool(np.array_equal(rollout, columns.old_version[counted]))
    if not len(columns.trainer_version):
        return False
    # Without old_version, old_logprob is that of the step's first trainer_version: one version must have sampled everything.
    return not len(rollout) or bool(rollout.min() == rollout.max() == columns.trainer_version[counted].min())


def _of(step: int, columns: Columns, ratio: Ratio) -> StepRatios:
    masked_in = columns.mask.astype(bool)
    kept = masked_in.copy()
    for side in (columns.rollout, columns.generator, columns.current):  # as the metric frame counts: finite on every recorded side
        if len(side):
            kept &= np.isfinite(side)
    rows = np.flatnonzero(kept)
    sample = columns.sample_id[rows]
    if np.any(sample[1:] < sample[:-1]):
        order = np.argsort(sample, kind="stable")
        rows, sample = rows[order], sample[order]
    upper, lower = {
        Ratio.TOTAL: (columns.current, columns.rollout),
        Ratio.LAG: (columns.current, columns.generator),
        Ratio.DISCREPANCY: (columns.generator, columns.rollout),
    }[ratio]
    versions = len(columns.rollout_version) and len(columns.trainer_version)
    return StepRatios(
        step=step,
        x=upper[rows].astype(np.float64) - lower[rows].astype(np.float64),
        starts=np.flatnonzero(np.r_[True, sample[1:] != sample[:-1]]) if len(sample) else np.zeros(0, np.int64),
        advantage=columns.advantage[rows].astype(np.float64) if len(columns.advantage) else None,
        version_lag=(columns.trainer_version[rows] - columns.rollout_version[rows]) if versions else np.zeros(0, np.int64),
        left_out=int(masked_in.sum() - len(rows)),
    )
