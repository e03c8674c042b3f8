"""The user's word on the keys of an upload: each unknown key with a preview, what it may be, and the mapping that comes of it."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence

import streamlit as st

from ingest.dialect import Key
from ingest.identify import base_key, dialects, has
from ingest.preview import Preview
from ingest.run import ProblemKind, Run
from ingest.user_mapping import UserMapping, quantities, written
from monitor import store
from monitor.metrics import glossary
from monitor.pages._controls import select
from monitor.pages._escape import for_markdown, plain
from monitor.pages._library import Failure, previewed, read_source, source_of
from monitor.store import Upload

UNNAMED = "not mapped"
MOST = 25  # keys drawn at once; a box finds the others
BY_KEYS = "as its keys suggest"
ABOUT = (
    "Say what a key is, and its values count as that quantity; the overlay draws those that it has a strip for. Set *negative* where the "
    "log has the negative of the quantity. What you say is kept beside the upload as a TOML file; the command line "
    "takes the same file with `--map`."
)


def naming(upload: Upload) -> None:
    """Draw the form for one upload."""
    seen = previewed(source_of(upload))
    if isinstance(seen, Failure):
        st.caption(for_markdown(seen.sentence))
        return
    kept = store.mapping_of(upload) or UserMapping()
    unknown = _unknown(upload, seen, kept)
    st.caption(ABOUT)
    dialect = _dialect(upload, kept)
    named = {key.raw: key for key in kept.keys}
    for preview in _found(upload, unknown):
        key = _row(upload, preview, named.get(preview.key))
        named.pop(preview.key, None)
        named |= {preview.key: key} if key else {}
    if st.button("Save", key=f"save_{upload.id}", type="primary", icon=":material/save:"):
        store.save_mapping(upload.id, UserMapping(keys=tuple(named.values()), dialect=dialect))
        select(source_of(each).key for each in store.uploads() if each.id == upload.id)
        st.rerun()
    _shown(upload, kept)


def unknown_keys(runs: Sequence[Run]) -> set[str]:
    """The keys of some runs that stand for no quantity."""
    problems = (problem for run in runs for problem in run.problems if problem.kind is ProblemKind.UNMAPPED)
    return {base_key(problem.place.removeprefix("key ")) for problem in problems}


def _unknown(upload: Upload, seen: Sequence[Preview], kept: UserMapping) -> list[Preview]:
    """Keys that nobody has named yet, and those that the user has."""
    runs = read_source(source_of(upload))
    unnamed = {preview.key for preview in seen} if isinstance(runs, Failure) else unknown_keys(runs)
    return [preview for preview in seen if preview.key in unnamed or any(has(key, {preview.key}) for key in kept.keys)]


def _dialect(upload: Upload, kept: UserMapping) -> str | None:
    titles = {dialect.id: dialect.title for dialect in dialects()}
    options = [BY_KEYS, *titles]
    chosen = st.selectbox(
        "Framework", options, options.index(kept.dialect or BY_KEYS), lambda name: titles.get(name, name), key=f"dialect_{upload.id}"
    )
    return None if chosen == BY_KEYS else chosen


def _found(upload: Upload, unknown: Collection[Preview]) -> list[Preview]:
    """The keys to draw: all of a few, of many those that the user looks for."""
    if not unknown:
        st.caption("Every key of this upload is known.")
    wanted = ""
    if len(unknown) > MOST:
        wanted = st.text_input(f"Find among {len(unknown)} keys", key=f"find_{upload.id}", placeholder="part of a key").strip().lower()
    return [preview for preview in unknown if wanted in preview.key.lower()][:MOST]


def _row(upload: Upload, preview: Preview, known: Key | None) -> Key | None:
    """One key: what is in it on the left, what it is on the right."""
    mark = hashlib.blake2b(f"{upload.id} {preview.key}".encode("utf-8", "replace"), digest_size=6).hexdigest()
    options = [UNNAMED, *quantities()]
    about, says = st.columns(2, vertical_alignment="center")
    about.markdown(f"**{for_markdown(preview.key, 80)}**  \n{for_markdown(preview.words)}")
    says = says.container(horizontal=True, vertical_alignment="center")  # where it is narrow, the checkbox goes below
    quantity = says.selectbox(
        f"Meaning of {plain(preview.key, 80)}",
        options,
        options.index(known.quantity) if known else 0,
        _title,
        key=f"meaning_{mark}",
        label_visibility="collapsed",
    )
    negative = says.checkbox("negative", known is not None and known.sign < 0, key=f"negative_{mark}")
    if quantity == UNNAMED:
        return None
    scale, caveat = (known.scale, known.caveat) if known else (1.0, "")
    return Key(raw=preview.key, quantity=quantity, sign=-1 if negative else 1, scale=scale, caveat=caveat)


def _title(quantity: str) -> str:
    """The id first, so that typing one finds it before those that only sound alike."""
    return f"{quantity} ({glossary.metric(quantity).title})" if glossary.known(quantity) else quantity


def _shown(upload: Upload, kept: UserMapping) -> None:
    """The mapping as it is kept, to look at and to take along."""
    if not (kept.keys or kept.dialect):
        return
    text = written(kept)
    st.code(text, language="toml")
    st.download_button(
        "Mapping as TOML",
        text,
        "mapping.toml",
        "application/toml",
        key=f"mapping_{upload.id}",
        on_click="ignore",
        icon=":material/download:",
    )
