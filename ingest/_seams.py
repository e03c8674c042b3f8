"""Where a log was resumed: a run that restarts from a checkpoint logs some steps again, and what it logs later is what happened.

A key whose steps fall back, seldom and for good, was resumed there. A file whose lines are in no order at all falls back all the time: it
is sorted, not cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from ingest.readers._rows import coded
from ingest.run import OLDER, RESUMED, ProblemKind, RawLog, ReadProblem

LONG_ENOUGH = 3  # rows a segment has on average, at least; shorter ones are disorder
_LISTED = 5
_SAID = f"{RESUMED}: earlier values from here on were logged before the restart and are left out"


@dataclass(frozen=True, kw_only=True)
class Joined:
    """A log without the values that a restart made void, and the first value of each later segment."""

    raw: RawLog
    marks: dict[tuple[str, int], str] = field(default_factory=dict)  # (key, step) -> what must be known there


def joined(raw: RawLog) -> Joined:
    """Keep the later of overlapping segments, key by key, and mark the seams.

    Rows in = rows out + rows of the problems.
    """
    if not raw.scalars.num_rows:
        return Joined(raw=raw)
    names, codes = coded(raw.scalars.column("key"))
    steps = raw.scalars.column("step").to_numpy()
    if (steps[1:] >= steps[:-1]).all():  # as of most logs: no key's steps fall where the file's do not
        return Joined(raw=raw)
    order = np.argsort(codes, kind="stable")
    void = np.zeros(len(steps), bool)
    marks: dict[tuple[str, int], str] = {}
    fell = np.flatnonzero((np.diff(steps[order]) < 0) & (np.diff(codes[order]) == 0))
    for code in np.unique(codes[order][fell]):
        rows = order[codes[order] == code]
        seams = _seams(steps[rows])
        void[rows] |= _void(steps[rows], seams)
        marks |= {(names[code], step): said for step, said in _marks(steps[rows], seams)}
    if not marks:
        return Joined(raw=raw)
    kept = raw.scalars.filter(pa.array(~void))
    return Joined(raw=replace(raw, scalars=kept, problems=(*raw.problems, *_problems(raw.path, marks, int(void.sum())))), marks=marks)


def _seams(steps: np.ndarray) -> list[int]:
    """Places at which a later segment begins; none where the rows are merely unsorted."""
    falls = np.flatnonzero(np.diff(steps) < 0) + 1
    return falls.tolist() if falls.size * LONG_ENOUGH <= steps.size else []


def _segments(steps: np.ndarray, seams: list[int]) -> list[tuple[int, int]]:
    """Place at which each later segment begins, and the largest step that it reached."""
    return [(seam, int(steps[seam:end].max())) for seam, end in pairwise([*seams, steps.size])]


def _void(steps: np.ndarray, seams: list[int]) -> np.ndarray:
    """Rows before a seam whose step the later segment logged again; what it has not reached stays, as nothing has replaced it."""
    void = np.zeros(steps.size, bool)
    for seam, last in _segments(steps, seams):
        void[:seam] |= (steps[:seam] >= steps[seam]) & (steps[:seam] <= last)
    return void


def _marks(steps: np.ndarray, seams: list[int]) -> Iterator[tuple[int, str]]:
    """Steps at which one segment gives way to another, each with what must be known there; none that a later segment made void."""
    marks: dict[int, str] = {}
    for seam, last in _segments(steps, seams):
        first = int(steps[seam])
        marks = {step: said for step, said in marks.items() if not first <= step <= last} | {first: _SAID}
        older = steps[:seam][steps[:seam] > last]
        if older.size:
            marks[int(older.min())] = OLDER
    yield from marks.items()


def _problems(path: str, marks: dict[tuple[str, int], str], rows: int) -> list[ReadProblem]:
    at = sorted({step for _, step in marks})
    shown = ", ".join(str(step) for step in at[:_LISTED]) + (" …" if len(at) > _LISTED else "")
    restart = "the run was resumed here: the later segment is kept, the seam is marked"
    seam = ReadProblem(path=path, place=f"step {shown}", what=restart, kind=ProblemKind.NOTE)
    what = "logged before a restart from an earlier step: the later segment's values stand"
    return [seam, *([ReadProblem(path=path, place=f"from step {at[0]}", what=what, rows=rows, kind=ProblemKind.SHADOWED)] if rows else [])]
