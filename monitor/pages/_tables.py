"""The tables under the overlay: crossings, problems, definitions and the numbers drawn; curves and frames in, pandas tables out."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ingest.run import ReadProblem
from monitor.metrics.crossings import Crossing
from monitor.pages._curves import Curve, Strip
from monitor.pages._escape import for_csv, plain
from monitor.pages._panels import ratio_of

CROSSING_COLUMNS = ("run", "ratio", "level", "from step", "to step", "lowest value", "at step", "back above at")
MOST_ROWS = 200  # of a table on the page; its CSV has all
PROBLEM_COLUMNS = ("run", "kind", "where", "what", "rows")


def crossing_table(strips: Sequence[Strip]) -> pd.DataFrame:
    """A row per stay under the threshold, in the order of its first step; text is as the log has it, not yet escaped."""
    found = [(curve, stay) for strip in strips if strip.panel.ess for curve in strip.curves for stay in curve.stays]
    found.sort(key=lambda pair: (pair[1].from_step, pair[0].who.label, pair[0].metric))
    return pd.DataFrame([_crossing(curve, stay, strips) for curve, stay in found], columns=list(CROSSING_COLUMNS))


def _crossing(curve: Curve, stay: Crossing, strips: Sequence[Strip]) -> tuple[str, ...]:
    level = curve.metric.rsplit(".", 1)[-1] + (", lowest run of the group" if curve.envelope is not None else "")
    first = f"{stay.from_step} (first row)" if stay.starts_under else str(stay.from_step)
    recovered = "still under at the end" if stay.recovered_step is None else str(stay.recovered_step)
    unknown = f" ({stay.unknown_steps} without a value)" if stay.unknown_steps else ""
    lowest = (f"{stay.lowest:.3g}", str(stay.lowest_step))
    return (curve.who.label, shown_ratio(curve, strips), level, first, f"{stay.to_step}{unknown}", *lowest, recovered)


def shown_ratio(curve: Curve, strips: Sequence[Strip]) -> str:
    """The ratio that a curve shows, with a word where it stands in for the one asked for."""
    wanted = next((ratio_of(strip.panel.metrics[0]) for strip in strips if curve in strip.curves), "")
    shown = ratio_of(curve.metric)
    return shown if shown == wanted else f"{shown} ({wanted} not separable)"


def problem_table(found: Iterable[tuple[str, ReadProblem]], runs: int) -> pd.DataFrame:
    """A row per thing that was not understood while reading; runs (by label) that share one are named together.

    Args:
        found: label of the run, and the problem.
        runs: how many runs are looked at.
    """
    rows = [
        (label, problem.kind.value, plain(f"{_file(problem, label)} {problem.place}"), plain(problem.what), problem.rows)
        for label, problem in found
    ]
    table = pd.DataFrame(rows, columns=list(PROBLEM_COLUMNS))
    same = table.groupby(["kind", "where", "what"], sort=False, as_index=False)
    return same.agg({"run": lambda labels: _together(labels, runs), "rows": "sum"})[list(PROBLEM_COLUMNS)]


def _together(labels: Iterable[str], runs: int) -> str:
    distinct = list(dict.fromkeys(labels))
    return f"all {runs} runs" if len(distinct) == runs > 1 else ", ".join(distinct)


def _file(problem: ReadProblem, label: str) -> str:
    """The file's name; empty where it only says the run's again."""
    name = problem.path.rsplit("/", 1)[-1]
    return "" if name == label else name


def drawn_rows(strips: Sequence[Strip], frames: Mapping[str, pa.Table]) -> pd.DataFrame:
    """The rows of the metric frames that the strips draw, unsmoothed, with the run's label in front.

    Args:
        strips: what is drawn.
        frames: metric frames by the run's label.
    """
    drawn = dict.fromkeys((curve.who.label, curve.metric, curve.origin) for strip in strips for curve in strip.curves)
    parts = [_rows(frames[label], metric, origin).assign(run=label) for label, metric, origin in drawn]
    if not parts:
        return pd.DataFrame()
    joined = pd.concat(parts, ignore_index=True)
    return joined[["run", *(column for column in joined.columns if column != "run")]]


def _rows(frame: pa.Table, metric: str, origin: str) -> pd.DataFrame:
    return frame.filter(pc.and_(pc.equal(frame["metric"], metric), pc.equal(frame["origin"], origin))).to_pandas()


def as_csv(table: pd.DataFrame) -> bytes:
    """CSV whose text cells no spreadsheet will run."""
    text = table.select_dtypes(exclude="number").columns
    safe = table.assign(**{column: table[column].map(for_csv) for column in text})
    return str(safe.to_csv(index=False, quoting=csv.QUOTE_NONNUMERIC)).encode()


def escaped(table: pd.DataFrame, escape: Callable[[object], str]) -> pd.DataFrame:
    """The table with every cell as escaped text."""
    return table.map(escape)
