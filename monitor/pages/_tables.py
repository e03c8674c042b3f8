"""The tables under the overlay: crossings, problems, definitions and the numbers drawn; curves and frames in, pandas tables out."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ingest.run import ProblemKind, ReadProblem
from monitor.metrics.crossings import Crossing
from monitor.pages._curves import Curve, Strip, View
from monitor.pages._escape import for_csv, plain
from monitor.pages._panels import ratio_of

CROSSING_COLUMNS = ("run", "ratio", "level", "from step", "to step", "lowest value", "at step", "back above at")
MOST_ROWS = 200  # of a table on the page; its CSV has all
FEW_RUNS = 3  # named one by one where they share a problem
MEANING_COLUMNS = ("metric", "formula", "unit", "range", "no mismatch", "better", "blind to", "source")
PROBLEM_COLUMNS = ("run", "kind", "where", "what", "rows")
DIVERGENCE_COLUMNS = ("run", "metric", "from step", "certain at", "until", "at most")
EPISODE_COLUMNS = ("rule", "from step", "fires at", "over at", "worst value", "at step", "metric read")
HISTORY_COLUMNS = ("when", "run", "rule", "what", "step", "value", "told")
WHAT_IF_COLUMNS = (
    *("correction", "weights", "lowest ESS", "under 1/2", "tokens cut", "sequences cut", "heaviest sequence", "E[w²]", "variance of A w"),
    *("mass kept", "bias bound"),
)
INTERVAL_COLUMNS = ("level", "would resynchronise", "ESS at versions behind", "reaches 1/2 at", "how it falls")
UNCHECKED_COLUMNS = ("question", "layer", "why", "to record")


def crossing_table(strips: Sequence[Strip], view: View) -> pd.DataFrame:
    """A row per stay under the threshold that touches the part drawn, by its first step; text is as the log has it, not yet escaped."""
    drawn = [curve for strip in strips if strip.panel.ess for curve in strip.curves]
    found = [(curve, stay) for curve in drawn for stay in curve.stays if view.touches(stay)]
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
    """A row per thing that was not understood while reading, what was lost first; runs, and their files, that share one are folded.

    Args:
        found: label of the run, and the problem.
        runs: how many runs are looked at.
    """
    alike: dict[tuple[ProblemKind, str, str], list[tuple[str, ReadProblem]]] = {}
    for label, problem in found:
        alike.setdefault((problem.kind, plain(problem.place), plain(problem.what)), []).append((label, problem))
    order = list(ProblemKind)
    rows = [_folded(same, runs) for _, same in sorted(alike.items(), key=lambda item: order.index(item[0][0]))]
    return pd.DataFrame(rows, columns=list(PROBLEM_COLUMNS))


def problem_rows(found: Iterable[tuple[str, ReadProblem]]) -> pd.DataFrame:
    """The same with a row for each run, nothing folded."""
    return pd.DataFrame([_folded([one], 1) for one in found], columns=list(PROBLEM_COLUMNS))


def _folded(same: Sequence[tuple[str, ReadProblem]], runs: int) -> tuple[str, str, str, str, int]:
    problem = same[0][1]
    files = {_file(each, label) for label, each in same}
    where = plain(f"{files.pop() if len(files) == 1 else ''} {problem.place}") or (f"{len(files)} files" if files else "")
    return _together([label for label, _ in same], runs), problem.kind.value, where, plain(problem.what), sum(each.rows for _, each in same)


def _together(labels: Iterable[str], runs: int) -> str:
    distinct = list(dict.fromkeys(labels))
    if len(distinct) == runs > 1:
        return f"all {runs} runs"
    return ", ".join(distinct) if len(distinct) <= FEW_RUNS else f"{len(distinct)} runs"


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
