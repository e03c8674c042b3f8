"""Partial sums of the steps of a token table: one compiled pass over the Arrow buffers, or the numpy twin where numba is missing."""

from __future__ import annotations

import importlib
import logging
from functools import cache
from types import ModuleType

import numpy as np
import pyarrow as pa

from monitor.metrics import kernel_numpy
from monitor.metrics.bounds import ClipBounds
from monitor.metrics.columns import Columns, by_step
from monitor.metrics.partial import Sequences, StepPartial, collapse

log = logging.getLogger(__name__)


def partials(table: pa.Table, bounds: ClipBounds) -> dict[int, StepPartial]:
    """Partial sums of every step in the table; the same numbers as `kernel_numpy.partials`, to rounding.

    Args:
        table: canonical token columns, a row per token, in any order.
        bounds: where a ratio counts as clipped.
    """
    loops = compiled()
    if loops is None:
        return kernel_numpy.partials(table, bounds)
    return {step: _step(loops, step, columns, bounds) for step, columns in by_step(table)}


@cache
def compiled() -> ModuleType | None:
    """The compiled loops; None, with one note, where they cannot be had."""
    try:
        return importlib.import_module("monitor.metrics.loops")
    except (ImportError, RuntimeError) as error:  # RuntimeError: numba finds no folder to cache its code in
        log.warning("numba is not usable (%s): metrics are computed in plain numpy, with the same results, several times slower", error)
        return None


def _step(loops: ModuleType, step: int, columns: Columns, bounds: ClipBounds) -> StepPartial:
    partial = StepPartial.empty(step)
    kernel_numpy.count_rows(partial, columns)
    starts = np.append(columns.starts, len(columns.step))
    whole, real = np.zeros((7, len(starts) - 1), np.int64), np.zeros((4, len(starts) - 1))
    spans = np.stack([partial.ratio_lowest, partial.ratio_highest], axis=1)
    arrays = (partial.counts, partial.ratio_counts, partial.ratio_sums, spans, partial.far, partial.histograms, whole, real)
    tokens = (columns.mask, columns.rollout, columns.generator, columns.current, columns.advantage, columns.reward)
    loops.scan(starts, *tokens, columns.rollout_version, columns.position, *bounds.token, *arrays)
    partial.ratio_lowest[:], partial.ratio_highest[:] = spans.T
    loops.add_entropy(columns.mask, columns.entropy, partial.counts, partial.sums)
    versions = (columns.rollout_version, columns.trainer_version, columns.old_version)
    loops.add_versions(columns.mask, *versions, partial.counts, partial.lowest, partial.highest, partial.lag_bins)
    return StepPartial(**{**vars(partial), "sequences": _sequences(columns.sample_id[starts[:-1]], whole, real)})


def _sequences(sample_id: np.ndarray, whole: np.ndarray, real: np.ndarray) -> Sequences:
    """Rows of the table from the columns the pass filled; a sequence without a masked-in token is left out."""
    seen = whole[0] > 0
    names = ("length", "finite", "reward_n", "version_lowest", "version_highest", "position_lowest", "position_highest")
    rows: Sequences = {"sample_id": sample_id[seen]}
    rows |= {name: column[seen] for name, column in zip(names, whole, strict=True)}
    rows |= {name: column[seen] for name, column in zip(("total", "discrepancy", "lag", "reward"), real, strict=True)}
    return collapse(rows)
