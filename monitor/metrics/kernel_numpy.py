"""Partial sums in plain numpy float64: the oracle of the compiled pass, and what runs where numba cannot be imported."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from monitor.metrics import histogram
from monitor.metrics.bounds import ClipBounds
from monitor.metrics.columns import Columns, by_step
from monitor.metrics.k3 import k3
from monitor.metrics.partial import (
    HUGE,
    LAG_BINS,
    NEAR,
    POSITIVE,
    Count,
    Far,
    RatioCount,
    RatioSum,
    Sequences,
    StepPartial,
    Sum,
    Version,
    collapse,
)
from monitor.metrics.terms import RATIOS, Ratio

Floats = NDArray[np.float64]


def partials(table: pa.Table, bounds: ClipBounds) -> dict[int, StepPartial]:
    """Partial sums of every step in the table.

    Args:
        table: canonical token columns, a row per token, in any order.
        bounds: where a ratio counts as clipped.

    Returns:
        Step -> partial; a step whose tokens are all masked out is there too, with zero counts.
    """
    return {step: _step(step, columns, bounds) for step, columns in by_step(table)}


def _step(step: int, columns: Columns, bounds: ClipBounds) -> StepPartial:
    partial = StepPartial.empty(step)
    mask = columns.mask.astype(bool)
    count_rows(partial, columns)
    partial.counts[Count.MASKED_IN] = mask.sum()
    finite = _finite(partial, columns, mask)
    ratios = _log_ratios(columns, finite)
    advantage = columns.advantage[finite].astype(np.float64) if len(columns.advantage) else None
    for ratio, x_T in ratios.items():
        _add_ratio(partial, ratio, x_T, advantage, bounds)
    _add_entropy(partial, columns, mask)
    _add_versions(partial, columns, mask)
    sequences = _sequences(columns, mask, finite, ratios)
    return StepPartial(**{**vars(partial), "sequences": sequences})


def count_rows(partial: StepPartial, columns: Columns) -> None:
    """Count the rows in which each column exists; shared by both kernels."""
    generator = Count.OLD_ROWS if columns.stands_in else Count.SAME_WEIGHTS_ROWS
    partial.counts[Count.ROWS] = len(columns.step)
    partial.counts[Count.ROLLOUT_ROWS] = len(columns.rollout)
    partial.counts[generator] = len(columns.generator)
    partial.counts[Count.CURRENT_ROWS] = len(columns.current)
    partial.counts[Count.ADVANTAGE_ROWS] = len(columns.advantage)
    partial.counts[Count.REWARD_ROWS] = len(columns.reward)
    partial.counts[Count.ENTROPY_ROWS] = len(columns.entropy)
    partial.counts[Count.ROLLOUT_VERSION_ROWS] = len(columns.rollout_version)
    partial.counts[Count.LAG_ROWS] = min(len(columns.rollout_version), len(columns.trainer_version))
    partial.counts[Count.OLD_VERSION_ROWS] = len(columns.old_version)
    partial.counts[Count.POSITION_ROWS] = len(columns.position)
    partial.counts[Count.REPEATED_ROWS] = columns.repeated()


def _finite(partial: StepPartial, columns: Columns, mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Masked-in tokens whose recorded log-probabilities are all finite; the others are counted by side."""
    engine = np.isfinite(columns.rollout)
    trainer, positive = np.ones(len(mask), bool), np.zeros(len(mask), bool)
    for column in (columns.generator, columns.current):
        if len(column):
            trainer &= np.isfinite(column)
            positive |= _positive(column)
    partial.counts[Count.NONFINITE_ENGINE] = (mask & ~engine).sum()
    partial.counts[Count.NONFINITE_TRAINER] = (mask & ~trainer).sum()
    partial.counts[Count.POSITIVE_ENGINE] = (mask & _positive(columns.rollout)).sum()
    partial.counts[Count.POSITIVE_TRAINER] = (mask & positive).sum()
    return mask & engine & trainer


def _positive(column: NDArray[np.float32]) -> NDArray[np.bool_]:
    return np.isfinite(column) & (column.astype(np.float64) > POSITIVE)


def _log_ratios(columns: Columns, finite: NDArray[np.bool_]) -> dict[Ratio, Floats]:
    """Log ratios of the finite tokens; subtracted in float64, where the difference of two float32 is exact."""
    rollout, generator, current = (
        column[finite].astype(np.float64) if len(column) else None for column in (columns.rollout, columns.generator, columns.current)
    )
    ratios = {}
    if rollout is not None and current is not None:
        ratios[Ratio.TOTAL] = current - rollout
    if rollout is not None and generator is not None:
        ratios[Ratio.DISCREPANCY] = generator - rollout
    if current is not None and generator is not None:
        ratios[Ratio.LAG] = current - generator
    return ratios


