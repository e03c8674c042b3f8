"""The counted tokens of one step as arrays, sequence by sequence in order of position, and which gap between the two sides they show."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ingest.run import Run
from ingest.tokens import TokenLog, TokenPiece, ranges, read_row_group
from monitor.metrics.columns import view

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
READ = frozenset(
    {
        *("step", "sample_id", "group_id", "position", "token_id", "loss_mask", "entropy"),
        *("rollout_logprob", "same_weights_logprob", "old_logprob", "current_logprob"),
        *("rollout_version", "trainer_version", "old_version"),
    },
)


class Gap(StrEnum):
    """Which difference between trainer and engine the statistics of a portrait are of."""

    DISCREPANCY = "discrepancy"  # same weights on both sides, exactly
    SAME_VERSION = "total at version lag 0"  # tokens sampled under the very weights being updated: their total is their discrepancy
    UPPER_BOUND = "old against rollout"  # discrepancy and part of the lag
    TOTAL = "total"  # discrepancy and lag together

    @property
    def is_discrepancy(self) -> bool:
        """Whether the lag is out of it."""
        return self in (Gap.DISCREPANCY, Gap.SAME_VERSION)


@dataclass(frozen=True, kw_only=True, eq=False)
class StepTokens:
    """Tokens of one step (T,), masked in, sorted by sequence and position. Columns that were not recorded have length 0."""

    step: int
    sequence: Ints  # index of the token's sequence, from 0
    sample_id: Ints  # (S,)
    group_id: Ints  # (S,), or length 0
    starts: Ints  # (S,) first token of each sequence
    engine: Floats
    trainer: Floats  # the side the gap is measured from
    gap: Gap
    counted: NDArray[np.bool_]  # tokens that show the gap: finite on both sides, and at version lag 0 where the gap is SAME_VERSION
    current: Floats
    engine_raw: NDArray[np.float32]  # as stored
    trainer_raw: NDArray[np.float32]
    token_id: Ints
    rollout_version: Ints
    trainer_version: Ints
    entropy: Floats

    @cached_property
    def x(self) -> Floats:
        """The gap (T,), trainer minus engine, nats; 0 where not counted."""
        with np.errstate(invalid="ignore"):
            return np.where(self.counted, self.trainer - self.engine, 0.0)

    @cached_property
    def lengths(self) -> Ints:
        """Tokens of each sequence (S,)."""
        return np.diff(np.append(self.starts, len(self.engine)))

    @cached_property
    def place(self) -> Ints:
        """Place of each token in its sequence, from 0."""
        return np.arange(len(self.engine)) - self.starts[self.sequence]

    @cached_property
    def from_end(self) -> Ints:
        """How many tokens follow in the sequence."""
        return self.lengths[self.sequence] - 1 - self.place

    @cached_property
    def version_lag(self) -> Ints:
        """trainer_version - rollout_version (T,), or length 0."""
        if not (len(self.rollout_version) and len(self.trainer_version)):
            return np.zeros(0, np.int64)
        return self.trainer_version - self.rollout_version

    @cached_property
    def unswitched(self) -> NDArray[np.bool_]:
        """Tokens before any change of weights inside their sequence; all of them where versions were not recorded."""
        if not len(self.rollout_version):
            return np.ones(len(self.engine), bool)
        return np.asarray(self.rollout_version == self.rollout_version[self.starts][self.sequence])


def steps(run: Run) -> Iterator[StepTokens]:
    """Every step of the run's token log, each once; steps come in the order in which the log has finished with them."""
    if run.tokens is None:
        return
    for step, table in tables(run.tokens, READ):
        found = _of(step, table)
        if found is not None:
            yield found


