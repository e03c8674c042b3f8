"""When the rules would have fired over a run that is stored: the same machine, given the whole run at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ingest.run import Run
from monitor.alerts._walk import Stay
from monitor.alerts.levels import Against, against
from monitor.alerts.machine import Kind, Observation, State, everything
from monitor.alerts.never import never_firing
from monitor.alerts.observation import observations
from monitor.alerts.policy import Policy
from monitor.alerts.reads import readings
from monitor.alerts.rule import AlertRule, RuleKind, Severity

Steps = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Episode:
    """One stay of a run beyond a rule's threshold, or without a number."""

    rule: str
    run: str
    kind: Kind  # firing or nan
    severity: Severity
    metric: str  # the metric that was read
    label: str  # the same in words, with what it stands in for
    origin: str
    first: int  # first step of it
    fired: int  # step at which it would have been told
    resolved: int | None  # first step at which it was over; None while it lasts at the end of the log
    worst: float | None  # the value furthest beyond, of a rule on one metric; None of a stretch without a number
    worst_step: int | None


@dataclass(frozen=True, kw_only=True)
class Backtest:
    """What the rules say about a stored run."""

    episodes: tuple[Episode, ...]  # by first step, then by rule
    never: dict[str, str]  # rule id -> why it can never fire on this log
    untested: tuple[str, ...]  # ids of rules that a stored run cannot answer: how long nothing came is not in it


def backtest(policy: Policy, frame: pa.Table, run: Run, references: Sequence[pa.Table] = ()) -> tuple[Episode, ...]:
    """When the rules in force for a run would have fired.

    Cooldown, cap and silence do not enter: they decide what is told, not what is so.

    Args:
        policy: the rules.
        frame: the run's metric frame.
        run: the run; its id and its settings are used.
        references: a metric frame for each seed of the reference.
    """
    return backtested(policy, frame, run, references).episodes


def backtested(policy: Policy, frame: pa.Table, run: Run, references: Sequence[pa.Table] = ()) -> Backtest:
    """The same, with the rules that could not fire."""
    rules = policy.rules_for(run.id)
    compared = against(run.config, references, rules)
    values = observations(frame, run.id, rules)
    found = [each for rule in rules if rule.kind is not RuleKind.NO_DATA for each in _episodes(rule, run.id, values, compared)]
    return Backtest(
        episodes=tuple(sorted(found, key=lambda each: (each.first, each.rule))),
        never=dict(never_firing(rules, frame, compared)),
        untested=tuple(rule.id for rule in rules if rule.kind is RuleKind.NO_DATA),
    )


def _episodes(rule: AlertRule, run: str, values: Sequence[Observation], compared: Against) -> list[Episode]:
    seen, walk = everything(State(rule=rule.id, run=run), rule, values, compared)
    place = None if seen.place is None else readings(rule)[seen.place]
    read = [one for one in values if place is not None and (one.metric, one.origin) == (place.metric, place.origin)]
    steps, numbers = np.array([one.step for one in read], np.int64), np.array([one.value for one in read], np.float64)
    stays = [*((stay, Kind.FIRING) for stay in walk.firing), *((stay, Kind.NAN) for stay in walk.nan)]
    made = []
    for stay, kind in stays:
        worst_step, worst = _worst(rule, stay, steps, numbers) if kind is Kind.FIRING else (None, None)
        made.append(
            Episode(
                rule=rule.id,
                run=run,
                kind=kind,
                severity=rule.severity,
                metric=rule.metric if place is None else place.metric,
                label=rule.metric if place is None else place.label,
                origin="" if place is None else place.origin,
                first=stay.first,
                fired=stay.fired,
                resolved=stay.over,
                worst=worst,
                worst_step=worst_step,
            )
        )
    return made


def _worst(rule: AlertRule, stay: Stay, steps: Steps, values: Floats) -> tuple[int | None, float | None]:
    """The step and the value furthest beyond within a stay; of a rule on either side of a centre, furthest from it."""
    end = np.iinfo(np.int64).max if stay.over is None else stay.over
    inside = np.flatnonzero((steps >= stay.first) & (steps < end) & ~np.isnan(values))
    if not inside.size:
        return None, None
    distance = values[inside] if rule.centre is None else np.abs(values[inside] - rule.centre)
    place = inside[np.argmin(distance) if rule.comparison.falling else np.argmax(distance)]
    return int(steps[place]), float(values[place])
