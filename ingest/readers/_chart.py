"""The header of a wandb chart export, taken apart: which column is which run, metric, envelope, step."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from ingest.readers._cells import Column

BETWEEN = " - "
_LOW, _HIGH = "__MIN", "__MAX"
_STEP = "_step"
_INDEX = ("", "Unnamed: 0")  # what pandas and Streamlit put before the first column when a table is saved


@dataclass(frozen=True, kw_only=True)
class Series:
    """One metric of one run: its values and, in exports of groups, the envelope."""

    run: str
    metric: str
    value: Column
    low: Column | None
    high: Column | None


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A chart export: x axis, series, and the true step of each run where the x axis is another metric."""

    x: Column
    series: tuple[Series, ...]
    steps: dict[str, Column] = field(default_factory=dict)
    strange: tuple[Column, ...] = ()  # neither x nor "run - metric"
    same_name: tuple[str, ...] = ()  # columns that occur twice: runs of one display name


def chart(columns: tuple[Column, ...]) -> Chart | None:
    """Take the columns of an export apart; None where they are not `x, run - metric, …`."""
    columns = columns[1:] if columns and columns[0].name in _INDEX else columns
    if not columns or not (series_columns := [column for column in columns if BETWEEN in column.name]) or BETWEEN in columns[0].name:
        return None
    numbered = _numbered(series_columns)
    names = _run_names([name for name, _ in numbered])
    main = {key: column for key, column in numbered.items() if not _is_envelope(key, numbered)}
    series = [_series(key, column, numbered, names) for key, column in main.items()]
    return Chart(
        x=columns[0],
        series=tuple(one for one in series if one.metric != _STEP),
        steps={one.run: one.value for one in series if one.metric == _STEP},
        strange=tuple(column for column in columns[1:] if BETWEEN not in column.name),
        same_name=tuple(dict.fromkeys(name for name, nth in main if nth > 1)),
    )


_Numbered = dict[tuple[str, int], Column]


def _numbered(columns: list[Column]) -> _Numbered:
    """Key columns by name and occurrence: display names of runs are not unique."""
    seen: Counter[str] = Counter()
    numbered: _Numbered = {}
    for column in columns:
        seen[column.name] += 1
        numbered[column.name, seen[column.name]] = column
    return numbered


def _is_envelope(key: tuple[str, int], numbered: _Numbered) -> bool:
    name, nth = key
    return any(name.endswith(suffix) and (name.removesuffix(suffix), nth) in numbered for suffix in (_LOW, _HIGH))


def _run_names(names: list[str]) -> tuple[str, ...]:
    """Runs that are named beyond doubt, by a `_step` column of their own; longest first."""
    end = BETWEEN + _STEP
    return tuple(sorted({name.removesuffix(end) for name in names if name.endswith(end)}, key=len, reverse=True))


def _series(key: tuple[str, int], value: Column, numbered: _Numbered, names: tuple[str, ...]) -> Series:
    name, nth = key
    run = next((run for run in names if name.startswith(run + BETWEEN)), None)
    run, metric = (run, name.removeprefix(run + BETWEEN)) if run is not None else name.rsplit(BETWEEN, 1)
    low, high = numbered.get((name + _LOW, nth)), numbered.get((name + _HIGH, nth))
    return Series(run=run if nth == 1 else f"{run} ({nth})", metric=metric, value=value, low=low, high=high)
