"""The runs table of wandb: settings of each run, no curves; columns about people are left out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from ingest.readers._cells import header, records
from ingest.readers._numbers import number
from ingest.readers._rows import clean
from ingest.run import ProblemKind, RawLog, ReadProblem

_TABLE_COLUMNS = frozenset({"State", "Created", "Runtime", "ID", "User", "Notes", "Tags", "Sweep", "End Time"})
# About people or their machines; never kept, so that no page or export can show them.
_PERSONAL = frozenset(
    {
        "user",
        "username",
        "notes",
        "tags",
        "hostname",
        "host",
        "email",
        "github",
        "git commit",
        "git remote",
        "command",
        "program",
        "executable",
    },
)
_NO_CURVES = "a table of runs holds settings and last values, no curves: export a chart or the history for those"


def is_runs_table(names: Sequence[str]) -> bool:
    """Whether the columns are those of a runs table: a name, and something that only wandb knows about a run."""
    return "Name" in names and not _TABLE_COLUMNS.isdisjoint(names)


def table_runs(path: Path, container: str) -> tuple[RawLog, ...]:
    """One raw log per row: its settings as a flat configuration."""
    names = header(path)
    personal = [name for name in names if name.lower() in _PERSONAL]
    notes = [_NO_CURVES, f"left out as personal: {', '.join(personal)}"] if personal else [_NO_CURVES]
    problems = tuple(ReadProblem(path=str(path), place="", what=note, kind=ProblemKind.NOTE) for note in notes)
    rows = records(path)
    next(rows)
    return tuple(_row(path, container, dict(zip(names, cells, strict=False)), problems) for _, cells in rows)


def _row(path: Path, container: str, cells: dict[str, str], problems: tuple[ReadProblem, ...]) -> RawLog:
    config: dict[str, str | int | float | bool] = {}
    for name, cell in cells.items():
        if name and name != "Name" and name.lower() not in _PERSONAL and cell.strip() not in ("", "-"):
            config |= dict(_settings(_key(name), cell.strip()))
    return RawLog(name=clean(cells.get("Name", "")) or path.stem, path=str(path), container=container, config=config, problems=problems)


def _key(name: str) -> str:
    """What wandb knows itself, and last values of metrics, must not look like settings."""
    if name in _TABLE_COLUMNS:
        return f"wandb.{name.lower().replace(' ', '_')}"
    return f"summary.{name}" if name.startswith("_") or "/" in name else name


def _settings(key: str, cell: str) -> Iterator[tuple[str, str | int | float | bool]]:
    """One cell as settings: a JSON object becomes dotted keys, a list stays text."""
    if cell.startswith("{"):
        try:
            yield from _flat(key, json.loads(cell))
        except (ValueError, RecursionError):
            yield key, clean(cell)
        return
    yield key, scalar(cell)


def _flat(key: str, value: object) -> Iterator[tuple[str, str | int | float | bool]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _flat(f"{key}.{name}", inner)
    elif isinstance(value, (bool, int, float)):
        yield key, value
    elif value is not None:
        yield key, clean(value if isinstance(value, str) else json.dumps(value))


def scalar(cell: str) -> str | int | float | bool:
    """A setting in its own type: true and false, whole numbers, other numbers, else text."""
    if cell.lower() in ("true", "false"):
        return cell.lower() == "true"
    value = number(cell)
    if value is None:
        return clean(cell)
    return int(cell) if cell.lstrip("+-").isdecimal() else value
