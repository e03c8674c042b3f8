"""Who is told: every destination with its health and a button that tries it, and a form for another; secrets are named, never shown."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import streamlit as st

from ingest.errors import RatiometerError
from monitor.alerts.deliver import try_out
from monitor.alerts.destination import destination
from monitor.alerts.policy import Policy, SinkSettings
from monitor.alerts.rule import Severity
from monitor.alerts.secrets import PAGE_PREFIX, Origin
from monitor.alerts.sink import OptionKind, Sink, SinkOption, sinks
from monitor.alerts.store import SinkHealth
from monitor.pages._escape import for_html, for_markdown
from monitor.pages._rule_file import change, rules_in_force
from monitor.pages._rule_form import SAID
from monitor.pages._standing_rows import health
from monitor.pages._theme import theme

TRIED = "sinks_tried"  # in the session: name -> what came of the last test
TROUBLE = "sink_trouble"  # in the session: why a destination was not added, once
SIMPLE = {OptionKind.TEXT, OptionKind.SECRET, OptionKind.NUMBER, OptionKind.SWITCH}  # what a form can ask for
SECRET_HELP = (
    f"Write env:{PAGE_PREFIX}NAME, the name of a variable of the dashboard's own environment that holds the address. "
    "An address in which nothing is secret, for instance json://127.0.0.1:9000, may stand here itself."
)

_NOT_HERE = (  # it is of the command line, or of an earlier file
    "<p><b>{}</b> <small>not in the rule file; it has no test button, because only the watch that has it knows its address</small></p>"
)


def destinations(policy: Policy, found: Sequence[SinkHealth], now: float) -> None:
    """Draw a row for each, then the form for another."""
    by_name = {each.name: each for each in found}
    if not policy.sinks:
        st.caption("Nobody is told yet: the rule file names no destination.")
    for place, settings in enumerate(policy.sinks):
        _row(place, settings, by_name.get(settings.name), now)
    for each in (each for each in found if each.name not in {settings.name for settings in policy.sinks}):
        st.html(f"<div class='sink'>{_NOT_HERE.format(for_html(each.name))}{health(each, now, theme())}</div>")
    with st.expander("Add a destination", key="add_sink"):
        _form()


def _row(place: int, settings: SinkSettings, found: SinkHealth | None, now: float) -> None:
    untested = _untested(settings)
    why = f"<p><small>{for_html(untested)}</small></p>" if untested else ""
    with st.container(horizontal=True, gap="small", vertical_alignment="center", key=f"sink_row_{place}"):
        st.html(f"<div class='sink'>{_head(settings)}{health(found, now, theme())}{why}{_tried(settings.name)}</div>", width="stretch")
        if not untested:
            help_ = "Sends one test message, with the secrets that the rule file names."
            st.button("Test", key=f"test_{place}", on_click=_test, args=(settings.name,), icon=":material/send:", help=help_)
        st.button("Remove", key=f"remove_sink_{place}", on_click=_remove, args=(settings.name,), type="tertiary")


def _head(settings: SinkSettings) -> str:
    """What it is called and where it leads, as anybody may see it."""
    try:
        leads = destination(settings).shown
    except RatiometerError as wrong:  # its words name variables, files and options, never what is in them
        leads = f"{settings.sink}; cannot be set up: {wrong}"
    only = ["criticals only"] if settings.least is Severity.CRITICAL else []
    only += [f"rules {', '.join(settings.rules)}"] if settings.rules != ("*",) else []
    only += [] if settings.enabled else ["switched off"]
    return f"<p><b>{for_html(settings.name)}</b> <code>{for_html(leads)}</code> <small>{for_html('; '.join(only))}</small></p>"


def _untested(settings: SinkSettings) -> str:
    """Why there is no button that tries a destination; "" where there is one."""
    try:
        sink = destination(settings).sink
    except RatiometerError:  # the head says what is missing
        return "No test button: the dashboard cannot set it up. A watch may, if its own environment has what is missing."
    if not sink.on_trial:
        return "No test button: a test would make a trainer do something."
    if not sink.from_page:
        return "No test button: what it does on this machine is started by a watch only, never from a page."
    return ""


def _tried(name: str) -> str:
    said = st.session_state.get(TRIED, {}).get(name)
    if said is None:
        return ""
    return "<p>✓ The test message arrived.</p>" if said == "" else f"<p>✖ The test message did not arrive: {for_html(said)}</p>"


def _test(name: str) -> None:
    """Try a destination as the rule file has it now, with the secrets that it names.

    That is safe where it leads to another machine: a page may write none that names a file or a variable of others (`refuse_from_page`),
    so whatever does was written by hand; and the message is always the same one.
    """
    settings = next((each for each in rules_in_force().policy.sinks if each.name == name), None)
    try:
        with _TURN:
            said = "it is no longer in the rule file" if settings is None else _untested(settings) or try_out(settings, Origin.FILE)
    except RatiometerError as wrong:
        said = str(wrong)
    st.session_state[TRIED] = {**st.session_state.get(TRIED, {}), name: said}


_TURN = threading.Lock()  # one test at a time: a button that is pressed often must not become many messages at once


def _remove(name: str) -> None:
    trouble = change(lambda now: replace(now, sinks=tuple(each for each in now.sinks if each.name != name)))
    st.session_state[TRIED] = {**st.session_state.get(TRIED, {}), name: trouble} if trouble else {}


def _form() -> None:
    kinds = {sink.id: sink for sink in sinks() if sink.from_page and all(each.kind in SIMPLE for each in sink.options if each.required)}
    kind = kinds[st.selectbox("Kind", list(kinds), format_func=lambda each: kinds[each].title, key="sink_kind", width=360)]
    with st.form(f"sink_form_{kind.id}", border=False):
        name = st.text_input("Name", "", key=f"sink_name_{kind.id}", placeholder="team")
        options = _options(kind)
        loud = st.toggle("Criticals only", key=f"sink_least_{kind.id}")
        sent = st.form_submit_button("Add", type="primary", key=f"add_{kind.id}")
    if not sent:
        if trouble := st.session_state.pop(TROUBLE, ""):
            st.error(for_markdown(trouble))
        return
    made = SinkSettings(name=name.strip(), sink=kind.id, least=Severity.CRITICAL if loud else Severity.WARNING, options=options)
    trouble = change(lambda now: replace(now, sinks=(*now.sinks, made)))
    if trouble:
        st.session_state[TROUBLE] = trouble
        st.rerun(scope="app")  # so that what became of the change before does not stay beside it
    st.session_state[SAID] = f"{made.name} is added. Press Test to see whether a message arrives."
    st.rerun(scope="app")


def _options(kind: Sink) -> Mapping[str, Any]:
    """What the form was told of the options; what was left empty is not among them."""
    found: dict[str, Any] = {}
    for option in kind.options:
        if option.kind in SIMPLE:
            value = _ask(option, f"sink_{kind.id}_{option.name}")
            found |= {} if value in ("", None, False) else {option.name: value}
    return found


def _ask(option: SinkOption, key: str) -> str | float | bool | None:
    needed = "" if option.required else " (optional)"
    label = f"{for_markdown(option.name)}: {for_markdown(option.what)}{needed}"
    if option.kind is OptionKind.SWITCH:
        return st.toggle(label, key=key)
    if option.kind is OptionKind.NUMBER:
        return st.number_input(label, None, None, None, None, "%g", key=key)
    secret = option.kind is OptionKind.SECRET
    return st.text_input(label, "", key=key, help=SECRET_HELP if secret else None, autocomplete="off").strip()
