"""`python -m monitor summarize PATH`: the metric frame of every run at a path."""

from __future__ import annotations

import argparse
import math
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa

from monitor.commands._command import OK, Command, Document, Framed, framed, number, problem_lines, problems_of, reading_arguments
from monitor.metrics.sanity import check
from monitor.metrics.series import series

# What the text form shows of a run; the JSON form has every row.
SHOWN = (
    "reward.mean",
    "ratio.total.mean",
    "clip_rate.total.outside",
    "kl.total.k3",
    "entropy.mean",
    "version_lag.mean",
    "log_ratio.discrepancy.abs_mean",
    "log_ratio.lag.abs_mean",
    "ess.lag.token",
    "ess.lag.sequence",
    "ess.total.token",
    "nonfinite.engine",
    "nonfinite.trainer",
)

ENOUGH = 8  # of these; a framework's log may have other ratios and estimators


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", type=Path, metavar="PATH", help="a log, a run folder, or a folder of runs")
    reading_arguments(parser)


def _run(given: argparse.Namespace) -> tuple[int, Document, str]:
    read = framed(given.path, given)
    rows = [row for run, frame in read for row in rows_of(run.name, frame)]
    odd = [{"run": run.name, **asdict(each)} for run, frame in read for each in check(frame)]
    document = {"metrics": rows, "oddities": odd, "problems": [each for run, _ in read for each in problems_of(run)]}
    return OK, document, _text(read)


def rows_of(name: str, frame: pa.Table) -> list[Document]:
    """A frame as JSON rows; a value that is not finite is null with a state, so that NaN, infinite and empty stay apart.

    No token entered a value whose mask was false everywhere (empty), or whose tokens were none of them finite (NaN).
    """
    counts = [series(frame, f"nonfinite.{side}") for side in ("engine", "trainer")]
    bad = {int(step) for each in counts for step in each.steps[each.values > 0]}
    return [_row(name, row, bad) for row in frame.to_pylist()]


def _row(name: str, row: Document, bad: set[int]) -> Document:
    value = row["value"]
    written: Document = {**row, "run": name, "value": number(value), "standard_error": number(row["standard_error"])}
    if not math.isfinite(value):
        written["state"] = "inf" if math.isinf(value) else ("empty" if row["n"] == 0 and row["step"] not in bad else "nan")
    return written


def _text(read: tuple[Framed, ...]) -> str:
    lines: list[str] = []
    for run, frame in read:
        lines.append(f"{run.name} ({run.path}; {run.dialect or 'tokens only'})")
        lines += [_line(metric, frame) for metric in _shown(frame)]
        lines += [f"  ! {each.text}" for each in check(frame)]
    return "\n".join([*lines, *problem_lines(run for run, _ in read)])


def _shown(frame: pa.Table) -> list[str]:
    """The metrics of SHOWN that the run has; for a log that has few of them, what it has instead."""
    present = set(frame["metric"].unique().to_pylist())
    shown = [metric for metric in SHOWN if metric in present]
    return shown if len(shown) >= ENOUGH else [*shown, *sorted(present - {*shown})[: len(SHOWN) - len(shown)]]


def _line(metric: str, frame: pa.Table) -> str:
    found = series(frame, metric)
    split = "" if found.caveat in {"", "split: exact"} or "split: " not in found.caveat else f"; {found.caveat}"
    return (
        f"  {metric:32} steps {found.steps[0]}..{found.steps[-1]} ({found.steps.size}), "
        f"first {found.values[0]:.6g}, last {found.values[-1]:.6g}, {found.origin}{split}"
    )


COMMAND = Command(name="summarize", title="print the metric frame", arguments=_arguments, run=_run)