def tables(log: TokenLog, columns: frozenset[str]) -> Iterator[tuple[int, pa.Table]]:
    """Rows of each step, put together from all row groups that have some; a step is let go when no later row group begins so early.

    Args:
        log: the run's tokens.
        columns: canonical columns to read; `step` has to be among them.
    """
    groups = [(piece, index) for piece in log.pieces for index in range(piece.row_groups)]
    first = [low for piece in log.pieces for low in _first_steps(piece)]
    later = [*np.minimum.accumulate(first[::-1])[::-1][1:], math.inf]  # of all groups that follow
    waiting: dict[int, list[pa.Table]] = {}
    for (piece, index), earliest in zip(groups, later, strict=True):
        table, _ = read_row_group(piece, index, columns)
        for step in pc.unique(table.column("step")).to_pylist():
            waiting.setdefault(step, []).append(table.filter(pc.equal(table.column("step"), step)))
        for step in sorted(step for step in waiting if step < earliest):
            yield step, pa.concat_tables(waiting.pop(step), promote_options="default")


def _first_steps(piece: TokenPiece) -> list[float]:
    """First step of each row group; minus infinity where the footer does not say, so that everything before it has to wait."""
    found = ranges(piece, ("step",))
    if found is None or len(found) != piece.row_groups:
        return [-math.inf] * piece.row_groups
    return [float(low) for ((low, _),) in found]


def _of(step: int, table: pa.Table) -> StepTokens | None:
    if "loss_mask" in table.column_names:
        table = table.filter(pc.fill_null(table.column("loss_mask"), fill_value=False))
    if not table.num_rows:
        return None
    sample, position = view(table, "sample_id"), view(table, "position")
    order = np.lexsort((position, sample)) if len(position) else np.argsort(sample, kind="stable")
    sample = sample[order]
    starts = np.flatnonzero(np.r_[True, sample[1:] != sample[:-1]])
    take = {name: _taken(table, name, order) for name in READ - {"step", "loss_mask", "sample_id"}}
    engine, (side, gap, shown) = take["rollout_logprob"].astype(float), _side(take)
    trainer = take[side].astype(float) if side else np.full(len(engine), np.nan)
    return StepTokens(
        step=step,
        sequence=np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(sample)))),
        sample_id=sample[starts],
        group_id=take["group_id"][starts] if len(take["group_id"]) else take["group_id"],
        starts=starts,
        engine=engine,
        trainer=trainer,
        gap=gap,
        counted=np.isfinite(engine) & np.isfinite(trainer) & shown,
        current=take["current_logprob"].astype(float),
        engine_raw=take["rollout_logprob"],
        trainer_raw=take[side] if side else take["current_logprob"],
        token_id=take["token_id"].astype(np.int64),
        rollout_version=take["rollout_version"],
        trainer_version=take["trainer_version"],
        entropy=take["entropy"].astype(float),
    )


def _taken(table: pa.Table, name: str, order: Ints) -> NDArray[Any]:
    """A column in the order of the sequences; length 0 where it was not recorded, or ids are missing in some rows."""
    if name in {"token_id", "group_id"} and name in table.column_names and table.column(name).null_count:
        return np.zeros(0, np.int64)
    column = view(table, name)
    return column[order] if len(column) else column


def _side(columns: dict[str, NDArray[Any]]) -> tuple[str, Gap, NDArray[np.bool_]]:
    """Which column stands for the trainer, what its gap to the engine then is, and which tokens show it."""
    every = np.ones(len(columns["rollout_logprob"]), bool)
    rollout, trained, old = (columns[name] for name in ("rollout_version", "trainer_version", "old_version"))
    if len(columns["same_weights_logprob"]):
        return "same_weights_logprob", Gap.DISCREPANCY, every
    if len(columns["old_logprob"]):
        reference = old if len(old) else trained
        if len(rollout) and len(reference) and np.array_equal(rollout, reference):
            return "old_logprob", Gap.DISCREPANCY, every
    if len(columns["current_logprob"]) and len(rollout) and len(trained) and np.any(fresh := rollout == trained):
        return "current_logprob", Gap.SAME_VERSION, np.asarray(fresh)
    if len(columns["old_logprob"]):
        return "old_logprob", Gap.UPPER_BOUND, every
    return ("current_logprob" if len(columns["current_logprob"]) else ""), Gap.TOTAL, every
