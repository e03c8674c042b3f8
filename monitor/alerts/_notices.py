"""Events become notifications: the step and the value they show, the sentence, and the rule's cap."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from monitor.alerts import levels
from monitor.alerts._seen import floor_of
from monitor.alerts._sentences import Facts, sentence
from monitor.alerts._told import Event
from monitor.alerts._walk import Phase
from monitor.alerts.levels import Against
from monitor.alerts.notification import Kind, Notification
from monitor.alerts.observation import Observation
from monitor.alerts.reads import readings
from monitor.alerts.rule import AlertRule, RuleKind
from monitor.alerts.state import State


class Change(NamedTuple):
    """A change of state: what it says, and why it is not told; "" where it is."""

    notification: Notification
    withheld: str


@dataclass(frozen=True, kw_only=True)
class News:
    """What is known of a run besides values."""

    restarted_from: int | None = None  # the run went back to this step: what was seen from there on is void
    finished: bool = False  # nothing more will come
    expected: bool = False  # nothing is there now, and it is waited for from now on
    came: bool = False  # what was waited for came, under another id


@dataclass(frozen=True, kw_only=True)
class Context:
    """What the notifications of one update are made from."""

    read: Mapping[int, Observation]  # what the rule was read on in this batch, by step
    compared: Against
    news: News
    now: float
    asked_anew: bool = False  # the rule's condition, or what it is compared with, is another than before


def notices(state: State, rule: AlertRule, events: Iterable[Event], context: Context) -> tuple[int, tuple[Change, ...]]:
    """Events in the order of their steps, told as far as the rule's cap allows (the last one says so), and how many are told by now."""
    count = state.count
    changes = []
    for event in sorted(events, key=_place):
        if event.kind is Kind.REMINDER and count >= rule.cap:
            continue
        withheld = event.withheld or ("cap" if count >= rule.cap else "")
        count += not withheld
        changes.append(Change(_notification(state, rule, event, context, last=not withheld and count == rule.cap), withheld))
    return count, tuple(changes)


def _place(event: Event) -> float:
    """The step of an event; what is over for want of values comes first."""
    if event.stay is None:
        return -math.inf
    return event.stay.over if event.kind is Kind.RESOLVED and event.stay.over is not None else event.stay.fired


def _notification(state: State, rule: AlertRule, event: Event, context: Context, *, last: bool) -> Notification:
    one = _shown(state, rule, event, context)
    place = None if state.seen.place is None else readings(rule)[state.seen.place]
    step = _step(state, event) if one is None else one.step
    value = math.nan if event.kind is Kind.NAN else None if one is None else one.value
    threshold = None if one is None else levels.threshold(rule, one, context.compared, floor_of(state.seen, rule))
    metric = one.metric if one is not None else rule.metric if place is None else place.metric
    facts = Facts(
        run=state.run,
        name=metric if place is None else place.label,
        step=step,
        value=value,
        threshold=threshold,
        gone="" if event.stay is not None else _gone(rule, context),
        firing=state.phase is Phase.FIRING,
        last=last,
    )
    return Notification(
        rule=state.rule,
        run=state.run,
        kind=event.kind,
        severity=rule.severity,
        episode=event.episode,
        text=sentence(rule, event, facts),
        step=step,
        value=value,
        threshold=threshold,
        metric=metric,
        origin=one.origin if one is not None else "" if place is None else place.origin,
        number=event.number,
        at=context.now,
    )


def _step(state: State, event: Event) -> int | None:
    """The step at which it changed; of what is over for want of values the latest; None of a run that has none."""
    if event.stay is None:
        return state.seen.newest
    step = event.stay.over if event.kind is Kind.RESOLVED else event.stay.fired
    return None if step is None or step < 0 else step


def _shown(state: State, rule: AlertRule, event: Event, context: Context) -> Observation | None:
    """The value at the step of the change where this batch has it, else the latest; None where there is none to show."""
    if rule.kind is RuleKind.NO_DATA:
        return None
    step = _step(state, event)
    found = None if step is None or event.kind is Kind.REMINDER else context.read.get(step)
    if found is not None or event.kind in {Kind.NAN, Kind.RESOLVED} or state.seen.last is None or state.seen.place is None:
        return found
    latest, value = state.seen.last
    place = readings(rule)[state.seen.place]
    return Observation(run=state.run, step=latest, metric=place.metric, value=value, origin=place.origin)


def _gone(rule: AlertRule, context: Context) -> str:
    """Why something is over although no value says so."""
    news = context.news
    if rule.kind is RuleKind.NO_DATA:
        return "the run has ended" if news.finished else "there is new data"
    if news.restarted_from is not None:
        return f"the run went back to step {news.restarted_from}, and the steps it stood on are void"
    if context.asked_anew:
        return "the rule, or what it compares with, was changed, and asks the run anew"
    return "the values it stood on were replaced, or are older than what is remembered"
