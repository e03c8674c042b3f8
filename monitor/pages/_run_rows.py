"""A row of the table of runs as HTML: mark and name, how far, how low, the course, what fires and what is wrong; all told by words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from monitor.alerts.machine import Phase, State
from monitor.alerts.rule import Severity
from monitor.diagnosis.diagnose import Diagnosis
from monitor.diagnosis.outcome import Severity as Gravity
from monitor.pages._colours import FAULT, Identity, Theme
from monitor.pages._diagnoses import Dated
from monitor.pages._escape import for_html
from monitor.pages._library import Failure
from monitor.pages._marks import chip
from monitor.pages._status import Lowest, Status
from monitor.pages._verdicts import MARKS, Mark, brief, overall

LONGEST = 60  # characters of a run's name
FEW = 2  # alerts that are named
HEAD = ("run", "how far", "smallest ESS", "course of the ESS", "alerts", "diagnosis")
ALERTING = {Phase.FIRING, Phase.NAN}


@dataclass(frozen=True, kw_only=True)
class Row:
    """What one row says."""

    who: Identity
    status: Status | None  # None: it could not be read
    age: str  # of its data, in words
    firing: tuple[tuple[State, Severity], ...]
    watched: bool
    verdict: Dated | None
    fresh: bool  # whether the verdict is of the run as it is now
    live: bool = False


def heading() -> str:
    """The names of the columns."""
    return "<div class='run head'>" + "".join(f"<div>{name}</div>" for name in HEAD) + "</div>"


def row(one: Row, threshold: float, theme: Theme) -> str:
    """One run."""
    cells = (
        f"{chip(one.who, theme)} <b>{for_html(one.who.label, LONGEST)}</b>",
        _far(one),
        _lowest(one.status, threshold, theme),
        "" if one.status is None else picture(one.status, threshold, one.who.hue.on(theme), theme),
        _alerts(one, theme),
        _verdict(one, theme),
    )
    named = "".join(f"<div data-of='{name}'>{cell}</div>" for name, cell in zip(HEAD, cells, strict=True))
    return f"<div class='run'>{named}</div>"


def picture(status: Status, threshold: float, colour: str, theme: Theme) -> str:
    """The course of the ESS from 0 to 1 as a filled shape over a line at the threshold; in words for those who do not see it."""
    if not status.course:
        return "<span class='quiet'>not recorded</span>"
    points = [(100 * x, 100 * (1 - min(max(y, 0.0), 1.0))) for x, y in status.course]
    points = [(0.0, points[0][1]), *points, (100.0, points[-1][1])]
    shape = ",".join(f"{x:.1f}% {y:.1f}%" for x, y in [*points, (100, 100), (0, 100)])
    low = min(y for _, y in status.course)
    alt = f"{status.course_of}, between 0 and 1: from {status.course[0][1]:.2g} to {status.course[-1][1]:.2g}, lowest {low:.2g}"
    line = f"<i style='top:{100 * (1 - threshold):.0f}%;border-color:{theme.ink}'></i>"
    return (
        f"<span class='course' role='img' aria-label='{for_html(alt)}' title='{for_html(alt)}'>"
        f"<span style='background:{colour};clip-path:polygon({shape})'></span>{line}</span>"
    )


def _far(one: Row) -> str:
    if one.status is None:
        return "<span class='quiet'>could not be read</span>"
    step = "no step" if one.status.last_step is None else f"step {one.status.last_step:,}"
    age = "<span class='live'>live</span>" if one.live else for_html(one.age)  # the line above has the age of what is live, and counts on
    return f"{step}<small>{age}</small>"


def _lowest(status: Status | None, threshold: float, theme: Theme) -> str:
    if status is None or not status.lowest:
        return "<span class='quiet'>not recorded</span>"
    return "".join(_one_lowest(one, threshold, theme) for one in status.lowest)


def _one_lowest(one: Lowest, threshold: float, theme: Theme) -> str:
    under, stands_in = one.value < threshold, "" if one.ratio == "lag" else f" ({for_html(one.ratio)})"
    value = f"<b style='color:{FAULT.on(theme)}'>▼ {one.value:.3g}</b>" if under else f"<b>{one.value:.3g}</b>"
    return f"<span class='low'>{value} at step {one.step:,} <small>{for_html(one.level)}{stands_in}</small></span>"


def _alerts(one: Row, theme: Theme) -> str:
    if not one.watched:
        return "<span class='quiet'>not watched</span>"
    if not one.firing:
        return "<span class='quiet'>none fires</span>"
    loud = sorted(one.firing, key=lambda pair: pair[1] is not Severity.CRITICAL)
    lines = [f"<span class='low'>{_state(state, severity, theme)}</span>" for state, severity in loud[:FEW]]
    more = f"<small>{len(loud) - FEW} more</small>" if len(loud) > FEW else ""
    return "".join(lines) + more


def _state(state: State, severity: Severity, theme: Theme) -> str:
    mark = mark_of(severity)
    said = "not a number" if state.phase is Phase.NAN else ""
    since = "" if state.since is None else f"since step {state.since:,}"
    facts = " ".join(filter(None, (said, since)))
    return (
        f"<b style='color:{mark.hue.on(theme) if mark.hue else theme.muted}'><span aria-label='{severity}'>{mark.sign}</span> "
        f"{for_html(state.rule, 40)}</b> <small>{facts}</small>"
    )


def _verdict(one: Row, theme: Theme) -> str:
    if one.verdict is None:
        return "<span class='quiet'>not diagnosed yet</span>"
    told = one.verdict.told
    if isinstance(told, Failure):
        return "<span class='quiet'>could not be diagnosed</span>"
    as_of = "" if one.fresh or one.verdict.last_step is None else f"<small>as of step {one.verdict.last_step:,}</small>"
    return f"{_told(told, theme)}{as_of}"


def _told(told: Diagnosis, theme: Theme) -> str:
    return f"{overall(told).html(theme)}<small>{for_html(brief(told))}</small>"


def mark_of(severity: Severity) -> Mark:
    """How urgent an alert is, marked as a fault of a diagnosis is."""
    return MARKS[Gravity(severity.value)]


def by_urgency(rows: Sequence[Row]) -> list[Row]:
    """What fires first, then the lowest ESS; rows that say the same keep their order."""
    return sorted(rows, key=_urgency)


def _urgency(one: Row) -> tuple[int, float]:
    loud = min((0 if severity is Severity.CRITICAL else 1 for _, severity in one.firing), default=2)
    lowest = min((low.value for low in one.status.lowest), default=2.0) if one.status else 3.0
    return loud, lowest
