"""Partial sums of a token log on this machine: row groups streamed over threads, merged in a fixed order."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

from ingest.run import ReadProblem
from ingest.tokens import TokenLog, TokenPiece, read_row_group
from monitor.metrics import kernel, stored
from monitor.metrics.bounds import ClipBounds
from monitor.metrics.columns import READ
from monitor.metrics.partial import StepPartial

Steps = dict[int, StepPartial]
Task = Callable[[], tuple[Steps, tuple[ReadProblem, ...]]]


def partials(
    log: TokenLog,
    bounds: ClipBounds,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Steps, tuple[ReadProblem, ...]]:
    """Partial sums of every step of the log.

    Row groups are read and summed by threads (decoding and the compiled pass both let go of the interpreter) and merged in the
    order of the pieces and their row groups, so the same files always give the same bits. Where the sums stored beside a piece
    fit, the piece is not opened.

    Args:
        log: the pieces of one run.
        bounds: where a ratio counts as clipped.
        progress: called with (tasks done, tasks in all) in this thread.

    Returns:
        Step -> partial, and what could not be read.
    """
    tasks = [task for piece in log.pieces for task in _tasks(piece, bounds)]
    merged: Steps = {}
    problems: list[ReadProblem] = []
    with ThreadPoolExecutor(max_workers=max(2, os.cpu_count() or 1)) as pool:
        for done, (steps, found) in enumerate(pool.map(lambda task: task(), tasks), start=1):
            for step, partial in steps.items():
                merged[step] = merged[step].merge(partial) if step in merged else partial
            problems.extend(found)
            if progress:
                progress(done, len(tasks))
    return dict(sorted(merged.items())), tuple(problems)


def _tasks(piece: TokenPiece, bounds: ClipBounds) -> Iterator[Task]:
    """One task for a piece whose sums are stored, otherwise one per row group."""
    sums = _stored(piece, bounds)
    if sums is not None:
        yield lambda: (sums, ())
        return
    for index in range(piece.row_groups):
        yield _read(piece, index, bounds)


def _stored(piece: TokenPiece, bounds: ClipBounds) -> Steps | None:
    """Stored sums are made from canonical columns, so they stand for a piece only where no column was renamed."""
    renamed = any(name != canonical for name, canonical in piece.rename.items())
    return None if renamed else stored.read(piece.path, bounds)


def _read(piece: TokenPiece, index: int, bounds: ClipBounds) -> Task:
    def task() -> tuple[Steps, tuple[ReadProblem, ...]]:
        table, problems = read_row_group(piece, index, READ)
        return kernel.partials(table, bounds), problems

    return task
