"""JSONL step logs: one JSON object per line, its numbers keyed by name, one of them the step."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ingest._bounds import MAX_LINE_BYTES, check_text
from ingest.errors import ReadError
from ingest.reader import Reader
from ingest.readers._json import leaves, parsed, step_of
from ingest.readers._numbers import number_of
from ingest.readers._rows import Rows
from ingest.readers._tally import Tally
from ingest.readers._text import empty, encoding, opening
from ingest.run import ProblemKind, RawLog, ReadProblem

# Looked for in this order; the first that any line has is the axis of the whole file.
STEP_KEYS = (
    "stats/completed_steps",
    "step",
    "_step",
    "global_step",
    "train/global_step",
    "trainer/global_step",
    "training/global_step",
    "train/step",
    "rollout/step",
)
_BOOKKEEPING = ("_step", "_timestamp", "_runtime")  # of wandb: axes, not quantities
_WALL_KEYS = ("_timestamp", "timestamp", "wall_time")


@dataclass
class _Reading:
    """What has been read of one file so far."""

    path: Path
    axis: str | None
    rows: Rows = field(default_factory=Rows)
    broken: Tally = field(default_factory=Tally)
    others: Tally = field(default_factory=Tally)
    stepless: Tally = field(default_factory=Tally)
    empty_values: int = 0
    cut: ReadProblem | None = None


def _objection(path: Path) -> str | None:
    first = opening(path)
    if first is None:
        return "it is not a text file"
    return None if first.lstrip("\ufeff \t").startswith("{") or not first else "its first line is no JSON object"


def _read(path: Path) -> tuple[RawLog, ...]:
    check_text(path, path.stat().st_size)
    if (named := encoding(path)) not in ("utf-8", "utf-8-sig"):
        raise ReadError(str(path), expected="JSON lines in UTF-8", found=f"{named} text", remedy="Save the file as UTF-8.")
    if not opening(path):
        raise empty(path)
    reading = _Reading(path=path, axis=_axis(path))
    for number, line, is_last in _lines(path):
        _take(reading, number, line, is_last=is_last)
    return (_log(reading),)


def _log(reading: _Reading) -> RawLog:
    path = str(reading.path)
    if not reading.rows.values and not reading.others.count and not reading.stepless.count:
        raise ReadError(
            path, expected="one JSON object per line", found=f"no line with a number ({reading.broken.first})", remedy="Check the file."
        )
    notes = [] if reading.axis else [f"no step axis among {', '.join(STEP_KEYS)}: the line number, from 1, stands for the step"]
    if reading.empty_values:
        notes.append(f"{reading.empty_values} values are null: not logged (or NaN, in logs of older tools that cannot write NaN)")
    problems = (
        *reading.broken.problems(path, "no JSON object"),
        *reading.others.problems(path, "neither a number nor a word for one"),
        *reading.stepless.problems(path, f"no whole number under {reading.axis}, so the values of the line belong to no step"),
        *((reading.cut,) if reading.cut else ()),
        *(ReadProblem(path=path, place="", what=note, kind=ProblemKind.NOTE) for note in notes),
        *reading.rows.repeated(path),
    )
    return RawLog(name=reading.path.stem, path=path, container=READER.id, scalars=reading.rows.table(), problems=problems)


def _axis(path: Path) -> str | None:
    """Find the step axis of a file: the first of STEP_KEYS that any line has."""
    rank = len(STEP_KEYS)
    for _, line, _ in _lines(path):
        if (values := parsed(line)) is not None:
            rank = min(rank, next((rank for rank, key in enumerate(STEP_KEYS) if key in values), rank))
        if rank == 0:
            break
    return STEP_KEYS[rank] if rank < len(STEP_KEYS) else None


def _lines(path: Path) -> Iterator[tuple[int, bytes, bool]]:
    """Yield line number, content, and whether the file ends without a line break after it; blank lines are passed over."""
    with path.open("rb") as file:
        for number, line in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES), b""), start=1):
            if len(line) >= MAX_LINE_BYTES:
                expected = f"lines of at most {MAX_LINE_BYTES // 2**20} MiB"
                raise ReadError(f"{path}, line {number}", expected=expected, found="a longer one", remedy="Is it a step log?")
            content = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
            if content.strip():
                yield number, content, not line.endswith(b"\n")


def _take(reading: _Reading, number: int, line: bytes, *, is_last: bool) -> None:
    """Add one line's values to what has been read."""
    values = parsed(line)
    if values is None and is_last:
        what = "the last line is cut, as in a log that is being written; it is not read"
        reading.cut = ReadProblem(path=str(reading.path), place=f"line {number}", what=what, kind=ProblemKind.NOTE)
        return
    if values is None:
        reading.broken.add(f"line {number}")
        return
    step = number if reading.axis is None else step_of(values.get(reading.axis))
    wall = next((seconds for key in _WALL_KEYS if (seconds := number_of(values.get(key))) is not None), math.nan)
    for key, value in leaves(values):
        if key == reading.axis or key in _BOOKKEEPING:
            continue
        if value is None:
            reading.empty_values += 1
        elif (read := number_of(value)) is None:
            reading.others.add(f"line {number}, key {key}", group=key)
        elif step is None:
            reading.stepless.add(f"line {number}, key {key}")
        else:
            reading.rows.add(key, step, read, wall)


READER = Reader(id="jsonl", title="JSONL step log", objection=_objection, read=_read)
