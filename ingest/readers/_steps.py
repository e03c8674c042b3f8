"""The step axis of a CSV export: which step each line stands for, and what is odd about it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ingest.readers._cells import Column, places
from ingest.run import ProblemKind, ReadProblem

# The web app draws, and exports, this many points of a longer run (300 and 500 exactly, 1500 nearly).
_DRAWN_ROWS = (300, 500, *range(1490, 1511))
_FEW = 10  # too few gaps to call irregular
_BEYOND = 2.0**63


@dataclass(frozen=True, kw_only=True)
class Steps:
    """Lines of the file that have a step, sorted by line."""

    lines: np.ndarray  # int64
    steps: np.ndarray  # int64, same length
    name: str  # what the axis is called in the file
    problems: tuple[ReadProblem, ...] = ()

    def at(self, lines: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Steps of the lines asked for, and whether they have one (0 where not)."""
        place, there = places(self.lines, lines)
        return np.where(there, self.steps[place], 0) if self.lines.size else np.zeros(lines.size, np.int64), there

    def without(self, column: Column, path: str) -> tuple[ReadProblem, ...]:
        """Count the numbers of a column on lines that have no step."""
        missing = column.lines[~self.at(column.lines)[1]]
        if not missing.size:
            return ()
        what = f"no step in column {self.name}, so the value belongs nowhere"
        return (ReadProblem(path=path, place=f"line {missing[0]}, column {column.name}", what=what, rows=int(missing.size)),)


def steps_from(column: Column, path: str) -> Steps:
    """Take a column as steps; a mean of several runs' steps is rounded, and said."""
    usable = np.abs(column.values) < _BEYOND  # false for NaN and infinity
    lines, values = (column.lines, column.values) if usable.all() else (column.lines[usable], column.values[usable])
    rounded = np.rint(values)
    notes: tuple[ReadProblem, ...] = ()
    if odd := int(np.count_nonzero(rounded != values)):
        what = f"steps that are not whole numbers (a mean over runs?), and are rounded: {odd}"
        notes = (ReadProblem(path=path, place=f"column {column.name}", what=what, kind=ProblemKind.NOTE),)
    return Steps(lines=lines, steps=rounded.astype(np.int64), name=column.name, problems=notes)


def is_whole(column: Column) -> bool:
    """Whether every finite number of the column could be a step."""
    values = column.values
    return bool(np.all(~np.isfinite(values) | (np.rint(values) == values)))


def rows_as_steps(column: Column, path: str) -> Steps:
    """Where the x axis cannot be a step (a time, say) and no step is given: the order along the axis stands for it."""
    values = column.values
    finite = np.isfinite(values)
    order = np.unique(values[finite], return_inverse=True)[1]
    what = (
        f"the x axis {column.name} is no step and there are no `_step` columns: the place of a point along it, from 0, stands for the step"
    )
    note = ReadProblem(path=path, place=f"column {column.name}", what=what, kind=ProblemKind.NOTE)
    return Steps(lines=column.lines[finite], steps=order.astype(np.int64), name=column.name, problems=(note,))


def sampled(steps: Steps, path: str, run: str = "") -> tuple[ReadProblem, ...]:
    """Say where the points look like a selection: spikes between them are not in the file."""
    gaps = np.diff(steps.steps)
    if not (gaps > 0).all():
        gaps = np.diff(np.unique(steps.steps))
    irregular = gaps.size >= _FEW and bool(gaps.min() != gaps.max())
    drawn = steps.steps.size in _DRAWN_ROWS and bool(np.any(gaps != 1))
    if not irregular and not drawn:
        return ()
    seen = f"{steps.steps.size} points" if drawn else f"gaps of {gaps.min()} to {gaps.max()} steps"
    what = f"{seen}: probably a sampled or bucketed export; steps between the points, and spikes on them, are not in this file"
    return (ReadProblem(path=path, place=run, what=what, kind=ProblemKind.NOTE),)
