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

from ingest.readers._rows import coded
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
    present = set(coded(raw.scalars.column("key"))[0]) if step_keys else set()
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
    first = _placed(replace(raw, scalars=others, problems=(*raw.problems, *said)), axis, steps)
    rest = [key for key in step_keys if key in present and key != axis]
    return _next_clock(first, axis, rest) if first.caveats and rest else _with_note(first, axis)


def _pairs(rows: pa.Table) -> dict[int, int]:
    """The reader's step -> the true one; of several the last."""
    values = rows.column("value").to_numpy()
    usable = np.abs(values) < _BEYOND  # false for NaN and infinity
    return dict(zip(rows.column("step").to_numpy()[usable].tolist(), np.rint(values[usable]).astype(np.int64).tolist(), strict=True))


def _placed(raw: RawLog, axis: str, steps: dict[int, int]) -> Timed:
    counted, true = np.array(sorted(steps), np.int64), np.array([steps[step] for step in sorted(steps)], np.int64)
    own = raw.scalars.column("step").to_numpy()
    place = np.minimum(np.searchsorted(counted, own), counted.size - 1)
    has = counted[place] == own
    names, codes = coded(raw.scalars.column("key"))
    on_axis = np.bincount(codes[has], minlength=len(names)) > 0
    strays = ~has & on_axis[codes]
    moved = np.where(has, true[place], own)
    column = raw.scalars.schema.get_field_index("step")
    scalars = raw.scalars.set_column(column, raw.scalars.schema.field("step"), pa.array(moved)).filter(pa.array(~strays))
    apart = [name for name, on in zip(names, on_axis, strict=True) if not on]
    problems = (*raw.problems, *_lost(raw, axis, names, np.bincount(codes[strays], minlength=len(names))))
    caveat = f"its step is the file's own count, not {axis}"
    return Timed(raw=replace(raw, scalars=scalars, problems=problems), caveats=dict.fromkeys(apart, caveat))


def _next_clock(first: Timed, axis: str, rest: Sequence[str]) -> Timed:
    """Put what was not logged beside the first step on the next that it was logged beside: an engine counts its own."""
    scalars = first.raw.scalars
    apart = pc.is_in(scalars.column("key"), pa.array(list(first.caveats)))
    others = timed(replace(first.raw, scalars=scalars.filter(apart), problems=()), rest)
    own = next((key for key in rest if key in first.caveats), None)
    if own is None or own in set(coded(others.raw.scalars.column("key"))[0]):
        return _with_note(first, axis)
    named = f"its step is {own}, another clock than {axis}"
    caveats = {key: others.caveats.get(key, named) for key in first.caveats if key != own}
    joined = pa.concat_tables([scalars.filter(pc.invert(apart)), others.raw.scalars])
    return Timed(raw=replace(first.raw, scalars=joined, problems=(*first.raw.problems, *others.raw.problems)), caveats=caveats)


def _with_note(found: Timed, axis: str) -> Timed:
    """Say which keys keep the file's own count."""
    return replace(found, raw=replace(found.raw, problems=(*found.raw.problems, *_apart(found.raw, axis, list(found.caveats)))))


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
