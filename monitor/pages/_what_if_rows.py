"""The tables of the what-if page: corrections beside the run's own choice, and how far the generator may fall behind; not yet escaped."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import pandas as pd

from monitor.corrections.replay import LEVELS, Interval, Recipe, Replay, Result, WhatIf
from monitor.pages._tables import INTERVAL_COLUMNS, WHAT_IF_COLUMNS

CAPS = ("1.5", "2", "3", "5", "all")
LEAST = 0.001  # a smaller share is said to be smaller
FEW = 6  # version lags whose ESS a cell names
LEVEL_WORDS = {"token": "token", "sequence": "sequence", "sequence_mean": "sequence mean"}


def chosen(told: WhatIf, cap: str) -> list[tuple[str, Result]]:
    """The rows of the table by name: the run's own, what is recommended, then every correction at the cap."""
    replay = told.replay
    rows = [(_own(replay, result), result) for result in replay.own_results if result is not None]
    recommended = told.advice.recipe
    found = None if recommended is None else replay.result(recommended)
    if found is not None:
        rows.append((f"recommended: {found.recipe.title}", found))
    there = {(one.ratio, one.recipe) for _, one in rows}
    others = (one for one in replay.results if (one.ratio, one.recipe) not in there and _at(one.recipe, cap))
    return rows + [(one.recipe.title, one) for one in others]


def _own(replay: Replay, result: Result) -> str:
    """The run's own, with the ratio that its framework gives it where that is another."""
    other = "" if result.ratio is replay.ratio else f", of the {result.ratio}"
    return f"this run: {result.recipe.title}{other}"


def _at(recipe: Recipe, cap: str) -> bool:
    """Whether a correction has the cap; those without one, and the objectives' own clips, are always there."""
    return cap == "all" or not recipe.capped or math.isclose(recipe.high, float(cap))


def correction_table(rows: Sequence[tuple[str, Result]]) -> pd.DataFrame:
    """A row per correction."""
    return pd.DataFrame([_row(name, result) for name, result in rows], columns=list(WHAT_IF_COLUMNS))


def _row(name: str, result: Result) -> tuple[str, ...]:
    bounds = result.recipe.bounds or "all are 1"
    if not result.measures:
        return (name, bounds, f"cannot be told: record {', '.join(result.record)}", *("–" for _ in WHAT_IF_COLUMNS[3:]))
    return (
        name,
        bounds,
        _number(result.lowest_ess()),
        f"{result.under()} of {len(result.values('ess'))}",
        _percent(result.mean("tokens")),
        _percent(result.mean("sequences")),
        _percent(result.largest("heaviest_sequence")),
        _number(result.mean("second_moment")),
        _number(result.mean("variance_factor")),
        _percent(result.mean("kept_mass")),
        _number(result.mean("bias_bound")),
    )


def interval_table(replay: Replay) -> pd.DataFrame:
    """A row per level of the ESS."""
    return pd.DataFrame([_interval(replay, each) for each in replay.intervals], columns=list(INTERVAL_COLUMNS))


def _interval(replay: Replay, found: Interval) -> tuple[str, ...]:
    steps = replay.resync(found.level)
    under = f"{len(steps)} of {len(replay.steps)}" + (f", first {steps[0]}" if steps else "")
    seen = ", ".join(_seen(found)) or "–"
    level = LEVEL_WORDS[found.level]
    if found.largest_lag is None:
        return (level, under, seen, f"cannot be told: {found.cannot_tell}", "–")
    low, high = found.largest_lag_range or (math.nan, math.nan)
    reach = f"at least {found.largest_lag:.3g}" if found.beyond else f"{found.largest_lag:.3g} ({low:.2g} to {high:.2g})"
    return (level, under, seen, reach, found.shape)


def _seen(found: Interval) -> Iterator[str]:
    told = [(lag, ess) for lag, ess in zip(found.lags, found.ess, strict=True) if not math.isnan(ess)]
    step = max(1, math.ceil(len(told) / FEW))
    yield from (f"{ess:.2f} at {lag}" for lag, ess in told[::step])


def _number(value: float) -> str:
    return "–" if math.isnan(value) else "∞" if math.isinf(value) else f"{value:.3g}"


def _percent(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.1%}" if value >= LEAST or value == 0 else "< 0.1%"


__all__ = ["CAPS", "LEVELS", "LEVEL_WORDS", "chosen", "correction_table", "interval_table"]
