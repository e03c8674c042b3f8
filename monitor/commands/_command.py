"""What a command is, and what every command shares: reading runs, and JSON in which nothing is lost."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from ingest.errors import ReadError
from ingest.load import load
from ingest.run import ProblemKind, Run
from monitor.metrics.frame import metric_frame

Document = dict[str, Any]
OK, FOUND, UNREADABLE = 0, 1, 2  # exit codes: nothing found, something found, cannot be read


@dataclass(frozen=True, kw_only=True)
class Command:
    """One command: its arguments, and a function from them to (exit code, JSON document, text)."""

    name: str
    title: str
    arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], tuple[int, Document, str]]


def read(path: Path) -> tuple[Run, ...]:
    """The runs at `path`.

    Raises:
        RatiometerError: nothing there can be read or understood.
    """
    if not path.exists():
        raise ReadError(str(path), expected="a file or a folder", found="nothing", remedy="Check the path.")
    return load(path)


def frame_of(run: Run) -> pa.Table:
    """The metric frame of a run; progress goes to standard error where somebody is watching it."""
    watched = sys.stderr.isatty()

    def progress(done: int, total: int) -> None:
        sys.stderr.write(f"\r{run.name}: {done} of {total} pieces" + ("\n" if done == total else ""))

    return metric_frame(run, progress=progress if watched else None)


def problems_of(run: Run) -> list[Document]:
    """What was not read or not understood, as JSON rows."""
    return [
        {"run": run.name, "path": each.path, "place": each.place, "what": each.what, "rows": each.rows, "kind": str(each.kind)}
        for each in run.problems
    ]


def problem_lines(runs: tuple[Run, ...]) -> list[str]:
    """The same for a terminal, what was lost first."""
    order = list(ProblemKind)
    found = sorted((each for run in runs for each in run.problems), key=lambda each: order.index(each.kind))
    return [f"  {each.kind}: {each.path} {each.place}: {each.what}" + (f" ({each.rows} rows)" if each.rows else "") for each in found]


def number(value: float | None) -> float | None:
    """A finite number, or None: JSON has no NaN."""
    return None if value is None or not math.isfinite(value) else float(value)


def dump(document: Document) -> str:
    """One JSON document, in which NaN would be an error of ours."""
    return json.dumps(document, allow_nan=False, ensure_ascii=False, indent=1)
