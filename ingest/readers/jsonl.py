"""JSONL step logs: one JSON object per line, its numbers keyed by name, one of them the step."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from ingest._bounds import MAX_LINE_BYTES, check_text
from ingest.errors import ReadError
from ingest.reader import Reader
from ingest.readers._json import parsed
from ingest.readers._json_lines import Lines, flat
from ingest.readers._json_tokens import is_dump
from ingest.readers._text import empty, encoding, opening
from ingest.readers._wandb_values import is_history_row
from ingest.readers.trainer_state import is_state
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
    "training_step",
    "iteration",
)
_FIRST = 50  # lines looked at before the rest of the file is searched for a better step
_CHUNK = 1 << 20
_ESCAPES = (b"\\u00", b"\\/")  # by which JSON may spell a key otherwise


def _objection(path: Path) -> str | None:
    first = opening(path)
    if first is None:
        return "it is not a text file"
    if not (start := first.lstrip("\ufeff \t")).startswith("{"):
        return "its first line is no JSON object" if first else "it is empty"
    others = {
        "its first line is a Python dictionary, not JSON": start.startswith("{'"),
        "it is one JSON document over several lines, not one per line": start.rstrip() == "{",
        "it is a history that wandb exported": is_history_row(first),
        "it is the state of a Trainer": is_state(path),
    }
    return next((what for what, is_so in others.items() if is_so), None) or ("it is a token dump" if is_dump(path) else None)


def _read(path: Path) -> tuple[RawLog, ...]:
    check_text(path, path.stat().st_size)
    if (named := encoding(path)) not in ("utf-8", "utf-8-sig"):
        raise ReadError(str(path), expected="JSON lines in UTF-8", found=f"{named} text", remedy="Save the file as UTF-8.")
    if not opening(path):
        raise empty(path)
    lines = Lines(path=path, axis=axis_of(path))
    for number, line, is_last in _lines(path):
        lines.take(number, line, is_last=is_last)
    lines.flush()
    return (log_of(lines),)


def unread(lines: Lines) -> tuple[ReadProblem, ...]:
    """What could not be read of the lines so far."""
    path = str(lines.path)
    return (
        *lines.broken.problems(path, "no JSON object"),
        *lines.others.problems(path, "neither a number nor a word for one"),
        *lines.stepless.problems(path, f"no whole number under {lines.axis}, so the values of the line belong to no step"),
    )


def log_of(lines: Lines) -> RawLog:
    """What has been read of a file as a log.

    Raises:
        ReadError: no line has a number.
    """
    path = str(lines.path)
    if not lines.rows.values and not lines.others.count and not lines.stepless.count:
        found = f"no line with a number ({lines.broken.first})"
        raise ReadError(path, expected="one JSON object per line", found=found, remedy="Check the file.")
    notes = [] if lines.axis else [f"no step axis among {', '.join(STEP_KEYS)}: the line number, from 1, stands for the step"]
    if lines.empty_values:
        notes.append(f"{lines.empty_values} values are null: not logged (or NaN, in logs of older tools that cannot write NaN)")
    problems = (
        *unread(lines),
        *((lines.cut,) if lines.cut else ()),
        *(ReadProblem(path=path, place="", what=note, kind=ProblemKind.NOTE) for note in notes),
        *lines.rows.repeated(path),
    )
    axis = lines.axis or ""
    return RawLog(name=lines.path.stem, path=path, container=READER.id, scalars=lines.rows.table(), axis=axis, problems=problems)


def axis_of(path: Path) -> str | None:
    """Find the step axis of a file: the first of STEP_KEYS that any line has."""
    rank = len(STEP_KEYS)
    for place, (_, line, _) in enumerate(_lines(path)):
        rank = min(rank, rank_of(line, rank))
        if rank == 0 or place >= _FIRST:
            break
    better = next((key for key in STEP_KEYS[:rank] if _spelled(path, key)), None)
    if better is not None:  # seen somewhere in the text: only parsing tells whether it is a key of a line
        rank = min((rank_of(line, rank) for _, line, _ in _lines(path)), default=rank)
    return STEP_KEYS[rank] if rank < len(STEP_KEYS) else None


def rank_of(line: bytes, known: int) -> int:
    """The best of STEP_KEYS that a line has; `known` where it has none that is better."""
    if (values := parsed(line)) is None:
        return known
    keys = flat(values)
    return next((rank for rank, key in enumerate(STEP_KEYS[:known]) if key in keys), known)


def _spelled(path: Path, key: str) -> bool:
    """Whether a key may stand anywhere in a file; of a nested one the last part."""
    wanted = (*{json.dumps(key).encode(), json.dumps(key.rpartition("/")[2]).encode()}, *_ESCAPES)
    tail = b""
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            window = tail + chunk
            if any(text in window for text in wanted):
                return True
            tail = window[-max(map(len, wanted)) :]
    return False


def _lines(path: Path) -> Iterator[tuple[int, bytes, bool]]:
    """Yield line number, content, and whether the file ends without a line break after it; blank lines are passed over."""
    with path.open("rb") as file:
        for number, line in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES), b""), start=1):
            if len(line) >= MAX_LINE_BYTES:
                expected = f"lines of at most {MAX_LINE_BYTES // 2**20} MiB"
                raise ReadError(f"{path}, line {number}", expected=expected, found="a longer one", remedy="Is it a step log?")
            content = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
            if not content.isspace():
                yield number, content, not line.endswith(b"\n")


READER = Reader(id="jsonl", title="JSONL step log", objection=_objection, read=_read)
