"""What a command is, and what every command shares: reading runs, and JSON in which nothing is lost."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from ingest.errors import ReadError
from ingest.identify import address_reader
from ingest.load import load
from ingest.run import ProblemKind, ReadProblem, Run
from ingest.user_mapping import read_mapping
from monitor.commands._terminal import printable
from monitor.metrics.frame import metric_frame_with_problems

Document = dict[str, Any]
Framed = tuple[Run, pa.Table]
OK, FOUND, UNREADABLE = 0, 1, 2  # exit codes: nothing found, something found, cannot be read
INTERRUPTED = 130  # as shells have it


@dataclass(frozen=True, kw_only=True)
class Command:
    """One command: its arguments, and a function from them to (exit code, JSON document, text)."""

    name: str
    title: str
    arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], tuple[int, Document, str]]
    streams: bool = False  # it prints by itself while it runs, with --json a document a line; nothing is printed at its end


def reading_arguments(parser: argparse.ArgumentParser) -> None:
    """What every command takes that reads logs: the user's own word on their names."""
    parser.add_argument("--dialect", metavar="ID", help="read the keys as this framework's, whatever they look like (docs/formats.md)")
    parser.add_argument("--map", type=Path, metavar="FILE", help="a TOML file that says what single keys are (docs/formats.md)")


def read(path: Path, given: argparse.Namespace) -> tuple[Run, ...]:
    """The runs at `path`, in the dialect and with the mapping that the user names, if any.

    Raises:
        RatiometerError: nothing there can be read or understood.
    """
    check_there(path)
    return load(path, dialect=given.dialect, mapping=read_mapping(given.map) if given.map else None)


def check_there(path: Path) -> None:
    """Refuse a path at which there is nothing.

    Raises:
        ReadError: there is neither a file nor a folder, and it is no address.
    """
    if address_reader(str(path)) is None and not (path.is_file() or path.is_dir()):  # a pipe cannot be looked at twice, and may never end
        found = "neither" if path.exists() else "nothing"
        raise ReadError(str(path), expected="a file or a folder", found=found, remedy="Check the path.")


def framed(path: Path, given: argparse.Namespace) -> tuple[Framed, ...]:
    """The runs at `path` with their metric frames; problems met while the tokens were read join the run's own."""
    found = framed_or_refused(path, given)
    if not any(frame.num_rows for _, frame in found):
        raise _empty(path)
    return found


def framed_or_refused(path: Path, given: argparse.Namespace) -> tuple[Framed, ...]:
    """The same, and runs of which nothing but problems is left: that every row was refused is an answer too, for a diagnosis."""
    found = tuple(_framed(run) for run in read(path, given))
    if not any(frame.num_rows or any(each.rows for each in run.problems) for run, frame in found):
        raise _empty(path)
    return found


def _empty(path: Path) -> ReadError:
    return ReadError(str(path), expected="at least one value", found="none", remedy="Is the log empty, or still being written?")


def _framed(run: Run) -> Framed:
    """One run; progress goes to standard error where somebody is watching it."""
    told = partial(progress("row groups"), run.name) if sys.stderr.isatty() else None
    frame, problems = metric_frame_with_problems(run, progress=told)
    return replace(run, problems=(*run.problems, *problems)), frame


def progress(what: str) -> Callable[[str, int, int], None]:
    """Says on standard error how much of a run is done, in one line that is written over."""

    def say(run: str, done: int, total: int) -> None:
        sys.stderr.write(f"\r{printable(run)}: {done} of {total} {what}" + ("\n" if done == total else ""))
        sys.stderr.flush()

    return say


def problems_of(run: Run) -> list[Document]:
    """What was not read or not understood, as JSON rows."""
    return [
        {"run": run.name, "path": each.path, "place": each.place, "what": each.what, "rows": each.rows, "kind": str(each.kind)}
        for each in run.problems
    ]


def problem_lines(runs: Iterable[Run]) -> list[str]:
    """The same for a terminal: what was lost first, and one line for what several runs share."""
    alike: dict[tuple[ProblemKind, str, str], list[ReadProblem]] = {}
    for each in (problem for run in runs for problem in run.problems):
        alike.setdefault((each.kind, each.place, each.what), []).append(each)
    order = list(ProblemKind)
    lines = [_problem_line(same) for _, same in sorted(alike.items(), key=lambda item: order.index(item[0][0]))]
    return ["Read problems:", *lines] if lines else []


def _problem_line(same: list[ReadProblem]) -> str:
    first, rows = same[0], sum(each.rows for each in same)
    where = first.path if len(same) == 1 else f"{len(same)} runs"
    return f"  {first.kind}: {where} {first.place}: {first.what}" + (f" ({rows} rows)" if rows else "")


def number(value: float | None) -> float | None:
    """A finite number, or None: JSON has no NaN."""
    return None if value is None or not math.isfinite(value) else float(value)


def dump(document: Document, *, indent: int | None = 1) -> str:
    """One JSON document, in which NaN would be an error of ours; on one line where it is not indented."""
    return json.dumps(document, allow_nan=False, ensure_ascii=False, indent=indent)
