"""Runs that grow while a page is open: what is new is drawn into what is there, and nothing is drawn where nothing is new.

A small fragment looks at the files every few seconds. It draws one line and holds what it saw against what was drawn; where they differ,
the line itself asks for the parts of the page that show the runs, and only these run again (`st.rerun` by a fragment's name is allowed
where somebody, or something, has acted). A figure is drawn into the node it was drawn into before, so its zoom stays (`_grid.py`).
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import streamlit as st

from monitor.pages._age import touched_at
from monitor.pages._alerting import stamp
from monitor.pages._boundary import bounded
from monitor.pages._escape import plain
from monitor.pages._following import Key, known_runs, seen, state
from monitor.pages._library import Entry, Failure, Library

EVERY_S = 2.0  # between two looks
SHARE = 4  # the page is drawn again only after so many times what the last drawing took
LIVE_S = 120.0  # a run whose files are younger is called live
FEW = 3  # runs that are named in the line
LONGEST = 32  # characters of a run's name there
DRAWN, BEGUN, TOOK = "live_drawn", "live_begun", "live_took"  # in the session: what was drawn, when that began and how long it took
NEWS = "live_news"  # runs that came up, for which the whole page was asked for
HTML = "<div class='ratiometer-live' role='status'><span></span> <button type='button' hidden>New data: look again</button></div>"
LINE = st.components.v2.component(
    "ratiometer_live", html=HTML, js=Path(__file__).with_name("_live.js").read_text(encoding="utf-8"), isolate_styles=False
)


@dataclass(frozen=True, kw_only=True)
class Live:
    """The runs of a page that may grow."""

    library: Library
    entries: tuple[Entry, ...]
    alerts: bool  # whether what alerts say is shown as well

    def grows(self, run_id: str) -> bool:
        """Whether a run was written within the last two minutes."""
        return _written(self.library.entries[run_id]) is not None

    def drawn(self) -> None:
        """To be called first in whatever is drawn again: what is there now will be on screen."""
        st.session_state[DRAWN], st.session_state[BEGUN] = self._seen(), time.monotonic()

    def done(self) -> None:
        """To be called last in it: the next drawing waits in proportion."""
        st.session_state[TOOK] = time.monotonic() - st.session_state.get(BEGUN, time.monotonic())

    @contextmanager
    def at(self, *fragments: str) -> Iterator[None]:
        """Draw the line above what is drawn within, look every few seconds, and have fragments drawn again when there is something new.

        Args:
            fragments: names of the fragments that show the runs; where none is named, the line offers to look again.
        """
        place = st.container(key="living")
        self.drawn()
        with st.container(key="grown"):  # within it nothing fades while it is drawn anew (`_alerts_style.py`)
            yield
        if not self.entries and not (self.alerts and stamp()):
            return  # nothing here can change by itself
        with place:
            st.fragment(bounded("line of live runs", lambda: self._look(list(fragments))), run_every=EVERY_S)()

    def _look(self, fragments: list[str]) -> None:
        news = _news(self.library, self.entries)
        if news and news != st.session_state.get(NEWS):  # asked for once: what the library cannot show must not be asked for again
            st.session_state[NEWS] = news
            st.rerun(scope="app")
        data = self._line() | {"offered": not fragments}
        LINE(key="live", data=data, on_grown_change=lambda: st.rerun(fragments), on_again_change=st.rerun)

    def _line(self) -> dict[str, Any]:
        """What the line shows; the same as long as nothing changed, so that nothing is sent."""
        drawn = st.session_state.get(DRAWN, "")
        early = time.monotonic() - st.session_state.get(BEGUN, 0.0) < SHARE * st.session_state.get(TOOK, 0.0)
        now_there = drawn if early else self._seen()  # first, because this is what reads
        runs = [told for entry in self.entries if (told := _told(self.library, entry)) is not None]
        runs.sort(key=lambda each: -float(each["written"]))
        now = time.time() if runs else 0.0  # the browser's clock may be another
        return {"seen": now_there, "drawn": drawn, "runs": runs[:FEW], "now": now}

    def _seen(self) -> str:
        keys = [state(entry.source.where, partial(_key, entry)) for entry in _sources(self.entries)]
        return hashlib.sha256(repr((keys, stamp() if self.alerts else ())).encode()).hexdigest()[:16]


def live(library: Library, ids: Sequence[str], *, alerts: bool = True) -> Live:
    """Those of some runs that may grow.

    Args:
        library: all runs.
        ids: those that the page shows.
        alerts: whether it shows what alerts say as well.
    """
    entries = (library.entries[run_id] for run_id in ids)
    return Live(library=library, entries=tuple(entry for entry in entries if entry.source.may_grow), alerts=alerts)


def _key(entry: Entry) -> Key:
    return entry.source.key


def _sources(entries: Sequence[Entry]) -> list[Entry]:
    """One entry for each source."""
    return list({entry.source.where: entry for entry in entries}.values())


def _written(entry: Entry) -> float | None:
    """When a run that is live was written last, in seconds since the epoch."""
    if not entry.source.may_grow:
        return None
    at = touched_at(entry, seen(entry.source.where, lambda: entry.source.key))
    return at if at is not None and time.time() - at < LIVE_S else None


def _told(library: Library, entry: Entry) -> dict[str, Any] | None:
    """A live run in the line."""
    written = _written(entry)
    framed = None if written is None else library.framed(entry.who.id)
    if framed is None or isinstance(framed, Failure):
        return None
    step = pc.max(framed.frame["step"]).as_py()
    return {"label": plain(entry.who.label, LONGEST), "step": step, "written": written}


def _news(library: Library, entries: Sequence[Entry]) -> frozenset[str]:
    """Runs that came up and that the library does not have."""
    have = {entry.run.id for entry in library.entries.values()}
    return frozenset(run_id for entry in _sources(entries) for run_id in known_runs(entry.source.where) if run_id not in have)
