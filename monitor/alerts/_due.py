"""When a rule must be looked at although no value came: the end of a cooldown or a silence, a reminder, a run that logs nothing more."""

from __future__ import annotations

import math
from collections.abc import Iterator

from monitor.alerts._told import Told
from monitor.alerts._walk import Phase, Stay, Walked
from monitor.alerts.rule import AlertRule, RuleKind
from monitor.alerts.state import State


def due(state: State, rule: AlertRule, now: Walked) -> float:
    """Seconds since the epoch; infinite where only a value can change anything.

    Args:
        state: after an update.
        rule: its rule.
        now: the episodes and stretches of NaN as they are.
    """
    told = (*_of(state, rule, state.told, now.firing), *_of(state, rule, state.told_nan, now.nan))
    return min((*told, *_of_missing(state, rule)), default=math.inf)


def _of(state: State, rule: AlertRule, told: Told, stays: tuple[Stay, ...]) -> Iterator[float]:
    lasts = any(stay.over is None and (told.first is None or stay.holds(told.first)) for stay in stays)
    if told.first is None and lasts:
        yield max(state.silenced_until, 0.0 if told.at is None else told.at + rule.cooldown_s)
    if told.first is not None and not lasts:
        yield state.silenced_until
    if told.first is not None and lasts and rule.remind_s and not told.acknowledged:
        yield max(state.silenced_until, told.reminded_at + rule.remind_s)


def _of_missing(state: State, rule: AlertRule) -> Iterator[float]:
    if rule.kind is RuleKind.NO_DATA and state.armed and state.news_at is not None and state.phase is not Phase.FIRING:
        yield state.news_at + rule.minutes * 60
