"""CSV metric logs: a row per log call, a column that is the step, the others metrics. Lightning, RLlib and many scripts write these."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ingest.errors import ReadError
from ingest.reader import Reader
from ingest.readers._cells import Column, Sheet, header, sheet
from ingest.readers._history import is_history, take
from ingest.readers._rows import Rows
from ingest.readers._runs_table import is_runs_table
from ingest.readers._steps import Steps, is_whole, sampled, steps_from
from ingest.readers._text import opening
from ingest.run import ProblemKind, RawLog, ReadProblem

# The first of these that the header has is the axis, whatever its letters' case; the last ones count something longer than a step.
STEP_COLUMNS = (
    "stats/completed_steps",
    "step",
    "global_step",
    "global step",
    "train/global_step",
    "trainer/global_step",
    "training/global_step",
    "train/step",
    "training_step",
    "train_step",
    "rollout/step",
    "steps",
    "iteration",
    "training_iteration",
    "time/iterations",
    "iter",
    "update",
    "epoch",
)
_LONGER = ("epoch",)
_WALL = ("wall time", "wall_time", "_timestamp", "timestamp", "time")
_EPOCH = 1e8  # seconds; a time under this counts from the start of the run
_INDEX = ("", "Unnamed: 0")  # what pandas puts before the first column when a table is saved
_DELIMITERS = (",", "\t", ";")
_CHART = " - "  # between run and metric in a chart that wandb exported
_LISTED = 8
_OF_ONE_TAG = ("Wall time", "Step", "Value")  # TensorBoard's download of one chart
_TAG = re.compile(r"(?:run-(?P<run>.+)-tag-(?P<tag>.+))")


def _objection(path: Path) -> str | None:
    if (first := opening(path)) is None:
        return "it is not a text file"
    delimiter = _delimiter(first)
    if delimiter is None or first.lstrip("\ufeff \t").startswith(("{", "[")):
        return "its first line has no commas, tabs or semicolons" if first else "it is empty"
    names = next(csv.reader([first.removeprefix("\ufeff")], delimiter=delimiter), [])
    return _objection_to([name.strip() for name in names])


def _objection_to(names: Sequence[str]) -> str | None:
    """What speaks against a header."""
    if is_history(names) or is_runs_table(names):
        return "it is a table that wandb exported"
    if any(_CHART in name for name in names):
        return "its columns are named 'run - metric', as in a chart that wandb exported"
    if _step_name(names) is None:
        return f"none of its columns ({', '.join(name[:40] for name in names[:_LISTED])}) is a step: step, global_step, iteration, …"
    return None if len([name for name in names if name not in _INDEX]) > 1 else "it has no column beside the step"


def _delimiter(first: str) -> str | None:
    """What divides the cells: the first of comma, tab and semicolon that the header has."""
    return next((mark for mark in _DELIMITERS if mark in first), None)


def _step_name(names: Sequence[str]) -> str | None:
    """The column that is the step, as it is spelled."""
    spelled = {name.lower(): name for name in reversed(names)}
    return next((spelled[name] for name in STEP_COLUMNS if name in spelled), None)


def _read(path: Path) -> tuple[RawLog, ...]:
    delimiter = _delimiter(opening(path) or "") or ","
    names = header(path, delimiter)
    if (step := _step_name(names)) is None:
        found = f"the columns {', '.join(name[:80] for name in names[:_LISTED])}"
        raise ReadError(str(path), expected="a column with the step", found=found, remedy="Name it step.")
    return (_log(path, sheet(path, delimiter), step),)


def _log(path: Path, cells: Sheet, step: str) -> RawLog:
    where = str(path)
    axis = next(column for column in cells.columns if column.name == step)
    steps = steps_from(axis, where) if is_whole(axis) or step.lower() not in _LONGER else _lines(axis, where)
    wall = next((column for column in cells.columns if column.name.lower() in _WALL and _is_time(column)), None)
    rows, problems = Rows(), [*cells.problems, *_of_axis(axis, where), *steps.problems]
    one_tag = tuple(column.name for column in cells.columns) == _OF_ONE_TAG
    match = _TAG.fullmatch(path.stem) if one_tag else None
    for column in cells.columns:
        if column is axis or column is wall or (column.name in _INDEX and column is cells.columns[0]):
            continue
        take(rows, match["tag"] if match else column.name, column, steps, wall)
        problems += [*column.junk.problems(where, "not a number"), *steps.without(column, where)]
    problems += [*_named(path, match), *sampled(steps, where), *rows.repeated(where)]
    name = match["run"] if match else path.stem
    return RawLog(name=name, path=where, container=READER.id, scalars=rows.table(), axis=step, problems=tuple(problems))


def _is_time(column: Column) -> bool:
    """Whether a column holds seconds since the epoch."""
    return bool(column.values.size) and not column.junk.count and bool(np.all(column.values > _EPOCH))


def _lines(axis: Column, where: str) -> Steps:
    """Where only a fraction of an epoch is given, the place of the row stands for the step."""
    what = f"the only axis, {axis.name}, is no whole number: the place of the row, from 0, stands for the step"
    note = ReadProblem(path=where, place=f"column {axis.name}", what=what, kind=ProblemKind.NOTE)
    return Steps(lines=axis.lines, steps=np.arange(axis.lines.size), name=axis.name, problems=(note,))


def _of_axis(axis: Column, where: str) -> tuple[ReadProblem, ...]:
    if axis.name.lower() not in _LONGER:
        return ()
    what = f"{axis.name} is taken as the step, for want of one"
    return (ReadProblem(path=where, place=f"column {axis.name}", what=what, kind=ProblemKind.NOTE),)


def _named(path: Path, match: re.Match[str] | None) -> tuple[ReadProblem, ...]:
    if match is None:
        return ()
    what = f"TensorBoard's download of one tag: run and tag are read from the file's name, where '/' has become '_': {match['tag']}"
    return (ReadProblem(path=str(path), place="", what=what, kind=ProblemKind.NOTE),)


READER = Reader(id="csv_log", title="CSV metric log", objection=_objection, read=_read)
