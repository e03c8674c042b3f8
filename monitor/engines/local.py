"""Partial sums of a token log on this machine: row groups streamed over threads, merged in a fixed order."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from ingest.run import ProblemKind, ReadProblem
from ingest.tokens import DamagedError, TokenLog, TokenPiece, read_row_group
from monitor.metrics import kernel, stored
from monitor.metrics.bounds import ClipBounds
from monitor.metrics.columns import READ, repeats
from monitor.metrics.partial import Count, StepPartial

Steps = dict[int, StepPartial]
KEYS = frozenset({"step", "sample_id", "position", "loss_mask"})
ROWS_AT_ONCE = 20_000_000  # rows whose keys are held together to look for repeats; 20 bytes each


@dataclass(frozen=True, kw_only=True)
class _Task:
    """What is summed in one go: a row group, or all of a piece whose sums are stored."""

    piece: TokenPiece
    groups: tuple[int, ...]
    sums: Steps | None = None


@dataclass(kw_only=True)
class _Merged:
    """Partials of the tasks done so far, which tasks have tokens of a step, and the steps in which two may have the same rows."""

    steps: Steps = field(default_factory=dict)
    holders: dict[int, list[_Task]] = field(default_factory=dict)
    suspects: set[int] = field(default_factory=set)

    def add(self, task: _Task, found: Steps) -> None:
        for step, partial in found.items():
            before = self.steps.get(step)
            if before is not None and before.may_repeat(partial):
                self.suspects.add(step)
            self.steps[step] = partial if before is None else before.merge(partial)
            self.holders.setdefault(step, []).append(task)


def partials(
    log: TokenLog,
    bounds: ClipBounds,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Steps, tuple[ReadProblem, ...]]:
    """Partial sums of every step of the log.

    Row groups are read and summed by threads (decoding and the compiled pass both let go of the interpreter) and merged in the
    order of the pieces and their row groups, so the same files always give the same bits. Where the sums stored beside a piece
    fit, the piece is not opened. Rows that repeat a (step, sample_id, position) are counted, also where they lie in two pieces:
    only the steps in which that is possible are looked at again, and of them only the keys.

    Args:
        log: the pieces of one run.
        bounds: where a ratio counts as clipped.
        progress: called with (tasks done, tasks in all) in this thread.

    Returns:
        Step -> partial, and what could not be read or should not be trusted.

    Raises:
        DamagedError: no row group could be read.
    """
    tasks = [task for piece in log.pieces for task in _tasks(piece, bounds)]
    merged, problems, damaged = _Merged(), list[ReadProblem](), list[DamagedError]()
    with ThreadPoolExecutor(max_workers=max(2, os.cpu_count() or 1)) as pool:
        for done, (task, found) in enumerate(zip(tasks, pool.map(lambda task: _sum(task, bounds), tasks), strict=True), start=1):
            if isinstance(found, DamagedError):
                damaged.append(found)
                problems.append(_damage(task, found))
            else:
                merged.add(task, found[0])
                problems.extend(found[1])
            if progress:
                progress(done, len(tasks))
    if damaged and len(damaged) == len(tasks):
        raise damaged[0]
    _count_repeats(merged)
    return dict(sorted(merged.steps.items())), (*problems, *_repeated(log, merged.steps))


def _tasks(piece: TokenPiece, bounds: ClipBounds) -> Iterator[_Task]:
    """One task for a piece whose sums are stored, otherwise one per row group."""
    sums = _stored(piece, bounds)
    if sums is not None:
        yield _Task(piece=piece, groups=tuple(range(piece.row_groups)), sums=sums)
        return
    for index in range(piece.row_groups):
        yield _Task(piece=piece, groups=(index,))


def _stored(piece: TokenPiece, bounds: ClipBounds) -> Steps | None:
    """Stored sums are made from canonical columns, so they stand for a piece only where no column was renamed."""
    renamed = any(name != canonical for name, canonical in piece.rename.items())
    return None if renamed else stored.read(piece.path, bounds)


def _sum(task: _Task, bounds: ClipBounds) -> tuple[Steps, tuple[ReadProblem, ...]] | DamagedError:
    """The partials of a task; a damaged row group is a value, so that the others are read."""
    if task.sums is not None:
        return task.sums, ()
    try:
        table, problems = read_row_group(task.piece, task.groups[0], READ)
    except DamagedError as broken:
        return broken
    return kernel.partials(table, bounds), problems


def _damage(task: _Task, broken: DamagedError) -> ReadProblem:
    place, rows = f"row group {task.groups[0]}", task.piece.rows_of(task.groups[0])
    return ReadProblem(path=str(task.piece.path), place=place, what=f"not read: {broken.found}. {broken.remedy}", rows=rows)


def _count_repeats(merged: _Merged) -> None:
    """Count the repeats of the suspected steps anew over all their pieces."""
    for steps in _batches(merged):
        tasks = {id(task): task for step in steps for task in merged.holders[step]}
        keys = pa.concat_tables([table for task in tasks.values() for table in _keys(task, steps)])
        for step in steps:
            rows = keys.filter(pc.equal(keys.column("step"), step))
            counts = merged.steps[step].counts
            counts[Count.REPEATED_ROWS] = repeats(*(rows.column(name).to_numpy() for name in ("sample_id", "position")))


def _batches(merged: _Merged) -> Iterator[list[int]]:
    batch: list[int] = []
    rows = 0
    for step in sorted(merged.suspects):
        batch.append(step)
        rows += int(merged.steps[step].counts[Count.ROWS])
        if rows >= ROWS_AT_ONCE:
            yield batch
            batch, rows = [], 0
    if batch:
        yield batch


def _keys(task: _Task, steps: Iterable[int]) -> Iterator[pa.Table]:
    """Step, sample_id and position of the masked-in rows of some steps; nothing of a row group without positions."""
    wanted = pa.array(steps, pa.int64())
    for index in task.groups:
        table, _ = read_row_group(task.piece, index, KEYS)
        kept = pc.is_in(table.column("step"), value_set=wanted)
        if "loss_mask" in table.column_names:
            kept = pc.and_(kept, table.column("loss_mask"))
        if "position" in table.column_names:
            yield table.filter(kept).select(["step", "sample_id", "position"])


def _repeated(log: TokenLog, steps: Steps) -> Iterator[ReadProblem]:
    found = {step: int(partial.counts[Count.REPEATED_ROWS]) for step, partial in steps.items()}
    bad = sorted(step for step, rows in found.items() if rows)
    if not bad:
        return
    rows = sum(found.values())
    what = (
        f"{rows} rows repeat a (step, sample_id, position), in {len(bad)} of {len(steps)} steps; they are counted, and the numbers of these"
        f" steps are not to be trusted. Give every response of a step its own sample_id over all ranks, and log each row once"
    )
    where = str(log.pieces[0].path if len(log.pieces) == 1 else log.pieces[0].path.parent)
    yield ReadProblem(path=where, place=f"first in step {bad[0]}", what=what, rows=rows, kind=ProblemKind.NOTE)
