"""What is wrong with a run, and what to change: the ladder of layers with its verdict, each finding with its evidence and its fix."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from monitor.diagnosis.diagnose import Answer, Diagnosis
from monitor.diagnosis.outcome import Finding, Passed, Skipped
from monitor.pages import _tables
from monitor.pages._cards import card, since
from monitor.pages._controls import CANDIDATE
from monitor.pages._definitions import definitions
from monitor.pages._diagnoses import diagnosed, known
from monitor.pages._escape import for_html, for_markdown
from monitor.pages._frames import frames, shown
from monitor.pages._grid import send_plotly
from monitor.pages._library import Entry, Failure, Library
from monitor.pages._live import live
from monitor.pages._one_run import pick_run_and_references
from monitor.pages._page import Desk, Page
from monitor.pages._results import Shown
from monitor.pages._sentences import sentence
from monitor.pages._tables import UNCHECKED_COLUMNS
from monitor.pages._theme import theme
from monitor.pages._verdicts import ladder, verdict

ABOUT = (
    "One fault hides behind another, so the questions are asked in an order: can the data be compared, are the log-probabilities the "
    "sampler's, is the inference path right, are the numerics; only then lag and the objective. Mend the first that is at fault, then "
    "look again."
)


def show(desk: Desk) -> None:
    """Draw the page."""
    library = desk.library
    run_id, references = pick_run_and_references(library, ABOUT)
    st.session_state[CANDIDATE] = run_id  # whose checklist the page of the migration shows, where it is a candidate there
    if run_id is None:
        st.info("There is no run to be diagnosed. Add your own on the Upload page.", icon=":material/info:")
        return
    with live(library, [run_id, *references], alerts=False).at():
        _told(library, run_id, references)


def _told(library: Library, run_id: str, references: Sequence[str]) -> None:
    """Everything about one run."""
    entry = library.entries[run_id]
    found = frames(library, list(dict.fromkeys((run_id, *references))))
    if run_id not in found:
        return  # why was said when its frame was asked for
    (one,), seeds = shown(library, found, [run_id]), shown(library, found, references)
    told = _diagnosed(one, entry, seeds)
    if isinstance(told, Failure):
        st.error(for_markdown(told.sentence))
        return
    with st.container(key="ladder"):
        st.html(verdict(one.who.label, told, theme()) + f"<p class='basis'>{for_html(_basis(entry, seeds))}</p>" + ladder(told, theme()))
    _findings(told, one, seeds)
    _notes(told)
    _unchecked(told)
    _passed(told)


def _diagnosed(one: Shown, entry: Entry, references: Sequence[Shown]) -> Diagnosis | Failure:
    """The diagnosis, with a word about how far it is where it has to be made."""
    found = known(one, references)
    if found is not None:
        return found
    place = st.empty()

    def tell(words: str) -> None:
        place.caption(for_markdown(words))

    with st.spinner(f"Diagnosing {for_markdown(one.who.label)}"):
        found = diagnosed(one, entry.run, references, tell)
    place.empty()
    return found


def _basis(entry: Entry, references: Sequence[Shown]) -> str:
    """What the answers stand on."""
    run = entry.run
    beside = f"Beside {', '.join(one.who.label for one in references)}." if references else "Without a reference."
    if run.tokens is None:
        return f"This run has no token log: answers come from its step log and settings alone. {beside}"
    rows = [piece.rows for piece in run.tokens.pieces if piece.rows is not None]
    counted = f"{sum(rows):,} rows of its token log" if len(rows) == len(run.tokens.pieces) else "its token log"
    settings = f", its step log and {len(run.config)} settings" if run.config else " and its step log"
    return f"From {counted}{settings if run.scalars.num_rows or run.config else ''}. {beside}"


def _findings(told: Diagnosis, one: Shown, references: Sequence[Shown]) -> None:
    faults = [answer for answer in told.findings if answer.at_fault]
    for heading, answers in (("What is wrong, and what to change", faults), ("A gap that this log cannot place", told.unplaced)):
        if answers:
            st.subheader(heading, anchor=False)
        for answer in answers:
            if isinstance(answer.outcome, Finding):
                card(answer, answer.outcome, one, references, definitions())
    if faults or told.unplaced:
        send_plotly()


def _notes(told: Diagnosis) -> None:
    """What a healthy run could show as well: said, and no fault."""
    apart = {one.rule.id for one in told.answers if one.at_fault} | {one.rule.id for one in told.unplaced}
    notes = [(one.rule, one.outcome) for one in told.findings if isinstance(one.outcome, Finding) and one.rule.id not in apart]
    if not notes:
        return
    lines = [
        f"<p><b>{for_html(rule.title)}</b> <small>{for_html(rule.layer.words)}, {for_html(since(note))}</small>"
        f"<br>{for_html(sentence(note.what))} {for_html(sentence(note.why))}</p>"
        for rule, note in notes
    ]
    with st.container(key="notes"):
        st.subheader("Notes, which are no faults", anchor=False)
        st.html("".join(lines))


def _unchecked(told: Diagnosis) -> None:
    skipped = [(one, one.outcome) for one in told.skipped if isinstance(one.outcome, Skipped)]
    if not skipped:
        st.caption("Every question was asked.")
        return
    st.subheader("What was not checked, and why", anchor=False)
    with st.container(key="unchecked"):
        st.table(_tables.escaped(unchecked_table(skipped), for_markdown), border="horizontal", hide_index=True)


def unchecked_table(skipped: Sequence[tuple[Answer, Skipped]]) -> pd.DataFrame:
    """A row per layer and reason, in the order of the questions; text is not yet escaped."""
    alike: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for answer, outcome in skipped:
        alike.setdefault((answer.rule.layer.words, outcome.why, outcome.record), []).append(answer.rule.title)
    rows = [("; ".join(titles), layer, sentence(why), ", ".join(record) or "–") for (layer, why, record), titles in alike.items()]
    return pd.DataFrame(rows, columns=list(UNCHECKED_COLUMNS))


def _passed(told: Diagnosis) -> None:
    passed = [(one.rule, one.outcome) for one in told.answers if isinstance(one.outcome, Passed)]
    if not passed:
        return
    lines = [
        f"<p><b>{for_html(rule.title)}</b> <small>{for_html(rule.layer.words)}</small><br>{for_html(sentence(passing.says))}</p>"
        for rule, passing in passed
    ]
    with st.expander(f"What was looked for and is not there ({len(passed)})", key="passed"):
        st.html("".join(lines))


PAGE = Page(title="Findings", icon=":material/troubleshoot:", url_path="findings", show=show, place=2)
