"""The runs that a page looks at, with their metric frames: what cannot be computed is said to be so, and left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import streamlit as st

from monitor.pages._escape import for_markdown
from monitor.pages._library import Failure, Framed, Library
from monitor.pages._results import Shown

Frames = Mapping[str, Framed]


def frames(library: Library, ids: Sequence[str]) -> Frames:
    """Metric frames of some runs by id, with a word about progress."""
    found = {}
    for count, run_id in enumerate(ids, 1):
        label = library.entries[run_id].who.label
        with st.spinner(f"Computing the metrics of {for_markdown(label)} ({count} of {len(ids)})"):
            framed = library.framed(run_id)
        if isinstance(framed, Failure):
            st.error(for_markdown(framed.sentence))
        else:
            found[run_id] = framed
    return found


def shown(library: Library, found: Frames, ids: Sequence[str]) -> list[Shown]:
    """Those of the runs that have a frame, as they are drawn."""
    entries = [(library.entries[run_id], found[run_id]) for run_id in ids if run_id in found]
    return [
        Shown(who=entry.who, key=framed.key, frame=framed.frame, oddities=framed.oddities, problems=framed.problems)
        for entry, framed in entries
    ]
