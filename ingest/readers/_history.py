"""`run.history().to_csv()`: one run, a column per metric, `_step` anywhere among them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ingest.readers._cells import Column, Sheet
from ingest.readers._rows import Rows
from ingest.readers._steps import Steps, sampled, steps_from
from ingest.run import RawLog

_INDEX = ("", "Unnamed: 0")
_AXES = ("_step", "_timestamp", "_runtime", *_INDEX)


def is_history(names: Sequence[str]) -> bool:
    """Whether the columns are a history: the step is named as wandb's own records name it."""
    return "_step" in names


def history_run(path: Path, container: str, cells: Sheet) -> RawLog:
    """Turn the columns of a history into one raw log, named after the file."""
    named = {column.name: column for column in reversed(cells.columns)}  # the first of two columns wins as an axis
    steps = steps_from(named["_step"], str(path))
    wall = named.get("_timestamp", Column(name="_timestamp"))
    rows, problems = Rows(), [*cells.problems, *steps.problems]
    for column in cells.columns:
        if column.name not in _AXES:
            take(rows, column.name, column, steps, wall)
            problems += column.junk.problems(str(path), "not a number")
            problems += steps.without(column, str(path))
    problems += [*sampled(steps, str(path)), *rows.repeated(str(path))]
    return RawLog(name=path.stem, path=str(path), container=container, scalars=rows.table(), problems=tuple(problems))


def take(rows: Rows, key: str, column: Column, steps: Steps, wall: Column | None = None) -> None:
    """Add the numbers of a column that have a step."""
    at, there = steps.at(column.lines)
    walls = wall.at(column.lines[there])[0] if wall is not None else None
    rows.extend(key, at[there], column.values[there], walls)
