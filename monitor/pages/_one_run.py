"""Which one run a page is about, and beside which; the choice stands in the page's address and outlives a visit to another page."""

from __future__ import annotations

import streamlit as st

from monitor.pages._address import asked, refused
from monitor.pages._controls import REFERENCE, RUN, first_candidate, pick_references
from monitor.pages._escape import for_markdown
from monitor.pages._library import Library, is_reference
from monitor.pages._theme import follow


def pick_run(library: Library) -> str | None:
    """Draw the control and return the run; None where there is none.

    It is the first of the runs laid over the reference until another is chosen. The control itself has no default: Streamlit takes what an
    address asks for only where it differs from that, and a link to a run must always lead to it.
    """
    if not library.entries:
        return None
    labels = {run_id: entry.who.label for run_id, entry in library.entries.items()}
    first = first_candidate(library)
    options = sorted(labels, key=lambda run_id: (run_id != first, is_reference(library.entries[run_id])))
    here = st.session_state.get(RUN)
    if here is not None and here not in labels:
        del st.session_state[RUN]
    if RUN not in st.session_state and st.query_params.get(RUN) not in labels.values():
        st.session_state[RUN] = first
    chosen = st.selectbox(
        "Run",
        options,
        None,
        format_func=labels.__getitem__,
        key=RUN,
        required=True,
        help="The one run that is diagnosed.",
        bind="query-params",
        persist_state="session",
    )
    return first if chosen is None else chosen


__all__ = ["RUN", "pick_run"]


def pick_run_and_references(library: Library, about: str) -> tuple[str | None, list[str]]:
    """Draw a sidebar with both controls and a word about the page; a run is never its own reference."""
    wanted = asked()
    labels = {run_id: entry.who.label for run_id, entry in library.entries.items()}
    with st.sidebar:
        run_id = pick_run(library)
        references = pick_references(library)
        st.caption(about)
        follow()
    values = {RUN: [labels[run_id]] if run_id else [], REFERENCE: [labels[each] for each in references]}
    sentences = refused(wanted, values, labels.values())
    if sentences:
        st.warning(" ".join(map(for_markdown, sentences)), icon=":material/link_off:")
    return run_id, [each for each in references if each != run_id]
