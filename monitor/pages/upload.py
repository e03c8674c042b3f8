"""Runs of your own: files in, runs in the overlay; what could not be read or mapped is listed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath

import streamlit as st

from ingest.errors import RatiometerError
from ingest.run import Run
from monitor import store
from monitor.pages import _tables
from monitor.pages._controls import select
from monitor.pages._escape import for_markdown
from monitor.pages._library import Failure, Key, read_source, source_of
from monitor.pages._page import Desk, Page

TYPES = ("csv", "jsonl", "ndjson", "parquet", "toml")
ROUND, OUTCOMES = "upload_round", "upload_outcomes"  # a new round makes a new, empty upload box
HELP = """
**What can be read**

**wandb CSV** – a chart's *Export as CSV*, one metric a file. Drop the exports of the same runs together: they merge by run name.

**JSONL** – a step log, one object a line.

**Parquet** – a token log: its part or parts together, with `run.toml` and step log if there are any.

Large logs need no upload: `streamlit run app.py -- PATH` reads them where they lie.
"""

File = tuple[str, bytes]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of files that were dropped together."""

    title: str
    runs: tuple[Run, ...] = ()
    key: Key = ()
    sentence: str = ""  # why nothing was read; empty where something was


def show(desk: Desk) -> None:
    """Draw the page."""
    st.sidebar.caption(HELP)
    st.subheader("Add runs", anchor=False)
    key = f"files_{st.session_state.setdefault(ROUND, 0)}"
    dropped = st.file_uploader("Files", TYPES, accept_multiple_files=True, key=key, label_visibility="collapsed")
    if dropped:
        with st.spinner("Reading the files"):
            outcomes = [take(together) for together in groups((file.name, file.getvalue()) for file in dropped)]
        select(outcome.key for outcome in outcomes if outcome.runs)
        st.session_state[OUTCOMES] = outcomes
        st.session_state[ROUND] += 1
        st.rerun()
    for outcome in st.session_state.get(OUTCOMES, []):
        _outcome(outcome)
    if any(outcome.runs for outcome in st.session_state.get(OUTCOMES, [])) and st.button("Show in the overlay", type="primary"):
        desk.go_to("compare")
    _kept(desk)


def groups(files: Iterable[File]) -> list[list[File]]:
    """Files that are one log: chart exports merge, Parquet parts go with their step log and `run.toml`; any other file stands alone."""
    dropped = list(files)
    tables = [file for file in dropped if _suffix(file) == ".csv"]
    rest = [file for file in dropped if _suffix(file) != ".csv"]
    token_log = any(_suffix(file) == ".parquet" for file in rest)
    apart = [rest] if token_log else [[file] for file in rest]
    return [together for together in ([tables] if tables else []) + apart if together]


def take(files: Sequence[File]) -> Outcome:
    """Keep files that are one log, and read them; what cannot be read is not kept."""
    try:
        upload = store.save(files)
    except (RatiometerError, OSError) as error:
        return Outcome(title=files[0][0], sentence=str(error))
    source = source_of(upload)
    found = read_source(source)
    if isinstance(found, Failure):
        store.remove(upload.id)
        others = f" None of the {len(files)} files dropped with it was kept." if len(files) > 1 else ""
        return Outcome(title=upload.title, sentence=found.sentence.replace(f"{upload.files}/", "") + others)
    return Outcome(title=upload.title, runs=found, key=source.key)


def _outcome(outcome: Outcome) -> None:
    if outcome.sentence:
        st.error(for_markdown(outcome.sentence), icon=":material/error:")
        return
    names = ", ".join(run.name for run in outcome.runs)
    count = "1 run" if len(outcome.runs) == 1 else f"{len(outcome.runs)} runs"
    st.success(f"{for_markdown(outcome.title)}: {count} read and selected ({for_markdown(names, 400)}).", icon=":material/check:")
    found = ((run.name, problem) for run in outcome.runs for problem in run.problems)
    problems = _tables.problem_table(found, runs=len(outcome.runs))
    if not problems.empty:
        with st.expander(f"What could not be read or mapped ({len(problems)})", expanded=True):
            st.table(_tables.escaped(problems.head(_tables.MOST_ROWS), for_markdown), border="horizontal", hide_index=True)


def _kept(desk: Desk) -> None:
    """The uploads on disk, each with a way to remove it."""
    st.subheader("Your uploads", anchor=False)
    kept = store.uploads()
    if not kept:
        st.caption(f"None yet. They are kept in {for_markdown(store.home())}, as the plain files you drop here.")
        return
    for upload in kept:
        key = source_of(upload).key
        names = [entry.run.name for entry in desk.library.entries.values() if entry.key == key]
        with st.container(horizontal=True, vertical_alignment="center", key=f"upload_{upload.id}"):
            size = f"{upload.size / 1024:,.0f} kB" if upload.size < 2**20 else f"{upload.size / 2**20:,.1f} MB"
            st.markdown(f"**{for_markdown(upload.title, 60)}**  {for_markdown(', '.join(names), 120)} · {size}", width="stretch")
            if st.button("Remove", key=f"remove_{upload.id}", icon=":material/delete:"):
                store.remove(upload.id)
                st.session_state.pop(OUTCOMES, None)
                st.rerun()


def _suffix(file: File) -> str:
    return PurePath(file[0]).suffix.lower()


PAGE = Page(title="Upload", icon=":material/upload_file:", url_path="upload", show=show)
