"""CSV as wandb exports it: a chart (several runs, one metric or more), a run's history, or the table of runs."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from ingest.errors import ReadError
from ingest.reader import Reader
from ingest.readers._cells import Column, header, sheet
from ingest.readers._chart import chart
from ingest.readers._chart_runs import chart_runs
from ingest.readers._console import is_console
from ingest.readers._history import history_run, is_history
from ingest.readers._runs_table import is_runs_table, table_runs
from ingest.readers._text import opening
from ingest.run import RawLog

_LISTED = 12


def _objection(path: Path) -> str | None:
    if (first := opening(path)) is None:
        return "it is not a text file"
    if first.lstrip("\ufeff \t").startswith(("{", "[")):
        return "it is JSON"
    if "," not in first:
        return "its first line has no comma" if first else "it is empty"
    names = [name.strip() for name in next(csv.reader([first.removeprefix("\ufeff")]), [])]
    return _objection_to(names) or ("it is a console log" if is_console(path) else None)


def _objection_to(names: Sequence[str]) -> str | None:
    """What speaks against a header: it must have one of the shapes that wandb exports."""
    if is_runs_table(names) or is_history(names) or chart(tuple(Column(name=name) for name in names)) is not None:
        return None
    listed = ", ".join(name[:40] for name in names[:_LISTED])
    return f"its columns ({listed}) are neither 'Step, run - metric, …' nor 'Name, State, …' nor a history with _step"


def _read(path: Path) -> tuple[RawLog, ...]:
    names = header(path)
    if is_runs_table(names):
        return table_runs(path, READER.id)
    cells = sheet(path)
    if is_history(names):
        return (history_run(path, READER.id, cells),)
    if (parts := chart(cells.columns)) is not None:
        return chart_runs(path, READER.id, parts, cells.problems)
    raise ReadError(
        str(path),
        expected="a wandb export: 'Step, run - metric, …' (a chart), 'Name, State, …' (the runs table) or a history with _step",
        found=f"the columns {', '.join(name[:80] for name in names[:_LISTED])}" + (" …" if len(names) > _LISTED else ""),
        remedy="Export the chart as CSV in wandb, or name the step column _step and the others by our metric ids (docs/formats.md).",
    )


READER = Reader(id="wandb_csv", title="wandb CSV export", objection=_objection, read=_read)
