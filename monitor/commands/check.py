"""`python -m monitor check PATH`: every step at which a metric lies beyond a threshold, by default an ESS under 0.5."""

from __future__ import annotations

import argparse
from pathlib import Path

from ingest.errors import RatiometerError
from ingest.run import Run
from monitor.commands._command import FOUND, OK, Command, Document, framed, number, problem_lines, problems_of, reading_arguments
from monitor.compare.flags import DEFAULT_RULES, Flagged, NotTold, Rule, flags
from monitor.metrics.crossings import Crossing

Answer = tuple[Run, Flagged | NotTold]


class NothingTold(RatiometerError):  # noqa: N818  it is an answer as much as an error
    """No rule could be answered for any run: a clean exit would claim more than the log can show."""


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", type=Path, metavar="PATH", help="a log, a run folder, or a folder of runs")
    parser.add_argument("--rule", action="append", metavar="RULE", help=f"'<metric> < <number>'; default: {' and '.join(DEFAULT_RULES)}")
    reading_arguments(parser)


def _run(given: argparse.Namespace) -> tuple[int, Document, str]:
    rules = [Rule.parse(text) for text in given.rule or DEFAULT_RULES]
    read = framed(given.path, given)
    runs = tuple(run for run, _ in read)
    answers = [(run, flags(frame, rule)) for run, frame in read for rule in rules]
    told = [answer for answer in answers if isinstance(answer[1], Flagged)]
    if not told:
        reasons = sorted({each.reason for _, each in answers if isinstance(each, NotTold)})
        raise NothingTold(". ".join(reasons) + ".")
    crossed = any(each.crossings for _, each in told if isinstance(each, Flagged))
    document = {
        "crossed": crossed,
        "checks": [_check(run, each) for run, each in answers if isinstance(each, Flagged)],
        "skipped": [_skipped(run, each) for run, each in answers if isinstance(each, NotTold)],
        "problems": [each for run in runs for each in problems_of(run)],
    }
    return (FOUND if crossed else OK), document, _text(answers, runs)


def _check(run: Run, found: Flagged) -> Document:
    return {
        "run": run.name,
        "rule": str(found.rule),
        "metric": found.metric,
        "bound": found.bound,
        "stands_in": found.metric != found.rule.metric,
        "origin": found.origin,
        "steps": found.steps,
        "unknown_steps": found.unknown,
        "crossings": [_crossing(found.rule, stay) for stay in found.crossings],
    }


def _crossing(rule: Rule, stay: Crossing) -> Document:
    extreme = "lowest" if rule.comparison.startswith("<") else "highest"
    return {
        "from_step": stay.from_step,
        "to_step": stay.to_step,
        "recovered_step": stay.recovered_step,
        extreme: number(stay.lowest),
        f"{extreme}_step": stay.lowest_step,
        "starts_beyond": stay.starts_under,
        "unknown_steps": stay.unknown_steps,
    }


def _skipped(run: Run, found: NotTold) -> Document:
    return {"run": run.name, "rule": str(found.rule), "reason": found.reason}


def _text(answers: list[Answer], runs: tuple[Run, ...]) -> str:
    lines = [line for run, each in answers for line in _lines(run, each)]
    return "\n".join([*lines, *problem_lines(runs)])


def _lines(run: Run, found: Flagged | NotTold) -> list[str]:
    if isinstance(found, NotTold):
        return [f"{run.name}: {found.rule}: skipped, {found.reason}"]
    head = f"{run.name}: {found.label} {found.rule.comparison} {found.rule.threshold:g}"
    tail = f"{found.steps} steps, {found.origin}" + (f", {found.unknown} of them NaN" if found.unknown else "")
    if not found.crossings:
        return [f"{head}: no crossing ({tail})"]
    return [f"{head}: {_count(len(found.crossings))} ({tail})", *(f"  {_stay(found.rule, stay)}" for stay in found.crossings)]


def _count(stays: int) -> str:
    return "1 stay" if stays == 1 else f"{stays} stays"


def _stay(rule: Rule, stay: Crossing) -> str:
    extreme = "lowest" if rule.comparison.startswith("<") else "highest"
    back = "not back at the end" if stay.recovered_step is None else f"back at step {stay.recovered_step}"
    return f"from step {stay.from_step} to {stay.to_step}, {extreme} {stay.lowest:.4g} at step {stay.lowest_step}, {back}"


COMMAND = Command(name="check", title="flag the steps beyond a threshold; exit 1 where there are any", arguments=_arguments, run=_run)
