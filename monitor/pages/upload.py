"""Runs of your own: files in, runs in the overlay; what could not be read or mapped is listed."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

import streamlit as st

from ingest.errors import RatiometerError
from ingest.run import Run
from monitor import store
from monitor.pages import _tables
from monitor.pages._controls import select
from monitor.pages._escape import for_markdown
from monitor.pages._library import Failure, read_source, source_of
from monitor.pages._naming import naming, unknown_keys
from monitor.pages._page import Desk, Page
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
# Files that are one log when they are dropped together, by how their names end or what is in them; the first that fits.
_RUN = ("run.toml", "steps.jsonl")
_TOKENS = (".parquet", ".jsonl", ".ndjson", ".toml")
_DUMP = re.compile(r"train_data_step\d+\.jsonl|rank_\d+\.jsonl")  # NeMo-RL, prime-rl
_WANDB = (".wandb", ".yaml", ".yml", ".json")

File = tuple[str, bytes]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of files that were dropped together."""

    title: str
    upload_id: str = ""  # of what was kept; empty where nothing was
    sentence: str = ""  # why nothing was kept; empty where something was


def show(desk: Desk) -> None:
    """Draw the page."""
    st.sidebar.caption(HELP)
    st.subheader("Add runs", anchor=False)
    key = f"files_{st.session_state.setdefault(ROUND, 0)}"
    dropped = st.file_uploader("Files", None, accept_multiple_files=True, key=key, label_visibility="collapsed")
    if dropped:
        with st.spinner("Reading the files"):
            outcomes = [take(together) for together in groups((file.name, file.getvalue()) for file in dropped)]
        kept = {outcome.upload_id for outcome in outcomes}
        select(source_of(upload).key for upload in store.uploads() if upload.id in kept)
        st.session_state[OUTCOMES] = outcomes
        st.session_state[ROUND] += 1
        st.rerun()
    uploads = {upload.id: upload for upload in store.uploads()}
    read = [_outcome(outcome, uploads) for outcome in st.session_state.get(OUTCOMES, [])]
    if any(read) and st.button("Show in the overlay", type="primary"):
        desk.go_to("compare")
    _kept(desk)


def groups(files: Iterable[File]) -> list[list[File]]:
    """Files that are one log: exports merge, Parquet parts go with their step log and `run.toml`, any other file stands alone.

    The event files of a TensorBoard run, a wandb record with its settings, and the parts of a token dump are one log too.
    """
    dropped = list(files)
    names = {PurePath(file[0]).name for file in dropped}
    together: dict[str, list[File]] = {}
    for number, file in enumerate(dropped):
        together.setdefault(_group(file, names) or str(number), []).append(file)
    return sorted(together.values(), key=lambda group: _suffix(group[0]) != ".csv")


def _group(file: File, names: Collection[str]) -> str:
    """The group a file belongs to; "" for none."""
    suffix, suffixes = _suffix(file), {PurePath(name).suffix.lower() for name in names}
    fits = {
        "tables": suffix == ".csv",
        "events": "tfevents" in file[0],
        "tokens": ".parquet" in suffixes and suffix in _TOKENS,
        "run": "run.toml" in names and PurePath(file[0]).name in _RUN,
        "wandb": ".wandb" in suffixes and suffix in _WANDB,
        "dump": _DUMP.match(PurePath(file[0]).name) is not None,
    }
    return next((name for name, fit in fits.items() if fit), "")


def take(files: Sequence[File]) -> Outcome:
    """Keep files that are one log, and read them; what cannot be read is not kept, unless only its keys have to be named."""
    try:
        upload = store.save(files)
    except (RatiometerError, OSError) as error:
        return Outcome(title=files[0][0], sentence=str(error))
    found = read_source(source_of(upload))
    if isinstance(found, Failure) and not found.unnamed:
        store.remove(upload.id)
        others = f" None of the {len(files)} files dropped with it was kept." if len(files) > 1 else ""
        return Outcome(title=upload.title, sentence=found.sentence.replace(f"{upload.files}/", "") + others)
    return Outcome(title=upload.title, upload_id=upload.id)


def _outcome(outcome: Outcome, uploads: Mapping[str, Upload]) -> bool:
    """Say what became of some files, as the store has them now; whether there are runs of them."""
    if outcome.sentence:
        st.error(for_markdown(outcome.sentence), icon=":material/error:")
    if outcome.upload_id not in uploads:
        return False
    upload = uploads[outcome.upload_id]
    found = read_source(source_of(upload))
    if isinstance(found, Failure):
        st.warning(for_markdown(found.sentence.replace(f"{upload.files}/", "")), icon=":material/help:")
    else:
        _read(outcome, found)
    count = 0 if isinstance(found, Failure) else len(unknown_keys(found))
    if count or isinstance(found, Failure) or upload.mapping_path.is_file():
        label = "Say what the keys are" + (f" ({count} unknown)" if count else "")
        with st.expander(label, expanded=isinstance(found, Failure) or upload.mapping_path.is_file()):
            naming(upload)
    return not isinstance(found, Failure)


def _read(outcome: Outcome, runs: Sequence[Run]) -> None:
    names = ", ".join(run.name for run in runs)
    count = "1 run" if len(runs) == 1 else f"{len(runs)} runs"
    st.success(f"{for_markdown(outcome.title)}: {count} read and selected ({for_markdown(names, 400)}).", icon=":material/check:")
    for why in dict.fromkeys(run.why for run in runs if run.dialect):
        st.caption(for_markdown(why))
    found = ((run.name, problem) for run in runs for problem in run.problems)
    problems = _tables.problem_table(found, runs=len(runs))
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
            if st.button("Name keys", key=f"name_{upload.id}", icon=":material/label:"):
                st.session_state[OUTCOMES] = [Outcome(title=upload.title, upload_id=upload.id)]
                st.rerun()
            if st.button("Remove", key=f"remove_{upload.id}", icon=":material/delete:"):
                store.remove(upload.id)
                st.session_state.pop(OUTCOMES, None)
                st.rerun()


def _suffix(file: File) -> str:
    return PurePath(file[0]).suffix.lower()


PAGE = Page(title="Upload", icon=":material/upload_file:", url_path="upload", show=show)
