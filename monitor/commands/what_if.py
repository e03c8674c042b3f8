"""`python -m monitor what-if PATH`: what each correction would have done on the logged tokens, when to resynchronise, and what to do."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from ingest.errors import RatiometerError
from monitor.commands._command import FOUND, OK, Command, Document, framed_or_refused, number, problem_lines, problems_of, reading_arguments
from monitor.commands._references import references
from monitor.corrections.replay import (
    LEVELS,
    MEASURES,
    THRESHOLD,
    Advice,
    Interval,
    Own,
    Replay,
    Result,
    Verdict,
    WhatIf,
    what_if,
)
from monitor.corrections.snippets import Snippet, snippets
from monitor.diagnosis.diagnose import case_of, diagnose

ORDER = (Verdict.FIX_FIRST, Verdict.CORRECT, Verdict.UNTOLD, Verdict.NOTHING)  # of several runs the first of these is told on top
_WIDTH = 26  # columns of a correction's name in the text
UNCORRECTED = (
    "No correction gives every weight 1, so its ESS is 1 by definition: the lag stays in the gradient uncorrected. "
    "mean |rho - g| is how far a correction's weights are from those that would take it out; it bounds the bias per unit of |A grad|."
)


class NothingReplayed(RatiometerError):  # noqa: N818  it is an answer as much as an error
    """No run's log can tell what to do: a clean exit would claim more than the log can show."""


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", type=Path, metavar="PATH", help="a log, a run folder, or a folder of runs; tokens are needed")
    parser.add_argument(
        "--reference", type=Path, nargs="+", default=[], metavar="PATH", help="the reference run, for the diagnosis that comes first"
    )
    reading_arguments(parser)


def _run(given: argparse.Namespace) -> tuple[int, Document, str]:
    seeds = {name: frame for name, (_, frame) in references(given.reference, given).items()}
    read = framed_or_refused(given.path, given)
    told = [what_if(run, diagnosis=diagnose(case_of(run, frame, seeds))) for run, frame in read]
    first = min(told, key=lambda each: ORDER.index(each.advice.verdict))
    if first.advice.verdict is Verdict.UNTOLD and not any(each.advice.verdict is Verdict.NOTHING for each in told):
        raise NothingReplayed("; ".join(dict.fromkeys(f"{each.replay.run.name}: {each.advice.says}" for each in told)))
    document = {
        "verdict": first.advice.verdict,
        "says": first.advice.says if len(told) == 1 else f"{first.replay.run.name}: {first.advice.says}",
        "runs": [_document(each) for each in told],
        "problems": [each for run, _ in read for each in problems_of(run)],
    }
    found = first.advice.verdict in (Verdict.FIX_FIRST, Verdict.CORRECT)
    held = f"the reference {', '.join(seeds)}" if seeds else "no reference (--reference names one)"
    text = [line for each in told for line in _lines(each, held)]
    return (FOUND if found else OK), document, "\n".join([*text, *problem_lines(run for run, _ in read)])


def _document(told: WhatIf) -> Document:
    replay = told.replay
    return {
        "run": replay.run.name,
        "ratio": replay.ratio,
        "ratio_says": replay.says,
        "steps": replay.steps.tolist(),
        "tokens": replay.tokens.tolist(),
        "sequences": replay.sequences.tolist(),
        "left_out": replay.left_out,
        "untold_steps": list(replay.untold),
        "record": list(replay.record),
        "ess": {level: [number(value) for value in values] for level, values in replay.ess.items()},
        "threshold": THRESHOLD,
        "resync": {level: list(replay.resync(level)) for level in replay.ess},
        "sync_intervals": [_interval(each) for each in replay.intervals],
        "corrections": [_result(each) for each in replay.results],
        "own": [_own(each, result) for each, result in zip(replay.own, replay.own_results, strict=True)],
        "recommendation": _advice(told.advice),
    }


def _interval(found: Interval) -> Document:
    ranges = {"exponent_range": found.exponent_range, "largest_lag_range": found.largest_lag_range}
    return {
        "level": found.level,
        "versions_behind": list(found.lags),
        "ess": [number(value) for value in found.ess],
        "law": found.shape,
        "exponent": number(found.exponent),
        "largest_lag": number(found.largest_lag),
        "sync_interval": found.sync_interval,
        "beyond": found.beyond,
        **{name: None if ends is None else [number(end) for end in ends] for name, ends in ranges.items()},
        "cannot_tell": found.cannot_tell,
        "record": list(found.record),
    }


