"""Alerts: what fires now, when the rules would have fired over a run, what was told, who is told, and the rules themselves."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Literal

import pandas as pd
import streamlit as st

from ingest.run import Run
from monitor.alerts.backtest import Backtest
from monitor.alerts.rule import AlertRule
from monitor.alerts.state import State
from monitor.alerts.store import StoreError
from monitor.pages import _tables
from monitor.pages._alert_figure import strips_of
from monitor.pages._alerting import Standing, firings, opened, standing, tested
from monitor.pages._boundary import part
from monitor.pages._controls import pick_references
from monitor.pages._curves import View
from monitor.pages._definitions import definitions
from monitor.pages._destinations import destinations
from monitor.pages._escape import for_markdown
from monitor.pages._frames import frames, shown
from monitor.pages._grid import grid, send_plotly
from monitor.pages._known_rules import Known
from monitor.pages._library import Failure, Library
from monitor.pages._live import Live, live
from monitor.pages._one_run import pick_run
from monitor.pages._page import Desk, Page
from monitor.pages._results import Shown
from monitor.pages._rule_file import Rules, rules_in_force
from monitor.pages._rule_form import rule_form, told_once
from monitor.pages._rule_rows import episode_table, rule_row
from monitor.pages._standing_rows import history_table, line, loud
from monitor.pages._theme import follow, theme

NOW, BACK, PAST, WHO = "alerts_now", "alerts_back", "alerts_past", "alerts_who"  # fragments
SILENCES = {"1 hour": 3600.0, "8 hours": 28800.0, "24 hours": 86400.0}
BY = "the Alerts page"
MOST_STATES, MOST_PASTS = 30, 100
FIT, SCROLLED = 10, 396  # rows that need no scrolling; px, as on the Compare page
ABOUT = (
    "A rule tells somebody once when a run goes wrong, and once when that is over. They are told by a watch, which needs no browser; here "
    "you see what it found, and what the rules would have said about a run that is stored."
)


def show(desk: Desk) -> None:
    """Draw the page."""
    library = desk.library
    with st.sidebar:
        run_id = pick_run(library)
        references = [each for each in pick_references(library) if each != run_id]
        st.caption(ABOUT)
        follow()
    rules = rules_in_force()
    with st.container(key="alerts_said"):  # a place of its own, so that what lies below keeps its own
        _said(rules)
    growing = live(library, [run_id] if run_id else [])
    with growing.at(NOW, BACK, PAST, WHO):
        part("Alerts", NOW, lambda: _now(library, rules, growing))
        part("Alerts", BACK, lambda: _back(library, rules, run_id, references, growing))
        part("Alerts", PAST, lambda: _past(library))
        part("Alerts", WHO, _who)
    with st.container(key="rule_editor"), st.expander("Change the rules", key="edit_rules"):
        if rules.trouble:
            st.caption("The rule file must be mended by hand first.")
        else:
            rule_form(rules.policy)
    st.caption(for_markdown(_where(rules)))


def _said(rules: Rules) -> None:
    """What became of the last change, and what is wrong with the file."""
    told_once()
    if rules.trouble:
        st.error(for_markdown(f"{rules.trouble} The shipped rules are shown instead; nothing can be saved until the file is mended."))


def _where(rules: Rules) -> str:
    kept = "These are the shipped rules; once one is changed, all are kept in" if rules.shipped else "The rules are kept in"
    return f"{kept} {rules.path}. A watch on this run store uses them and takes up what you change: python -m monitor watch PATH"


def _by_id(rules: Rules) -> dict[str, AlertRule]:
    return {rule.id: rule for rule in rules.policy.rules}


def _labels(library: Library) -> dict[str, str]:
    return {entry.run.id: entry.who.label for entry in library.entries.values()}


def _now(library: Library, rules: Rules, growing: Live) -> None:
    """What fires, over all runs that are watched."""
    growing.drawn()
    now = time.time()
    told = standing(now)
    st.subheader("Now", anchor=False)
    if told.trouble:
        st.error(for_markdown(told.trouble))
        return
    if not told.watched:
        st.caption(f"Nothing is watched yet. To be told: {for_markdown('python -m monitor watch PATH')}")
        return
    known = Known(rules=_by_id(rules), said=told.said)
    lasting = loud(told.states, known)
    if not lasting:
        st.caption(f"Nothing fires in {_count(told)}.")
    for place, state in enumerate(lasting[:MOST_STATES]):
        _state(place, state, _labels(library), known, now)
    if len(lasting) > MOST_STATES:
        st.caption(f"The {MOST_STATES} most urgent of {len(lasting)}.")
    _silences(told, _labels(library))


def _count(told: Standing) -> str:
    runs = len({state.run for state in told.states})
    return f"the {runs} runs that are watched" if runs > 1 else "the run that is watched"


def _state(place: int, state: State, labels: Mapping[str, str], known: Known, now: float) -> None:
    with st.container(horizontal=True, gap="small", vertical_alignment="center", key=f"state_{place}"):
        st.html(line(state, labels.get(state.run, state.run), known, now, theme()), width="stretch")
        if state.episode and not (state.told.acknowledged or state.told_nan.acknowledged):
            st.button(
                "Acknowledge", key=f"acknowledge_{place}", on_click=_acknowledge, args=(state.episode,), help="No more reminders of it."
            )
        with st.popover("Silence", key=f"silence_{place}"):
            st.caption("Tell nothing of this rule in this run for")
            for words, seconds in SILENCES.items():
                st.button(
                    words, key=f"silence_{place}_{seconds:g}", on_click=_silence, args=(state.rule, state.run, seconds), width="stretch"
                )


def _silences(told: Standing, labels: Mapping[str, str]) -> None:
    """What is silenced, wherever it stands, with the way back."""
    for place, one in enumerate(told.silences):
        with st.container(horizontal=True, gap="small", vertical_alignment="center", key=f"silenced_{place}"):
            until = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(one.until))
            who = labels.get(one.run, one.run)
            st.caption(for_markdown(f"{one.rule} in {who} is silenced until {until}, by {one.by}."), width="content")
            st.button("End it", key=f"end_{place}", on_click=_silence, args=(one.rule, one.run, 0.0), type="tertiary")


def _acknowledge(episode: str) -> None:
    try:
        opened().acknowledge(episode, by=BY, now=time.time())
    except StoreError as broken:
        st.error(for_markdown(broken))


def _silence(rule: str, run: str, seconds: float) -> None:
    try:
        opened().silence(rule, run, time.time() + seconds, by=BY, now=time.time())
    except StoreError as broken:
        st.error(for_markdown(broken))


def _back(library: Library, rules: Rules, run_id: str | None, references: Sequence[str], growing: Live) -> None:
    """The rules, and when they would have fired over the chosen run."""
    if run_id is None:
        st.subheader("Rules", anchor=False)
        _rows([rule_row(rule, "", None, None, theme()) for rule in rules.policy.rules])
        return
    entry = library.entries[run_id]
    st.subheader(f"Rules, and when they would have fired over {for_markdown(entry.who.label, 60)}", anchor=False)
    found = frames(library, list(dict.fromkeys((run_id, *references))))
    if run_id not in found:
        return
    (one,), seeds = shown(library, found, [run_id]), shown(library, found, references)
    back = tested(rules.policy, one, entry.run, seeds)
    if isinstance(back, Failure):
        st.error(for_markdown(back.sentence))
        return
    states = {state.rule: state for state in standing(time.time()).of(entry.run.id)}
    with st.container(key="rules"):
        _rows([rule_row(rule, entry.run.id, back, states.get(rule.id), theme()) for rule in rules.policy.rules])
    _figure(rules, back, one, entry.run, seeds)
    growing.done()


def _rows(rules: Sequence[str]) -> None:
    """The rules, a row for each; a file may have none."""
    if rules:
        st.html("".join(rules))
    else:
        st.caption("The rule file has no rule, so that nothing is asked. With include_defaults = true in it the shipped rules are.")


def _figure(rules: Rules, back: Backtest, one: Shown, run: Run, references: Sequence[Shown]) -> None:
    view = View()
    drawn = strips_of(rules.policy.rules_for(run.id), back, one, settings=run.config, references=references, view=view)
    if drawn:
        fired = {one.who.id: firings(standing(time.time()), run, back)}
        grid("alerts_figure", drawn, view=view, definitions=definitions(), firings=fired)
        send_plotly()
        st.caption(
            "Bars under a strip: a rule fires there. Dotted: thresholds of the rules that read it, where they are the same at every step. "
            "Cooldown, cap and silence do not enter: they decide what is told, not what is so."
        )
    table = episode_table(back)
    if not table.empty:
        with st.expander(f"Episodes ({len(table)})", key="episodes"):
            _table(table.head(_tables.MOST_ROWS))


def _past(library: Library) -> None:
    """What changed, told or not."""
    told = standing(time.time())
    if not told.history:
        return
    st.subheader("History", anchor=False)
    table = history_table(told.history[:MOST_PASTS], _labels(library), told.arrivals)
    with st.container(key="history"):
        _table(table)


def _table(table: pd.DataFrame) -> None:
    """A table in the page itself, which scrolls when it is long."""
    height: int | Literal["content"] = SCROLLED if len(table) > FIT else "content"
    st.table(_tables.escaped(table, for_markdown), border="horizontal", hide_index=True, height=height)


def _who() -> None:
    """The destinations; read anew, because their own buttons change them."""
    st.subheader("Who is told", anchor=False)
    now = time.time()
    rules = rules_in_force()
    destinations(rules.policy, standing(now).sinks, now)


PAGE = Page(title="Alerts", icon=":material/notifications:", url_path="alerts", show=show, place=5)
