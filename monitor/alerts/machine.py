"""What a rule does as values come in: a pure state machine, without a clock and without files.

States of a rule in a run (`Phase`, as of the latest step): absent (no value yet, or nothing to compare it with), ok, pending (beyond the
threshold, but not for as many values in a row as the rule holds), firing, and nan (the value is no number). An episode is one stay beyond
the threshold (`_walk.py`); a stretch of NaN is told as itself, once, and neither begins nor ends an episode.

* A value that was not logged is no observation: steps that are missing break no row and end nothing.
* A late value is put in its place, if it lies within the last `HORIZON` steps; what changes by it is told.
* A value that comes again unchanged changes nothing, so a log may be read again from its beginning after a crash.
* A value that comes again changed stands from then on. Where the run itself went back (a restarted trainer), `restarted_from` or `restart`
  drops that step and everything after it; an episode that stood on these steps is over, and is told to be.
* What is told is one notification for each change of state, within the terms of the rule: its cooldown, its cap, and silence (`_told.py`).

The same observations in any order and in any batches leave the same phase and the same `Seen` behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from monitor.alerts._due import due
from monitor.alerts._no_data import silence_of
from monitor.alerts._notices import Change, Context, News, notices
from monitor.alerts._seen import HORIZON, Seen, back_to, folded, seeing
from monitor.alerts._told import Terms, settled
from monitor.alerts._walk import Phase, Stay, Walked, walked
from monitor.alerts.levels import NOTHING, Against
from monitor.alerts.notification import Kind, Notification
from monitor.alerts.observation import Observation
from monitor.alerts.rule import AlertRule, RuleKind
from monitor.alerts.state import State


def update(  # noqa: PLR0913 - the contract's four, and what the run is compared with and known by
    state: State,
    rule: AlertRule,
    observations: Sequence[Observation],
    now: float,
    *,
    compared: Against = NOTHING,
    news: News = News(),  # noqa: B008 - frozen
) -> tuple[State, tuple[Notification, ...]]:
    """The state after some observations, and what is to be told.

    To be called with no observations too, now and then: reminders, the end of a cooldown or of a silence, and a run that logs nothing more
    are matters of time.

    Args:
        state: of this rule in this run; `State(rule=..., run=...)` at first.
        rule: the rule; where its condition is another than before, what was seen is forgotten and the whole log should be given again.
        observations: of the run, in any order; those that the rule does not read are passed over.
        now: seconds since the epoch; where a clock was set back, times in the state that lie ahead count as now.
        compared: settings and reference, for rules that need them.
        news: whether the run went back, or has ended.
    """
    after, changes = advance(state, rule, observations, now, compared=compared, news=news)
    return after, tuple(change.notification for change in changes if not change.withheld)


def advance(  # noqa: PLR0913 - as `update`
    state: State,
    rule: AlertRule,
    observations: Sequence[Observation],
    now: float,
    *,
    compared: Against = NOTHING,
    news: News = News(),  # noqa: B008 - frozen
) -> tuple[State, tuple[Change, ...]]:
    """The same, with the changes that are not told and why."""
    asked_anew = bool(state.sign) and state.sign != compared.sign(rule)
    state = _set_back(_same_condition(state, compared.sign(rule)), now)
    was = walked(state.seen.base, state.seen.runs, rule.hold)
    seen = state.seen if news.restarted_from is None else back_to(state.seen, news.restarted_from)
    seen, read = seeing(seen, rule, [one for one in observations if one.run == state.run], compared)
    if rule.kind is RuleKind.NO_DATA:
        state, was, is_now = silence_of(state, rule, seen, [one.wall_time for one in observations], now, news)
    else:
        is_now = walked(seen.base, seen.runs, rule.hold)
    told, events = settled(state.told, was.firing, is_now.firing, _terms(state, rule, now))
    told_nan, more = settled(state.told_nan, was.nan, is_now.nan, _terms(state, rule, now, nan=True))
    more = [replace(event, of_nan=True) for event in more]
    after = replace(state, seen=seen, told=told, told_nan=told_nan, phase=is_now.end.phase, since=_since(is_now))
    context = Context(read=read, compared=compared, news=news, now=now, asked_anew=asked_anew)
    count, changes = notices(after, rule, [*events, *more], context)
    return replace(after, seen=folded(seen, rule.hold), count=count, due=due(after, rule, is_now)), changes


def restart(state: State, from_step: int) -> State:
    """The state of a run that went back to `from_step`: what was seen from there on is void. Nothing is told until the next update."""
    return replace(state, seen=back_to(state.seen, from_step), due=0.0)


def acknowledge(state: State, episode: str) -> State:
    """No more reminders of an episode that lasts; that it is over will still be told. Another episode's id changes nothing."""
    if episode and state.told.episode == episode:
        return replace(state, told=replace(state.told, acknowledged=True))
    if episode and state.told_nan.episode == episode:
        return replace(state, told_nan=replace(state.told_nan, acknowledged=True))
    return state


def silence(state: State, until: float) -> State:
    """Nothing is told before `until`; what then still lasts, and that what was told is over, is told after it. 0 ends a silence."""
    return replace(state, silenced_until=until, due=0.0)


def episodes(state: State, hold: int) -> Walked:
    """Every episode and every stretch of NaN within what the state remembers, whether told or not."""
    return walked(state.seen.base, state.seen.runs, hold)


def everything(state: State, rule: AlertRule, observations: Sequence[Observation], compared: Against = NOTHING) -> tuple[Seen, Walked]:
    """What the rule sees in all observations of a run at once, however many, with every episode; for looking back."""
    seen, _ = seeing(state.seen, rule, observations, compared)
    return seen, walked(seen.base, seen.runs, rule.hold)


def _same_condition(state: State, sign: str) -> State:
    """The state, without its marks where they were made under another condition."""
    if state.sign == sign:
        return state
    return replace(state, sign=sign, seen=Seen()) if state.sign else replace(state, sign=sign)


def _set_back(state: State, now: float) -> State:
    """Times that lie ahead of a clock that was set back count as now, or a cooldown would last as long as the clock went back."""
    told, told_nan = (
        replace(each, at=_earlier(each.at, now), reminded_at=min(each.reminded_at, now)) for each in (state.told, state.told_nan)
    )
    return replace(state, told=told, told_nan=told_nan, news_at=_earlier(state.news_at, now))


def _earlier(then: float | None, now: float) -> float | None:
    return None if then is None else min(then, now)


def _terms(state: State, rule: AlertRule, now: float, *, nan: bool = False) -> Terms:
    kind = Kind.NAN if nan else Kind.NO_DATA if rule.kind is RuleKind.NO_DATA else Kind.FIRING
    name = f"{state.rule}:{state.run}" + (":nan" if nan else "")
    return Terms(rule=rule, name=name, kind=kind, now=now, silenced=now < state.silenced_until, seen_to=state.seen.newest)


def _since(found: Walked) -> int | None:
    """The step from which the phase holds."""
    end = found.end
    if end.nan is not None:
        return end.nan.first
    if end.firing is not None:
        return end.firing.first
    return end.row_from if end.row else None


__all__ = [
    "HORIZON",
    "NOTHING",
    "Against",
    "Change",
    "Kind",
    "News",
    "Notification",
    "Observation",
    "Phase",
    "State",
    "Stay",
    "Walked",
    "acknowledge",
    "advance",
    "episodes",
    "everything",
    "restart",
    "silence",
    "update",
]
