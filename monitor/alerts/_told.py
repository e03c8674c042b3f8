"""What has been told of one rule in one run, and what must be told now: the difference between that and what is so.

Nothing waits in a list. What may not be told now (cooldown, silence) is looked at again at the next update, and told if it is so then. That
is why nothing that lasts is ever lost, and nothing that is over is told late.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from monitor.alerts._walk import Stay
from monitor.alerts.notification import SILENCED, Kind
from monitor.alerts.rule import AlertRule, Severity


@dataclass(frozen=True, kw_only=True)
class Told:
    """What somebody was told last: an episode that lasts as far as they know, or nothing."""

    first: int | None = None  # first step of the episode that was told and not yet told to be over
    episode: str = ""
    at: float | None = None  # when an episode was told last
    severity: str = ""  # with which severity
    highest: int | None = None  # largest first step of any episode that was told
    again: int = 0  # how often an episode began at or before one that was told already: a restart, a value that was replaced
    reminders: int = 0
    reminded_at: float = 0.0
    acknowledged: bool = False


@dataclass(frozen=True, kw_only=True)
class Terms:
    """Under which terms something is told now."""

    rule: AlertRule
    name: str  # what every episode's id begins with
    kind: Kind  # how its beginning is called
    now: float
    silenced: bool
    seen_to: int | None  # latest step before the batch: what lasted then was known to last up to there


@dataclass(frozen=True, kw_only=True)
class Event:
    """A change of state, told or withheld."""

    kind: Kind
    episode: str
    stay: Stay | None  # None: it is over because the values it stood on are gone
    withheld: str = ""  # why it is not told
    number: int = 0  # of a reminder
    skipped: int = 0  # episodes that came and went in the same batch and are not told
    of_nan: bool = False  # whether it is a stretch without a number that is over


def settled(told: Told, was: tuple[Stay, ...], now: tuple[Stay, ...], terms: Terms) -> tuple[Told, list[Event]]:
    """What is told when `was` has become `now`; the order of events is that of the steps."""
    told, events = _ended(told, now, terms)
    same = set(was)
    other = [stay for stay in now if stay not in same]
    known = [stay if stay.over is not None or terms.seen_to is None else stay._replace(over=terms.seen_to + 1) for stay in was]
    fresh = [stay for stay in other if not any(_overlap(stay, old) for old in known)]
    before = told
    if told.first is not None:
        aside = [stay for stay in fresh if not stay.holds(told.first)]
        events += [_event(told, stay, terms, SILENCED if terms.silenced else "late") for stay in aside]
        told, more = _reminded(told, now, terms)
    else:
        told, more = _begun(told, fresh, now, terms)
    events += more
    return told, [*events, *_unsaid(before, was, other, events, terms)]


def _ended(told: Told, now: tuple[Stay, ...], terms: Terms) -> tuple[Told, list[Event]]:
    """Say that what was told is over; later, where it is silenced."""
    if told.first is None or terms.silenced:
        return told, []
    first = told.first
    held = next((stay for stay in now if stay.holds(first)), None)
    if held is not None and held.over is None:
        return told, []
    return _closed(told), [Event(kind=Kind.RESOLVED, episode=told.episode, stay=held)]


def _begun(told: Told, fresh: list[Stay], now: tuple[Stay, ...], terms: Terms) -> tuple[Told, list[Event]]:
    """Tell what lasts and was not told, and what came and went in this batch; with a cooldown the latest of these only."""
    lasting = [stay for stay in now if stay.over is None]
    passed = [stay for stay in fresh if stay.over is not None]
    why = _why_not(told, terms)
    if why:
        return told, [_event(told, stay, terms, why) for stay in fresh]
    due = [*passed, *lasting]
    shown = due if terms.rule.cooldown_s == 0 else due[-1:]
    events = [_event(told, stay, terms, "another was told") for stay in passed if stay not in shown]
    skipped = len(events)
    for stay in shown:
        told = _opened(told, stay, terms)
        events.append(Event(kind=terms.kind, episode=told.episode, stay=stay, skipped=skipped))
        if stay.over is not None:
            events.append(Event(kind=Kind.RESOLVED, episode=told.episode, stay=stay))
            told = _closed(told)
    return told, events


def _why_not(told: Told, terms: Terms) -> str:
    """Why nothing new may be told now; a critical does not wait for what was told as a warning."""
    if terms.silenced:
        return SILENCED
    louder = terms.rule.severity is Severity.CRITICAL and told.severity == Severity.WARNING
    waits = told.at is not None and terms.now < told.at + terms.rule.cooldown_s
    return "cooldown" if waits and not louder else ""


def _unsaid(told: Told, was: tuple[Stay, ...], other: list[Stay], events: list[Event], terms: Terms) -> list[Event]:
    """Ends that are not told, because their beginnings were not; the history has them."""
    said = {event.stay for event in events if event.kind is Kind.RESOLVED}
    ended = [stay for stay in other if stay.over is not None and stay not in said]
    known = [old for old in was if old.over is not None]
    new = [stay for stay in ended if not any(_overlap(stay, old) for old in known)]
    return [replace(_event(told, stay, terms, "its beginning was not told"), kind=Kind.RESOLVED) for stay in new]


def _reminded(told: Told, now: tuple[Stay, ...], terms: Terms) -> tuple[Told, list[Event]]:
    every = terms.rule.remind_s
    if not every or terms.silenced or told.acknowledged or terms.now < told.reminded_at + every:
        return told, []
    stay = next((each for each in now if told.first is not None and each.holds(told.first)), None)
    told = replace(told, reminders=told.reminders + 1, reminded_at=terms.now)
    return told, [Event(kind=Kind.REMINDER, episode=told.episode, stay=stay, number=told.reminders)]


def _opened(told: Told, stay: Stay, terms: Terms) -> Told:
    again = _again(told, stay)
    return Told(
        first=stay.first,
        episode=_named(stay, again, terms),
        at=terms.now,
        severity=terms.rule.severity,
        highest=max(stay.first, stay.first if told.highest is None else told.highest),
        again=again,
        reminded_at=terms.now,
    )


def _closed(told: Told) -> Told:
    return replace(told, first=None, episode="", reminders=0, acknowledged=False)


def _event(told: Told, stay: Stay, terms: Terms, withheld: str) -> Event:
    """The beginning of an episode that is not told, under the id it has if it is told later."""
    lasting = told.first is not None and stay.holds(told.first)
    return Event(
        kind=terms.kind,
        episode=told.episode if lasting else _named(stay, _again(told, stay), terms),
        stay=stay,
        withheld=withheld,
    )


def _again(told: Told, stay: Stay) -> int:
    return told.again + (told.highest is not None and stay.first <= told.highest)


def _named(stay: Stay, again: int, terms: Terms) -> str:
    return f"{terms.name}:{stay.first}" + (f"+{again}" if again else "")


def _overlap(one: Stay, old: Stay) -> bool:
    return one.holds(old.first) or old.holds(one.first)
