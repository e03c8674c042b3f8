"""All runs at a glance: how far each is, how low its ESS has been, what fires, what is wrong, and the way to its findings."""

from __future__ import annotations

import time
from collections.abc import Sequence

import streamlit as st

from monitor.alerts.rule import Severity
from monitor.alerts.state import State
from monitor.pages._age import age_of
from monitor.pages._alerting import Standing, standing
from monitor.pages._boundary import part
from monitor.pages._diagnoses import latest
from monitor.pages._escape import for_markdown
from monitor.pages._known_rules import Known
from monitor.pages._library import Failure, Library
from monitor.pages._live import Live, live
from monitor.pages._page import Desk, Page
from monitor.pages._results import Shown
from monitor.pages._rule_file import rules_in_force
from monitor.pages._run_rows import ALERTING, Row, by_urgency, heading, row
from monitor.pages._status import status
from monitor.pages._theme import follow, theme

THRESHOLD = 0.5  # of the ESS, as the shipped rules have it
ORDERS = ("most urgent first", "as they were added")
ROWS = "runs_table"  # the fragment that is drawn anew when a run grows
ABOUT = (
    "The smallest ESS is that of the lag, or of what stands in for a lag that cannot be separated; the course is that of tokens, from 0 to "
    "1 with a line at 0.5. Alerts are those that a watch keeps (python -m monitor watch). Diagnoses are made on the Findings page."
)


def show(desk: Desk) -> None:
    """Draw the page."""
    with st.sidebar:
        order = st.selectbox("Order", ORDERS, key="order", bind="query-params", persist_state="session")
        st.caption(for_markdown(ABOUT))
        follow()
    for failure in desk.library.failures:
        if not failure.unnamed:
            st.error(for_markdown(failure.sentence))
    if not desk.library.entries:
        st.info("There are no runs. Add your own on the Upload page.", icon=":material/info:")
        return
    growing = live(desk.library, list(desk.library.entries))
    with growing.at(ROWS):
        part("Runs", ROWS, lambda: _table(desk, growing, urgent=order == ORDERS[0]))


def _table(desk: Desk, growing: Live, *, urgent: bool) -> None:
    """The table, which is drawn anew by itself when a run grows or a rule changes its state."""
    growing.drawn()
    told = standing(time.time())
    known = Known(rules={rule.id: rule for rule in rules_in_force().policy.rules}, said=told.said)
    if told.trouble:
        st.error(for_markdown(told.trouble))
    rows = [_row(desk.library, run_id, told, known, growing) for run_id in desk.library.entries]
    with st.container(key="runs", gap=None):
        st.html(heading())
        for place, one in enumerate(by_urgency(rows) if urgent else rows):
            with st.container(horizontal=True, gap="small", vertical_alignment="center", key=f"run_row_{place}"):
                st.html(row(one, THRESHOLD, theme()), width="stretch")
                desk.link_to("findings", "Findings", ":material/troubleshoot:", run=one.who.label)
    st.caption(_count(rows))
    growing.done()


def _row(library: Library, run_id: str, told: Standing, known: Known, growing: Live) -> Row:
    entry = library.entries[run_id]
    with st.spinner(f"Computing the metrics of {for_markdown(entry.who.label)}"):
        framed = library.framed(run_id)
    if isinstance(framed, Failure):
        return Row(who=entry.who, status=None, age=framed.sentence, firing=(), watched=False, verdict=None, fresh=False)
    one = Shown(who=entry.who, key=framed.key, frame=framed.frame)
    states, verdict = told.of(entry.run.id), latest(one)
    return Row(
        who=entry.who,
        status=status(one),
        age="sample" if entry.sample else age_of(entry, framed.key, time.time()),
        firing=_firing(states, known),
        watched=bool(states),
        verdict=verdict,
        fresh=verdict is not None and verdict.key == framed.key,
        live=growing.grows(run_id),
    )


def _firing(states: Sequence[State], known: Known) -> tuple[tuple[State, Severity], ...]:
    return tuple((state, known.severity(state)) for state in states if state.phase in ALERTING)


def _count(rows: Sequence[Row]) -> str:
    firing = sum(bool(one.firing) for one in rows)
    under = sum(one.status is not None and any(low.value < THRESHOLD for low in one.status.lowest) for one in rows)
    runs = "1 run" if len(rows) == 1 else f"{len(rows)} runs"
    were, have = ("was" if under == 1 else "were"), ("has" if firing == 1 else "have")
    return f"{runs}; {under} {were} under {THRESHOLD:g}, {firing} {have} a rule that fires."


PAGE = Page(title="Runs", icon=":material/list:", url_path="runs", show=show, place=1)