def _add_ratio(partial: StepPartial, ratio: Ratio, x_T: Floats, advantage_T: Floats | None, bounds: ClipBounds) -> None:
    low, high = bounds.token
    counts, place = partial.ratio_counts[ratio.row], ratio.row
    under, over = x_T < low, x_T > high
    counts[RatioCount.N] = len(x_T)
    counts[RatioCount.FAR] = (np.abs(x_T) > NEAR).sum()
    counts[RatioCount.LOW], counts[RatioCount.HIGH] = under.sum(), over.sum()
    if advantage_T is not None:
        counts[RatioCount.ADVANTAGE_N] = np.isfinite(advantage_T).sum()
        known = np.isfinite(advantage_T)
        counts[RatioCount.EFFECTIVE] = (known & (((advantage_T > 0) & over) | ((advantage_T < 0) & under))).sum()
    if len(x_T):
        partial.ratio_lowest[place], partial.ratio_highest[place] = x_T.min(), x_T.max()
        partial.ratio_sums[place] = _ratio_sums(x_T)
        partial.far[place] = _far(x_T)
        partial.histograms[place] = histogram.count(x_T)


def _ratio_sums(x_T: Floats) -> Floats:
    sums = np.zeros(len(RatioSum))
    near, middle = np.abs(x_T) <= NEAR, (np.abs(x_T) > NEAR) & (x_T <= HUGE)
    with np.errstate(over="ignore"):
        excess = k3(x_T)
        sums[RatioSum.X], sums[RatioSum.ABS] = x_T.sum(), np.abs(x_T).sum()
        sums[RatioSum.X2], sums[RatioSum.X4] = (x_T**2).sum(), (x_T**4).sum()
        sums[RatioSum.K3], sums[RatioSum.K3_SQ] = excess.sum(), (excess**2).sum()
    for part, first, second in ((near, RatioSum.NEAR_E, RatioSum.NEAR_E2), (middle, RatioSum.MID_E, RatioSum.MID_E2)):
        e_T = np.expm1(x_T[part])
        sums[first], sums[second] = e_T.sum(), (e_T**2).sum()
    return sums


def _far(x_T: Floats) -> Floats:
    far_T = x_T[np.abs(x_T) > NEAR]
    if not len(far_T):
        return np.array([-np.inf, 0.0, 0.0])
    triple = np.zeros(len(Far))
    triple[Far.MAX] = far_T.max()
    weights = np.exp(far_T - far_T.max())
    triple[Far.S1], triple[Far.S2] = weights.sum(), (weights**2).sum()
    return triple


def _add_entropy(partial: StepPartial, columns: Columns, mask: NDArray[np.bool_]) -> None:
    if len(columns.entropy):
        entropy_T = columns.entropy[mask].astype(np.float64)
        entropy_T = entropy_T[np.isfinite(entropy_T)]
        partial.counts[Count.ENTROPY_N] = len(entropy_T)
        partial.sums[Sum.ENTROPY], partial.sums[Sum.ENTROPY_SQ] = entropy_T.sum(), (entropy_T**2).sum()


def _add_versions(partial: StepPartial, columns: Columns, mask: NDArray[np.bool_]) -> None:
    rollout, trainer, old = (
        column[mask] if len(column) else None for column in (columns.rollout_version, columns.trainer_version, columns.old_version)
    )
    if rollout is not None and old is not None:
        partial.counts[Count.NOT_OLD_VERSION] = (rollout != old).sum()
    seen = {Version.ROLLOUT: rollout, Version.TRAINER: trainer}
    if rollout is not None and trainer is not None:
        lag_T = trainer - rollout
        seen[Version.LAG] = lag_T
        partial.counts[Count.LAG_SUM] = lag_T.sum()
        partial.lag_bins[:] = np.bincount(np.clip(lag_T + 1, 0, LAG_BINS - 1), minlength=LAG_BINS)
    for version, values in seen.items():
        if values is not None and len(values):
            partial.lowest[version], partial.highest[version] = values.min(), values.max()


def _sequences(columns: Columns, mask: NDArray[np.bool_], finite: NDArray[np.bool_], ratios: dict[Ratio, Floats]) -> Sequences:
    """One row per sequence with a masked-in token: every token is a row first, then rows of one `sample_id` are joined."""
    rows = _blank(columns.sample_id[mask])
    rows["length"][:] = 1
    rows["finite"][:] = finite[mask]
    for ratio in RATIOS:
        if ratio in ratios:
            rows[ratio][finite[mask]] = ratios[ratio]
    if len(columns.reward):
        reward_T = columns.reward[mask].astype(np.float64)
        rows["reward_n"][:] = np.isfinite(reward_T)
        rows["reward"][:] = np.where(np.isfinite(reward_T), reward_T, 0.0)
    if len(columns.rollout_version):
        rows["version_lowest"][:] = rows["version_highest"][:] = columns.rollout_version[mask]
    if len(columns.position):
        rows["position_lowest"][:] = rows["position_highest"][:] = columns.position[mask]
    return collapse(rows)


def _blank(sample_id: NDArray[np.int64]) -> Sequences:
    empty = StepPartial.empty(0)
    rows: Sequences = {name: np.zeros(len(sample_id), column.dtype) for name, column in empty.sequences.items()}
    rows["sample_id"][:] = sample_id
    rows["version_lowest"][:] = rows["position_lowest"][:] = np.iinfo(np.int64).max
    rows["version_highest"][:] = rows["position_highest"][:] = np.iinfo(np.int64).min
    return rows
