"""The state that transformers' Trainer saves: `trainer_state.json`, whose `log_history` has everything that was logged."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ingest._bounds import check_text
from ingest.errors import ReadError
from ingest.reader import Reader
from ingest.readers._files import is_inside
from ingest.readers._json import leaves, step_of
from ingest.readers._numbers import number_of
from ingest.readers._rows import Rows
from ingest.readers._settings import settings_of
from ingest.readers._tally import Tally
from ingest.readers._text import opening
from ingest.run import ProblemKind, RawLog, ReadProblem

FILE = "trainer_state.json"
_CHECKPOINT = re.compile(r"checkpoint-(\d{1,18})")
_STEP, _EPOCH = "step", "epoch"
_HEAD = 65_536
_MARKS = (b'"log_history"', b'"global_step"')
_NOT_SETTINGS = ("log_history", "stateful_callbacks", "trial_params", "trial_name")


def _objection(path: Path) -> str | None:
    if path.is_dir():
        return None if _state_of(path) is not None else f"the folder has no {FILE}, nor a checkpoint with one"
    if opening(path) is None:
        return "it is not a text file"
    return None if is_state(path) else "it is no JSON object with log_history and global_step"


def is_state(path: Path) -> bool:
    """Whether a text file begins as a saved state: its keys are sorted, so those that tell stand before the history."""
    with path.open("rb") as file:
        head = file.read(_HEAD)
    return head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{") and all(mark in head for mark in _MARKS)


def _state_of(folder: Path) -> Path | None:
    """The state of a checkpoint's folder; of a training's folder its own, else that of its last checkpoint, which has all before."""
    if (folder / FILE).is_file() and is_inside(folder / FILE, folder):
        return folder / FILE
    checkpoints = [(int(match[1]), child) for child in folder.glob("checkpoint-*") if (match := _CHECKPOINT.fullmatch(child.name))]
    states = [child / FILE for _, child in sorted(checkpoints, reverse=True) if (child / FILE).is_file()]
    return next((state for state in states if is_inside(state, folder)), None)


def _read(path: Path) -> tuple[RawLog, ...]:
    file = _state_of(path) if path.is_dir() else path
    if file is None:
        raise ReadError(str(path), expected=FILE, found="a folder without it", remedy="Name the checkpoint's folder.")
    state = _state(file)
    rows, others, stepless, nulls = Rows(), Tally(), Tally(), 0
    for place, entry in enumerate(state["log_history"]):
        if not isinstance(entry, dict):
            others.add(f"entry {place}")
            continue
        nulls += _take(entry, place, rows, (others, stepless))
    said = (
        *others.problems(str(file), "neither a number nor a word for one"),
        *stepless.problems(str(file), "no whole number under step, so the values of the entry belong to no step"),
        *_notes(file, path, nulls),
        *rows.repeated(str(file)),
    )
    name = path.resolve().name if path.is_dir() else path.stem
    settings = settings_of({key: value for key, value in state.items() if key not in _NOT_SETTINGS and not isinstance(value, (dict, list))})
    return (RawLog(name=name, path=str(path), container=READER.id, scalars=rows.table(), axis=_STEP, config=settings, problems=said),)


def _state(path: Path) -> dict[str, Any]:
    """Parse a state.

    Raises:
        ReadError: it is no JSON object with a list `log_history`.
    """
    check_text(path, path.stat().st_size)
    try:
        state = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as broken:  # UnicodeDecodeError and JSONDecodeError are ValueErrors
        found = f"text that is not ({str(broken)[:200]})"
        raise ReadError(str(path), expected="JSON in UTF-8", found=found, remedy="Was it saved whole? Take another checkpoint.") from broken
    if not isinstance(state, dict) or not isinstance(state.get("log_history"), list):
        raise ReadError(str(path), expected="a list log_history", found="none", remedy=f"Is it the {FILE} of a checkpoint?")
    return state


def _take(entry: Mapping[str, Any], place: int, rows: Rows, tallies: tuple[Tally, Tally]) -> int:
    """Add the values of one entry; gives how many are null."""
    others, stepless = tallies
    step, nulls = step_of(entry.get(_STEP)), 0
    for key, value in leaves(entry):
        if key in (_STEP, _EPOCH):
            continue
        if value is None:
            nulls += 1
        elif (read := number_of(value)) is None:
            others.add(f"entry {place}, key {key}", group=key)
        elif step is None:
            stepless.add(f"entry {place}, key {key}")
        else:
            rows.add(key, step, read)
    return nulls


def _notes(file: Path, path: Path, nulls: int) -> Iterator[ReadProblem]:
    def note(what: str) -> ReadProblem:
        return ReadProblem(path=str(file), place="", what=what, kind=ProblemKind.NOTE)

    if nulls:
        yield note(f"{nulls} values are null: not logged, or NaN")
    if path.is_dir() and next(path.glob("**/*tfevents*"), None) is not None:
        yield note("event files of TensorBoard in the folder are not read: the same values, rounded to float32, and the settings")


READER = Reader(id="trainer_state", title="Trainer state", objection=_objection, read=_read)
