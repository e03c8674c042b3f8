"""What the alerts say right now, row by row: what fires, what was silenced, what happened, and how every destination does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from monitor.alerts.machine import Phase
from monitor.alerts.notification import Kind
from monitor.alerts.rule import Severity
from monitor.alerts.state import State
from monitor.alerts.store import Past, SinkHealth
from monitor.pages._colours import CLEAR, Theme
from monitor.pages._escape import for_html
from monitor.pages._known_rules import Known
from monitor.pages._run_rows import mark_of
from monitor.pages._tables import HISTORY_COLUMNS
from monitor.pages._times import ago, span, when

PHASES = {
    Phase.FIRING: "fires",
    Phase.NAN: "is not a number",
    Phase.PENDING: "is beyond its threshold, not yet for long enough",
    Phase.OK: "is fine",
    Phase.ABSENT: "has no value to judge yet",
}
KINDS = {
    Kind.FIRING: "fires",
    Kind.RESOLVED: "is over",
    Kind.NAN: "not a number",
    Kind.NO_DATA: "no new data",
    Kind.REMINDER: "still fires (reminder)",
}
LOUD = (Phase.FIRING, Phase.NAN, Phase.PENDING)
LONGEST = 60
ELSEWHERE = "not a rule of this page: the watch has it from another file (--rules), or it was removed since"


def loud(states: Sequence[State], known: Known) -> list[State]:
    """What needs a look: criticals first, then what fires, the latest first; and what is silenced, so that a silence is not forgotten."""
    found = [state for state in states if state.phase in LOUD or state.episode]
    return sorted(found, key=lambda one: (known.severity(one) is not Severity.CRITICAL, LOUD.index(one.phase) if one.phase in LOUD else 9))


def line(state: State, label: str, known: Known, now: float, theme: Theme) -> str:
    """One state in words, with what to do."""
    mark, what = mark_of(known.severity(state)).html(theme), known.what(state)
    since = "" if state.since is None else f" since step {state.since:,}"
    notes = [
        f"silenced for another {span(state.silenced_until - now)}" if state.silenced_until > now else "",
        "acknowledged" if state.told.acknowledged or state.told_nan.acknowledged else "",
        "" if state.rule in known.rules else ELSEWHERE,
        "" if state.episode else "not told" if state.phase in {Phase.FIRING, Phase.NAN} else "",
    ]
    noted = "".join(f" <small>· {for_html(note)}</small>" for note in notes if note)
    said = PHASES[state.phase]
    where = f"in <b>{for_html(label, LONGEST)}</b>{noted}"
    more = f"<p><small>{for_html(what)}</small></p>" if what else ""
    return f"<div class='standing'><p>{mark} <b>{for_html(state.rule)}</b> {said}{since} {where}</p>{more}</div>"


def history_table(pasts: Sequence[Past], labels: Mapping[str, str], arrivals: Mapping[str, tuple[int, int]]) -> pd.DataFrame:
    """A row per change of state, the newest first; text is not yet escaped."""
    return pd.DataFrame([_past(past, labels, arrivals) for past in pasts], columns=list(HISTORY_COLUMNS))


def _past(past: Past, labels: Mapping[str, str], arrivals: Mapping[str, tuple[int, int]]) -> tuple[str, ...]:
    said = past.notification
    value = "–" if said.value is None else f"{said.value:.4g}" + ("" if said.threshold is None else f" (against {said.threshold:.4g})")
    arrived, of = arrivals.get(said.key, (0, 0))
    told = f"no: {past.withheld}" if past.withheld else f"sent to {arrived} of {of}" if of else "on the terminal only"
    step = "–" if said.step is None else str(said.step)
    return (when(past.at), labels.get(said.run, said.run), said.rule, KINDS[said.kind], step, value, told)


def health(found: SinkHealth | None, now: float, theme: Theme) -> str:
    """How a destination has been doing; one that is dead is said to be."""
    if found is None or (found.succeeded_at is None and found.failed_at is None):
        waiting = "" if found is None or not found.waiting else f" {found.waiting} wait to be sent."
        return f"<p><small>Nothing was sent to it yet.{waiting}</small></p>"
    worked = f"last worked {ago(found.succeeded_at, now)}"
    waiting = f"; {found.waiting} wait to be sent" if found.waiting else ""
    if not found.failures:
        return f"<p><span class='state' style='color:{CLEAR.on(theme)}'>✓ works</span> <small>{worked}{waiting}</small></p>"
    tries = "the last try" if found.failures == 1 else f"the last {found.failures} tries"
    said = f"{tries} failed, {ago(found.failed_at, now)}: {for_html(found.error, 300)}; {worked}{waiting}"
    return f"<p>{mark_of(Severity.CRITICAL).html(theme).replace('critical', 'fails')} <small>{said}</small></p>"
