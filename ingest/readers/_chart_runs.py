"""The runs of a wandb chart export as raw logs: values, envelopes of groups, the x axis, and what is said about them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from ingest.readers._cells import Column
from ingest.readers._chart import BETWEEN, Chart, Series
from ingest.readers._history import take
from ingest.readers._rows import Rows
from ingest.readers._steps import Steps, is_whole, rows_as_steps, sampled, steps_from
from ingest.run import ProblemKind, RawLog, ReadProblem

_STEP_NAMES = ("Step", "step", "_step", "global_step")  # x axes that are the step by name
LOW, HIGH = ".group_low", ".group_high"


def chart_runs(path: Path, container: str, parts: Chart, problems: tuple[ReadProblem, ...]) -> tuple[RawLog, ...]:
    """One raw log per run, in the order of the columns; problems of the whole file stand in the first."""
    where = str(path)
    names = dict.fromkeys((*(one.run for one in parts.series), *parts.steps))
    first, *others = [_run(where, container, parts, name) for name in names]
    whole_file = (*problems, *_shape_problems(parts, where))
    return (replace(first, problems=(*whole_file, *first.problems)), *others)


def _run(where: str, container: str, parts: Chart, name: str) -> RawLog:
    steps, x_is_kept = _axis(parts, name, where)
    rows = Rows()
    problems = list(steps.problems)
    for series in (one for one in parts.series if one.run == name):
        problems += _take_series(rows, series, steps, where)
    if x_is_kept:
        take(rows, parts.x.name, _where_run_is(parts.x, steps), steps)
    problems += [*sampled(steps, where, name), *rows.repeated(where)]
    return RawLog(name=name, path=where, container=container, scalars=rows.table(), problems=tuple(problems))


def _axis(parts: Chart, name: str, where: str) -> tuple[Steps, bool]:
    """Find the step of each line for one run, and whether the x axis is a metric of its own to be kept."""
    if name in parts.steps:
        return steps_from(parts.steps[name], where), parts.x.name not in _STEP_NAMES
    own = _lines_of(parts, name)
    x = _only(parts.x, own)
    if parts.x.name in _STEP_NAMES:
        return steps_from(x, where), False
    if not is_whole(parts.x):
        return rows_as_steps(x, where), True
    steps = steps_from(x, where)
    what = f"the x axis {parts.x.name} is taken as the step; the export has no `_step` columns"
    note = ReadProblem(path=where, place=f"column {parts.x.name}", what=what, kind=ProblemKind.NOTE)
    return Steps(lines=steps.lines, steps=steps.steps, name=steps.name, problems=(*steps.problems, note)), False


def _lines_of(parts: Chart, name: str) -> np.ndarray:
    """Lines on which a run has any number."""
    columns = [column for one in parts.series if one.run == name for column in (one.value, one.low, one.high) if column]
    first = columns[0].lines
    if all(column.lines is first or np.array_equal(column.lines, first) for column in columns[1:]):
        return first
    return np.unique(np.concatenate([column.lines for column in columns]))


def _only(column: Column, lines: np.ndarray) -> Column:
    """The numbers of a column on some lines."""
    values, there = column.at(lines)
    return Column(name=column.name, lines=lines if there.all() else lines[there], values=values[there])


def _where_run_is(x: Column, steps: Steps) -> Column:
    return _only(x, steps.lines)


def _take_series(rows: Rows, series: Series, steps: Steps, where: str) -> list[ReadProblem]:
    """Add a series; an envelope that differs from the values makes it a group's mean, and is kept beside it."""
    columns = {series.metric: series.value}
    problems: list[ReadProblem] = []
    if _differs(series.low, series.value) or _differs(series.high, series.value):
        columns |= {series.metric + end: column for end, column in ((LOW, series.low), (HIGH, series.high)) if column is not None}
        what = "a group of runs: the value is the mean over them, the band their lowest and highest"
        problems.append(ReadProblem(path=where, place=f"column {series.value.name}", what=what, kind=ProblemKind.NOTE))
    for key, column in columns.items():
        take(rows, key, column, steps)
        problems += [*column.junk.problems(where, "not a number"), *steps.without(column, where)]
    return problems


def _differs(envelope: Column | None, value: Column) -> bool:
    """Whether an envelope says anything that the values do not; NaN beside NaN is the same."""
    if envelope is None or envelope.values is value.values:
        return False
    values, there = value.at(envelope.lines)
    return not (there.all() and np.array_equal(values, envelope.values, equal_nan=True))


def _shape_problems(parts: Chart, where: str) -> list[ReadProblem]:
    """What is odd about the header."""
    strange = [
        ReadProblem(path=where, place=f"column {column.name}", what="the column is not named `run - metric`", rows=column.cells)
        for column in parts.strange
        if column.cells
    ]
    twice = [
        ReadProblem(
            path=where, place=f"column {name}", what="several runs have this name; they are told apart by a number", kind=ProblemKind.NOTE
        )
        for name in parts.same_name
    ]
    no_x = [replace(problem, rows=0, kind=ProblemKind.NOTE) for problem in parts.x.junk.problems(where, "the x axis is not a number here")]
    return [*strange, *twice, *no_x, *_ambiguous(parts, where)]


def _ambiguous(parts: Chart, where: str) -> list[ReadProblem]:
    """Say where " - " could divide the names at another place: all of several runs end alike."""
    ends = {one.run.rpartition(BETWEEN)[2] for one in parts.series if one.run not in parts.steps}
    runs = {one.run for one in parts.series}
    if len(runs) == 1 or len(ends) != 1 or not all(BETWEEN in run for run in runs):
        return []
    what = f"every run's name ends in '{ends.pop()}' if the last ' - ' divides run and metric, as is assumed; it may be part of the metric"
    return [ReadProblem(path=where, place="header", what=what, kind=ProblemKind.NOTE)]
