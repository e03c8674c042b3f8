"""Runs of your own: files in, runs in the overlay; what could not be read or mapped is listed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import streamlit as st

from ingest.run import Run
from monitor import store
from monitor.pages import _tables
from monitor.pages._controls import MOST, chosen, select, take_up
from monitor.pages._escape import LONGEST, for_markdown, plain
from monitor.pages._library import Entry, Failure, Library, read_source, source_of
from monitor.pages._naming import naming, unknown_keys
from monitor.pages._page import Desk, Page
from monitor.pages._taking import Outcome, groups, sentence_of, take
from monitor.store import Upload

ROUND, OUTCOMES = "upload_round", "upload_outcomes"  # a new round makes a new, empty upload box
HELP = """
**What can be read**

**wandb** – a chart's *Export as CSV* (one metric a file, dropped together they merge by run name), a history, a `.wandb` record file.

**Logs** – TensorBoard event files, JSONL and CSV metric logs, `trainer_state.json`, a console log of verl.

**Tokens** – Parquet parts together with `run.toml` and step log if there are any; the token dumps of NeMo-RL and prime-rl.

**Archives** – `.zip` or `.tar.gz` of any of these.

What a file is, its content says, never its name. Large logs need no upload: `streamlit run app.py -- PATH` reads them where they lie.
"""
FIT, SCROLLED = 10, 396  # rows that need no scrolling; px, as on the Compare page
FEW = 6  # runs of an upload that are named
NAME_HELP = "What its run is called in the overlay. Of several runs each keeps its own name, and only the upload is called this."


def show(desk: Desk) -> None:
    """Draw the page."""
    st.sidebar.caption(HELP)
    st.subheader("Add runs", anchor=False)
    key = f"files_{st.session_state.setdefault(ROUND, 0)}"
    dropped = st.file_uploader("Files", None, accept_multiple_files=True, key=key, label_visibility="collapsed")
    if dropped:
        with st.spinner("Reading the files"):
            together = groups((file.name, file.getvalue()) for file in dropped)
            outcomes = [outcome for group in together for outcome in take(group)]
        kept = {outcome.upload_id for outcome in outcomes}
        select(source_of(upload).key for upload in store.uploads() if upload.id in kept)
        st.session_state[OUTCOMES] = outcomes
        st.session_state[ROUND] += 1
        st.rerun()
    take_up(desk.library)
    _told(desk, st.session_state.get(OUTCOMES, []))
    _kept(desk)


def _told(desk: Desk, outcomes: Sequence[Outcome]) -> None:
    """Say what became of the files that were dropped last, as the store has them now: messages, the way on, details."""
    uploads = {upload.id: upload for upload in store.uploads()}
    kept = [
        (uploads[outcome.upload_id], read_source(source_of(uploads[outcome.upload_id])))
        for outcome in outcomes
        if outcome.upload_id in uploads
    ]
    runs: dict[str, Run] = {}
    for upload, found in kept:
        if isinstance(found, Failure):
            st.warning(for_markdown(sentence_of(upload, found)), icon=":material/help:")
        else:
            _read(upload, found, desk.library)
            runs |= {entry.who.label: entry.run for entry in _entries(upload, desk.library).values()}
    for outcome in outcomes:
        if outcome.sentence:
            st.error(for_markdown(outcome.sentence), icon=":material/error:")
    if runs and st.button("Show in the overlay", type="primary"):
        desk.go_to("compare")
    for upload, found in kept:
        _details(upload, found)
    _problems(runs)


def _read(upload: Upload, runs: Sequence[Run], library: Library) -> None:
    """What was read, and which of it is in the overlay."""
    entries, selected = _entries(upload, library), chosen() or []
    shown = [entry.who.label for run_id, entry in entries.items() if run_id in selected]
    count = "1 run" if len(runs) == 1 else f"{len(runs)} runs"
    full = f"the overlay holds {MOST}"
    if len(shown) == len(runs):
        said = f"{count} read and selected ({_listed(shown)})."
    elif shown:
        said = f"{count} read; {full}: the first {len(shown)} {'was' if len(shown) == 1 else 'were'} added ({_listed(shown)})."
    elif len(selected) >= MOST:
        said = f"{count} read ({_listed([entry.who.label for entry in entries.values()])}); {full} and is full: none was added."
    else:
        said = f"{count} read ({_listed([entry.who.label for entry in entries.values()])}), not selected."
    choose = "" if len(shown) == len(runs) else " Choose others on the Compare page."
    st.success(f"{for_markdown(upload.title, LONGEST)}: {said}{choose}", icon=":material/check:")
    for why in dict.fromkeys(run.why for run in runs if run.dialect):
        st.caption(for_markdown(why))


def _details(upload: Upload, found: Sequence[Run] | Failure) -> None:
    """What the user may say about an upload: its name, and what its keys are."""
    count = 0 if isinstance(found, Failure) else len(unknown_keys(found))
    unknown = f" ({count} unknown)" if count else ""
    expanded = isinstance(found, Failure) or upload.mapping_path.is_file()
    with st.expander(f"Name and keys of {for_markdown(upload.title, LONGEST)}{unknown}", expanded=expanded, key=f"about_{upload.id}"):
        key = f"called_{upload.id}"
        st.text_input(
            "Name", upload.name, store.MAX_NAME, key, help=NAME_HELP, placeholder="as its file", on_change=_rename, args=(upload.id, key)
        )
        naming(upload)


def _rename(upload_id: str, key: str) -> None:
    store.rename(upload_id, plain(st.session_state[key], store.MAX_NAME))
    select(source_of(upload).key for upload in store.uploads() if upload.id == upload_id)


def _problems(runs: Mapping[str, Run]) -> None:
    """What was not understood, folded as on the Compare page."""
    found = ((label, problem) for label, run in runs.items() for problem in run.problems)
    table = _tables.problem_table(found, runs=len(runs))
    if table.empty:
        return
    fits = len(table) <= FIT
    with st.expander(f"What could not be read or mapped ({len(table)})", expanded=fits, key="problems"):
        rows = _tables.escaped(table.head(_tables.MOST_ROWS), for_markdown)
        st.table(rows, border="horizontal", hide_index=True, height="content" if fits else SCROLLED)
        if not fits:
            st.caption(f"{f'The first {len(rows)} of ' if len(rows) < len(table) else ''}{len(table)} rows; the table scrolls.")


def _kept(desk: Desk) -> None:
    """The uploads on disk, each with a way to name and to remove it."""
    st.subheader("Your uploads", anchor=False)
    kept = store.uploads()
    if not kept:
        st.caption(f"None yet. They are kept in {for_markdown(store.home())}, as the plain files you drop here.")
        return
    for upload in kept:
        with st.container(horizontal=True, wrap=False, vertical_alignment="center", key=f"upload_{upload.id}"):
            st.markdown(_row(upload, desk.library), width="stretch")
            if st.button("Edit", key=f"name_{upload.id}", icon=":material/edit:", wrap=False):
                st.session_state[OUTCOMES] = [Outcome(title=upload.title, upload_id=upload.id)]
                st.rerun()
            if st.button("Remove", key=f"remove_{upload.id}", icon=":material/delete:", wrap=False):
                store.remove(upload.id)
                st.session_state.pop(OUTCOMES, None)
                st.rerun()


def _row(upload: Upload, library: Library) -> str:
    """An upload in a line or two: what it is called, which runs it holds, how it is kept, how large it is and when it came."""
    labels = [entry.who.label for entry in _entries(upload, library).values()]
    runs = f"{'run' if len(labels) == 1 else 'runs'} {_listed(labels)}" if labels else "no run yet, its keys are unknown"
    stored = upload.paths[0].name
    kept = f"kept as {for_markdown(stored, LONGEST)} · " if stored in dict(upload.names) else ""
    added = datetime.fromtimestamp(upload.files.stat().st_mtime, UTC).astimezone()
    called = f"**{for_markdown(upload.title, LONGEST)}**"
    return f"{called} · {runs}  \n:small[:gray[{kept}{_size(upload.size)} · added {added:%Y-%m-%d %H\\:%M}]]"


def _entries(upload: Upload, library: Library) -> dict[str, Entry]:
    key = source_of(upload).key
    return {run_id: entry for run_id, entry in library.entries.items() if entry.key == key}


def _listed(labels: Sequence[str]) -> str:
    """The first few, escaped, and how many more there are."""
    more = f" and {len(labels) - FEW} more" if len(labels) > FEW else ""
    return ", ".join(for_markdown(label, LONGEST) for label in labels[:FEW]) + more


def _size(count: int) -> str:
    if count < 2**10:
        return f"{count} bytes"
    return f"{count / 2**10:,.0f} kB" if count < 2**20 else f"{count / 2**20:,.1f} MB"


PAGE = Page(title="Upload", icon=":material/upload_file:", url_path="upload", show=show, place=6)
