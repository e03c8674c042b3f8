"""The true step of a log whose reader counted something else: log calls, lines, events.

A framework that logs its own step beside its numbers says best where they belong. Numbers that were not logged beside it (the engine's, an
actor's) run by another clock, and keep the step they have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest.run import ProblemKind, RawLog, ReadProblem

_LISTED = 8
_BEYOND = 2.0**63


@dataclass(frozen=True, kw_only=True)
class Timed:
    """A log on its true steps, and the keys that run by another clock, each with what must be known about its step."""

    raw: RawLog
    caveats: dict[str, str] = field(default_factory=dict)


def timed(raw: RawLog, step_keys: Sequence[str]) -> Timed:
    """Put a log on the first of `step_keys` that it has; without any, or where it counts the same, the log stays as it is.

    Rows in = rows out + rows of the problems: the step's own rows become the axis; of a key that has both, rows without a step are lost.
    """
    present = set(pc.unique(raw.scalars.column("key")).to_pylist())
    axis = next((key for key in step_keys if key in present or key == raw.axis), None)
    if axis is None or axis == raw.axis:
        return Timed(raw=raw)
    is_axis = pc.equal(raw.scalars.column("key"), axis)
    others, steps = raw.scalars.filter(pc.invert(is_axis)), _pairs(raw.scalars.filter(is_axis))
    axis_rows = raw.scalars.num_rows - others.num_rows
    what = f"the step of the other values: {axis}"
    said = [ReadProblem(path=raw.path, place=f"key {axis}", what=what, rows=axis_rows, kind=ProblemKind.SHADOWED)]
    if not steps or all(counted == true for counted, true in steps.items()):
        return Timed(raw=replace(raw, scalars=others, problems=(*raw.problems, *said)))
    return _placed(replace(raw, scalars=others, problems=(*raw.problems, *said)), axis, steps)


def _pairs(rows: pa.Table) -> dict[int, int]:
    """The reader's step -> the true one; of several the last."""
    pairs = zip(rows.column("step").to_pylist(), rows.column("value").to_pylist(), strict=True)
    return {step: round(value) for step, value in pairs if abs(value) < _BEYOND}  # false for NaN and infinity


def _placed(raw: RawLog, axis: str, steps: dict[int, int]) -> Timed:
    counted, true = np.array(sorted(steps), np.int64), np.array([steps[step] for step in sorted(steps)], np.int64)
    own = raw.scalars.column("step").to_numpy()
    place = np.minimum(np.searchsorted(counted, own), counted.size - 1)
    has = counted[place] == own
    coded = raw.scalars.column("key").combine_chunks().dictionary_encode()
    names, codes = coded.dictionary.to_pylist(), coded.indices.to_numpy(zero_copy_only=False)
    on_axis = np.bincount(codes[has], minlength=len(names)) > 0
    strays = ~has & on_axis[codes]
    moved = np.where(has, true[place], own)
    column = raw.scalars.schema.get_field_index("step")
    scalars = raw.scalars.set_column(column, raw.scalars.schema.field("step"), pa.array(moved)).filter(pa.array(~strays))
    apart = [name for name, on in zip(names, on_axis, strict=True) if not on]
    problems = (*raw.problems, *_lost(raw, axis, names, np.bincount(codes[strays], minlength=len(names))), *_apart(raw, axis, apart))
    caveat = f"its step is the file's own count, not {axis}"
    return Timed(raw=replace(raw, scalars=scalars, problems=problems), caveats=dict.fromkeys(apart, caveat))


def _lost(raw: RawLog, axis: str, names: Sequence[str], rows: np.ndarray) -> list[ReadProblem]:
    what = f"logged without {axis}, which it has at other times, so the value belongs to no step"
    return [
        ReadProblem(path=raw.path, place=f"key {name}", what=what, rows=int(count))
        for name, count in zip(names, rows, strict=True)
        if count
    ]


def _apart(raw: RawLog, axis: str, keys: Sequence[str]) -> list[ReadProblem]:
    if not keys:
        return []
    shown = ", ".join(sorted(keys)[:_LISTED]) + (f" and {len(keys) - _LISTED} more" if len(keys) > _LISTED else "")
    what = f"logged apart from {axis}: another clock, whose steps are the file's own count and not comparable step by step"
    return [ReadProblem(path=raw.path, place=f"keys {shown}", what=what, kind=ProblemKind.NOTE)]
