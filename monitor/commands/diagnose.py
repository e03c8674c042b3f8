"""`python -m monitor diagnose PATH`: which layer is at fault, since when, how sure that is, and what to change."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa

from ingest.run import Run
from monitor.commands._command import FOUND, OK, Command, Document, framed_or_refused, number, problem_lines, problems_of, reading_arguments
from monitor.commands._references import references
from monitor.diagnosis.diagnose import Answer, Diagnosis, case_of, diagnose
from monitor.diagnosis.outcome import LAYERS, Evidence, Finding, Passed, Skipped

_INDENT = "      "


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", type=Path, metavar="PATH", help="a log, a run folder, or a folder of runs")
    parser.add_argument(
        "--reference", type=Path, nargs="+", default=[], metavar="PATH", help="the reference run; several are seeds of one configuration"
    )
    reading_arguments(parser)


def _run(given: argparse.Namespace) -> tuple[int, Document, str]:
    seeds = references(given.reference, given)
    read = framed_or_refused(given.path, given)
    told = [_told(run, frame, {name: other for name, (_, other) in seeds.items()}) for run, frame in read]
    runs = (*(run for run, _ in read), *(run for run, _ in seeds.values()))
    first = min(told, key=lambda each: LAYERS.index(each.layer) if each.layer else len(LAYERS) + (not each.unplaced))
    document = {
        "verdict": first.verdict if len(told) == 1 else f"{first.run.name}: {first.verdict}",
        "layer": first.layer,
        "findings": [_finding(each.run, answer) for each in told for answer in each.findings],
        "skipped": [_skipped(each.run, answer) for each in told for answer in each.skipped],
        "runs": [_summary(each) for each in told],
        "references": list(seeds),
        "problems": [each for run in runs for each in problems_of(run)],
    }
    found = any(each.layer or each.unplaced for each in told)
    return (FOUND if found else OK), document, "\n".join([*_text(told), *problem_lines(runs)])


def _told(run: Run, frame: pa.Table, references: dict[str, pa.Table]) -> Diagnosis:
    """One run diagnosed; its portrait takes longer than its metrics, so how far it is goes to standard error where somebody is watching."""

    def progress(steps: int) -> None:
        sys.stderr.write(f"\r{run.name}: {steps} steps portrayed")

    watched = sys.stderr.isatty()
    case = case_of(run, frame, references, progress if watched else None)
    if watched and case.portrait is not None:
        sys.stderr.write("\n")
    return diagnose(case)


def _summary(told: Diagnosis) -> Document:
    layers = {str(layer): str(told.state(layer)) for layer in LAYERS}
    passed = [{"id": one.rule.id, "says": one.outcome.says} for one in told.answers if isinstance(one.outcome, Passed)]
    return {"run": told.run.name, "verdict": told.verdict, "layer": told.layer, "layers": layers, "passed": passed}


def _finding(run: Run, answer: Answer) -> Document:
    found = answer.outcome
    assert isinstance(found, Finding)  # noqa: S101 - `findings` holds nothing else
    return {
        "run": run.name,
        "id": answer.rule.id,
        "layer": answer.rule.layer,
        "severity": found.severity,
        "certainty": found.certainty,
        "what": found.what,
        "why": found.why,
        "since": found.since,
        "until": found.until,
        "steps": _steps(found),
        "evidence": [_evidence(each) for each in found.evidence],
        "fix": "; ".join(f"{each.change} ({each.where})" for each in found.fixes),
        "fixes": [asdict(each) for each in found.fixes],
        "look_at": found.look_at,
        "apart_from": list(found.apart_from),
    }


def _steps(found: Finding) -> list[int]:
    """Every step the finding or its evidence names, each once."""
    ends = [step for step in (found.since, found.until) if step is not None]
    return sorted({*ends, *(step for each in found.evidence for step in each.steps)})


def _evidence(each: Evidence) -> Document:
    return {
        "metric": each.metric,
        "says": each.says,
        "value": number(each.value),
        "threshold": number(each.threshold),
        "unit": each.unit,
        "source": each.source,
        "steps": list(each.steps),
        "origin": each.origin,
        "curve": None if each.curve is None else {name: _numbers(value) for name, value in asdict(each.curve).items()},
    }


def _numbers(value: Any) -> Any:  # noqa: ANN401 - a title, or a tuple of numbers
    return value if isinstance(value, str) else [number(one) for one in value]


def _skipped(run: Run, answer: Answer) -> Document:
    found = answer.outcome
    assert isinstance(found, Skipped)  # noqa: S101 - `skipped` holds nothing else
    return {"run": run.name, "id": answer.rule.id, "layer": answer.rule.layer, "why": found.why, "record": list(found.record)}


def _text(told: Sequence[Diagnosis]) -> list[str]:
    return [line for each in told for line in _lines(each)]


def _lines(told: Diagnosis) -> list[str]:
    lines = [f"{told.run.name}: {told.verdict}"]
    for layer in LAYERS:
        state = told.state(layer)
        lines.append(f"  {layer.words:15} {state}")
        lines += [line for answer in told.findings if answer.rule.layer is layer for line in _finding_lines(answer)]
    return lines + _not_checked(told)


def _not_checked(told: Diagnosis) -> list[str]:
    """Rules that could not look, under what would let them."""
    lacking: dict[tuple[str, ...], list[str]] = {}
    for one in told.skipped:
        assert isinstance(one.outcome, Skipped)  # noqa: S101 - `skipped` holds nothing else
        if one.outcome.record:
            lacking.setdefault(one.outcome.record, []).append(one.rule.title)
    return [f"  not checked; record {', '.join(record)}: {', '.join(titles)}" for record, titles in lacking.items()]


def _finding_lines(answer: Answer) -> list[str]:
    found = answer.outcome
    assert isinstance(found, Finding)  # noqa: S101 - called for findings only
    since = "" if found.since is None else f", since step {found.since}"
    return [
        f"    {found.severity}: {answer.rule.title}{since} ({found.certainty})",
        f"{_INDENT}{found.what}",
        *(f"{_INDENT}change: {each.change} ({each.where})" for each in found.fixes),
        f"{_INDENT}then look at: {found.look_at}",
    ]


COMMAND = Command(
    name="diagnose", title="name the layer at fault and what to change; exit 1 where something is found", arguments=_arguments, run=_run
)
