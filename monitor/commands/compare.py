"""`python -m monitor compare REFERENCE... CANDIDATE`: what left the reference, from which step, and how far from parity it is."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from ingest.errors import RatiometerError
from ingest.run import Run
from monitor.commands._command import FOUND, OK, Command, Document, framed, number, problem_lines, problems_of, reading_arguments
from monitor.commands._references import references
from monitor.compare.headline import Comparison, Headline, headline, words
from monitor.compare.parity import PARITY


class NothingCompared(RatiometerError):  # noqa: N818  it is an answer as much as an error
    """A candidate and the reference have nothing that can be compared."""


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "reference", type=Path, nargs="+", metavar="REFERENCE", help="the reference run; several are seeds of one configuration"
    )
    parser.add_argument("candidate", type=Path, metavar="CANDIDATE", help="a log, a run folder, or a folder of runs")
    reading_arguments(parser)


def _run(given: argparse.Namespace) -> tuple[int, Document, str]:
    seeds = references(given.reference, given)
    candidates = framed(given.candidate, given)
    runs = tuple(run for run, _ in (*seeds.values(), *candidates))
    frames = {name: frame for name, (_, frame) in seeds.items()}
    told = [headline(frame, frames, name=run.name) for run, frame in candidates]
    found = [each.comparison for each in told if each.comparison]
    left = any(each.left for each in found)
    if not left and not all(each.parities for each in found):
        raise NothingCompared("; ".join(each.text for each in told if each.comparison and not each.comparison.parities))
    document = {
        "references": list(seeds),
        "candidates": [_document(each) for each in told],
        "problems": [each for run in runs for each in problems_of(run)],
    }
    return (FOUND if left else OK), document, _text(told, runs)


def _document(told: Headline) -> Document:
    found = told.comparison
    if found is None:
        return {"candidate": told.name, "headline": told.text, "metrics": []}
    return {
        "candidate": told.name,
        "headline": told.text,
        "parity": {"overall": number(found.overall_parity), "threshold": PARITY, "at_parity": found.overall_parity <= PARITY},
        "noise": found.noise_basis,
        "excess_at_first": found.excess_at_first,
        "excess": found.excess,
        "metrics": _metrics(found),
        "not_compared": found.not_compared,
        "not_finite": [asdict(each) for each in found.not_finite],
    }


def _metrics(found: Comparison) -> list[Document]:
    left = {each.metric: asdict(each) for each in found.divergences}
    return [
        {
            "metric": each.metric,
            "first_divergence": left.get(each.metric),
            "parity": number(each.value),
            "distance": number(each.distance),
            "yardstick": number(each.yardstick),
            "basis": each.basis,
        }
        for each in found.parities
    ]


def _text(told: list[Headline], runs: tuple[Run, ...]) -> str:
    lines: list[str] = []
    for each in told:
        lines.append(each.text)
        if each.comparison:
            lines += _table(each.comparison)
    return "\n".join([*lines, *problem_lines(runs)])


def _table(found: Comparison) -> list[str]:
    left = {each.metric: each for each in found.divergences}
    lines = [f"  {'metric':20} {'parity (<= 2)':>14}  first divergence"]
    for each in found.parities:
        when = left.get(each.metric)
        moment = f"step {when.step}, certain at {when.alarm_step}, {when.direction}" if when else "none"
        lines.append(f"  {words(each.metric):20} {each.value:14.2f}  {moment}")
    return [*lines, *(f"  {words(metric)}: not compared, {reason}" for metric, reason in found.not_compared.items())]


COMMAND = Command(
    name="compare", title="compare a candidate with its reference; exit 1 where it has left it", arguments=_arguments, run=_run
)
