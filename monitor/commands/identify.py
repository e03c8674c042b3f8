"""`python -m monitor identify PATH`: what a log is, why it is taken for that, and what it cannot tell."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from ingest.growing import passed_over
from ingest.identify import dialects, readers
from ingest.run import ProblemKind, ReadProblem, Run
from monitor.commands._command import OK, Command, Document, problem_lines, problems_of, read, reading_arguments

_SHOWN = 12  # keys named in the text form; the JSON form has all


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", type=Path, metavar="PATH", help="a log, a run folder, or a folder of runs")
    reading_arguments(parser)


def _run(given: argparse.Namespace) -> tuple[int, Document, str]:
    runs = _with_left_out(given.path, read(given.path, given))
    document = {
        "container": _each(run.container for run in runs),
        "dialect": _each(run.dialect for run in runs),
        "why": _each(run.why for run in runs),
        "runs": [_described(run) for run in runs],
        "problems": [each for run in runs for each in problems_of(run)],
    }
    return OK, document, _text(runs)


def _with_left_out(path: Path, runs: tuple[Run, ...]) -> tuple[Run, ...]:
    """The runs, the first with what is left out at the path: it is about none of them."""
    said = (ReadProblem(path=str(path), place="beside the runs", what=what, kind=ProblemKind.NOTE) for what in passed_over(str(path)))
    return (replace(runs[0], problems=(*runs[0].problems, *said)), *runs[1:])


def _each(names: Iterable[str]) -> str:
    """What the runs have in common, or each different word once, in the order of the runs."""
    return ", ".join(dict.fromkeys(name for name in names if name))


def _described(run: Run) -> Document:
    logged, derived = _apart(run.scalars)
    return {
        "name": run.name,
        "container": run.container,
        "dialect": run.dialect,
        "why": run.why,
        "old_is": run.old_is,
        "metrics": _counts(logged, "source_key"),
        "derived": _counts(derived, "quantity"),
        "token_columns": sorted(run.tokens.columns) if run.tokens else [],
        "token_rows": _token_rows(run),
        "settings": dict(run.config_sources),
        "unmapped": [problem.place.removeprefix("key ") for problem in run.problems if problem.kind is ProblemKind.UNMAPPED],
        "notes": [_said(problem) for problem in run.problems if problem.kind is ProblemKind.NOTE],
        "problems": [_problem(problem) for problem in run.problems if problem.kind is not ProblemKind.NOTE],
    }


def _apart(scalars: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Values that were logged, and values that were computed from several logged ones."""
    computed = pc.starts_with(scalars.column("caveat"), "derived")
    return scalars.filter(pc.invert(computed)), scalars.filter(computed)


def _token_rows(run: Run) -> int | None:
    """Tokens, or responses of a log that has a row for each; None where only reading them would tell."""
    rows = [piece.rows for piece in run.tokens.pieces] if run.tokens else []
    return None if None in rows else sum(row for row in rows if row is not None)


def _counts(rows: pa.Table, column: str) -> dict[str, int]:
    return dict(sorted(Counter(rows.column(column).to_pylist()).items()))


def _problem(problem: ReadProblem) -> Document:
    return {"place": problem.place, "what": problem.what, "rows": problem.rows, "kind": str(problem.kind)}


def _said(problem: ReadProblem) -> str:
    return f"{problem.place}: {problem.what}" if problem.place else problem.what


def _text(runs: tuple[Run, ...]) -> str:
    return "\n".join([line for run in runs for line in _lines(run)] + problem_lines(runs))


def _lines(run: Run) -> list[str]:
    told = _described(run)
    container = next((reader.title for reader in readers() if reader.id == run.container), run.container)
    dialect = next((dialect.title for dialect in dialects() if dialect.id == run.dialect), run.dialect or "none")
    lines = [f"{run.name} ({run.path})", f"  container  {container}", f"  dialect    {dialect}: {run.why}"]
    lines += [f"  old        {run.old_is}"] if run.old_is else []
    for name in ("metrics", "derived"):
        lines += [f"  {name:10} {_listed([f'{key} ({count})' for key, count in told[name].items()])}"] if told[name] else []
    rows = "" if told["token_rows"] is None else f"{told['token_rows']:,} rows: "
    tokens = rows + ", ".join(told["token_columns"])
    lines += [f"  tokens     {tokens}"] if run.tokens else []
    return [*lines, *([f"  unmapped   {_listed(told['unmapped'])}"] if told["unmapped"] else [])]


def _listed(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


COMMAND = Command(name="identify", title="say what a log is, why, and what it cannot tell", arguments=_arguments, run=_run)