def _result(found: Result) -> Document:
    recipe = found.recipe
    return {
        "id": recipe.id,
        "title": recipe.title,
        "family": recipe.family,
        "level": recipe.level,
        "action": recipe.action,
        "low": recipe.low,
        "high": number(recipe.high),
        "ratio": found.ratio,
        "lowest_ess": number(found.lowest_ess()),
        "steps_under_half": found.under(),
        "mean": {name: number(found.mean(name)) for name in MEASURES},
        "per_step": {name: [number(value) for value in found.values(name)] for name in MEASURES} if found.measures else {},
        "cannot_tell": found.cannot_tell,
        "record": list(found.record),
    }


def _own(each: Own, result: Result | None) -> Document:
    return {"what": each.what, "says": each.says, "source": each.source, "result": None if result is None else _result(result)}


def _advice(advice: Advice) -> Document:
    return {
        "verdict": advice.verdict,
        "says": advice.says,
        "reasons": list(advice.reasons),
        "correction": advice.recipe.id if advice.recipe else None,
        "level": advice.level,
        "sync_interval": advice.sync_interval,
        "first_resync": advice.first_resync,
        "rule": advice.rule or None,
        "record": list(advice.record),
        "code": [asdict(each) for each in _snippets(advice)],
    }


def _lines(told: WhatIf, held: str) -> Iterator[str]:
    replay, advice = told.replay, told.advice
    yield f"{replay.run.name}: {advice.verdict}: {advice.says}"
    yield from (f"  {reason}" for reason in advice.reasons)
    yield f"  Diagnosed against {held}."
    if replay.ratio is None:
        return
    yield f"  Replayed on {replay.says}; {len(replay.steps)} steps, {int(replay.tokens.sum()):,} tokens."
    yield from (f"  {line}" for line in _intervals(replay))
    yield f"  {'correction':{_WIDTH}} {'weights':>16} lowest ESS under 1/2 tokens cut seqs cut mass kept |rho - g|"
    own = [(f"own {each.what}", result) for each, result in zip(replay.own, replay.own_results, strict=True) if result]
    for name, result in (*own, *((result.recipe.title, result) for result in replay.results)):
        yield f"  {_row(name, result)}"
    yield f"  {UNCORRECTED}"
    yield from (f"  {line}".rstrip() for line in _code(advice))


def _code(advice: Advice) -> Iterator[str]:
    """What the recommendation is in code, where something is to be corrected."""
    for each in _snippets(advice):
        yield f"To paste, {each.place}: {each.says}"
        yield from (f"  {line}" for line in each.code.splitlines())


def _snippets(advice: Advice) -> tuple[Snippet, ...]:
    return snippets(advice.recipe, level=advice.level, sync_interval=advice.sync_interval) if advice.level else ()


def _intervals(replay: Replay) -> Iterator[str]:
    for level in LEVELS:
        found, steps = replay.interval(level), replay.resync(level)
        words = f"ESS({replay.ratio}, {level}) under 1/2 at {len(steps)} steps" + (f", first at {steps[0]}" if steps else "")
        if found and found.largest_lag is not None:
            words += f"; reaches 1/2 at {'least ' if found.beyond else ''}{found.largest_lag:.3g} versions behind"
        elif found:
            words += f"; versions behind: {found.cannot_tell}"
        yield words


def _row(name: str, result: Result) -> str:
    head = f"{name:{_WIDTH}} {result.recipe.bounds:>16}"
    if not result.measures:
        return f"{head} cannot be told: record {', '.join(result.record)}"
    cells = (
        _cell(result.lowest_ess(), 10, ".3f"),
        f"{result.under():>9}",
        _cell(result.mean("tokens"), 10, ".2%"),
        _cell(result.mean("sequences"), 8, ".2%"),
        _cell(result.mean("kept_mass"), 9, ".1%"),
        _cell(result.mean("distance"), 9, ".3g"),
    )
    return " ".join((head, *cells))


def _cell(value: float, width: int, form: str) -> str:
    """Right-aligned; a dash where there is no value."""
    return f"{'–' if math.isnan(value) else format(value, form):>{width}}"


COMMAND = Command(
    name="what-if",
    title="replay corrections on logged tokens and recommend one; exit 1 where something is to be done",
    arguments=_arguments,
    run=_run,
)
