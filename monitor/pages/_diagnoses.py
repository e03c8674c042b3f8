"""What is wrong with a run, found out once per content: portraits of tokens and diagnoses are kept like metric frames.

Streamlit's own caches cannot show how far they are (what is drawn inside them is drawn again on every hit), so these shelves are filled
outside them; what an interrupted script had not finished is not kept. Keys are those of files, never a table.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

import pyarrow.compute as pc
import streamlit as st

from ingest.run import Run
from monitor.diagnosis.case import Case
from monitor.diagnosis.diagnose import Diagnosis, diagnose
from monitor.diagnosis.portrait import Portrait, portray
from monitor.pages._library import Failure, guarded
from monitor.pages._results import Shown

MAX_PORTRAITS, MAX_DIAGNOSES = 16, 256  # kept; a portrait is about 15 kB a step
QUICK_ROWS = 500_000  # tokens that are portrayed in about half a second on one core; more wait until somebody opens Findings
AGAIN_S = 60.0  # between two diagnoses of a run that grows, where nobody asks for one
TOLD_EVERY = 10  # steps between two words about progress

Tell = Callable[[str], None]
T = TypeVar("T")


@dataclass
class Shelf(Generic[T]):
    """The values that were asked for last, shared by all sessions."""

    most: int
    kept: OrderedDict[Hashable, T] = field(default_factory=OrderedDict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, key: Hashable) -> T | None:
        """The value of a key, which is then the last to go; None where there is none."""
        with self.lock:
            if key in self.kept:
                self.kept.move_to_end(key)
            return self.kept.get(key)

    def put(self, key: Hashable, value: T) -> T:
        """Keep a value, and let go of the one that nobody asked for the longest."""
        with self.lock:
            self.kept[key] = value
            self.kept.move_to_end(key)
            while len(self.kept) > self.most:
                self.kept.popitem(last=False)
        return value


@dataclass(frozen=True, kw_only=True)
class Dated:
    """A diagnosis, and the content that it is of."""

    told: Diagnosis | Failure
    key: Hashable
    last_step: int | None
    at: float  # seconds of a clock that never goes back

    @property
    def stands(self) -> bool:
        """Whether a run that grows need not be diagnosed again yet."""
        return time.monotonic() - self.at < AGAIN_S


@dataclass(frozen=True, kw_only=True)
class Shelves:
    """All that is kept."""

    portraits: Shelf[Portrait] = field(default_factory=lambda: Shelf(MAX_PORTRAITS))
    diagnoses: Shelf[Diagnosis | Failure] = field(default_factory=lambda: Shelf(MAX_DIAGNOSES))
    latest: Shelf[Dated] = field(default_factory=lambda: Shelf(MAX_DIAGNOSES))  # by run, beside whichever reference


def known(one: Shown, references: Sequence[Shown]) -> Diagnosis | Failure | None:
    """The diagnosis of a run beside its reference, where it was made before."""
    return _shelves().diagnoses.get(_key(one, references))


def latest(one: Shown) -> Dated | None:
    """The diagnosis of a run that was made last, beside whichever reference; the run may have grown since."""
    return _shelves().latest.get(one.who.id)


def diagnosed(one: Shown, run: Run, references: Sequence[Shown], tell: Tell) -> Diagnosis | Failure:
    """The diagnosis of a run beside its reference; what goes wrong is a sentence.

    Args:
        one: the run as it is shown, with its metric frame.
        run: the same as it was read.
        references: the seeds of its reference, never the run itself.
        tell: told what is being done, in a few words.
    """
    key = _key(one, references)
    found = _shelves().diagnoses.get(key)
    if found is None:
        made = guarded(one.who.label, lambda: _diagnose(one, run, references, tell), "diagnosing")
        found = _shelves().diagnoses.put(key, made)
    _shelves().latest.put(one.who.id, Dated(told=found, key=one.key, last_step=pc.max(one.frame["step"]).as_py(), at=time.monotonic()))
    return found


def quick(run: Run) -> bool:
    """Whether a diagnosis takes about a second at most."""
    if run.tokens is None:
        return True
    rows = [piece.rows for piece in run.tokens.pieces]
    return sum(count or QUICK_ROWS + 1 for count in rows) <= QUICK_ROWS


def _diagnose(one: Shown, run: Run, references: Sequence[Shown], tell: Tell) -> Diagnosis:
    portrait = _portrait(one, run, tell)
    frames = {each.who.label: each.frame for each in references}
    case = Case(run=replace(run, problems=one.problems), frame=one.frame, portrait=portrait, references=frames)
    return diagnose(case, progress=lambda title: tell(f"asking: {title}"))


def _portrait(one: Shown, run: Run, tell: Tell) -> Portrait | None:
    if run.tokens is None:
        return None
    key = (one.who.id, one.key)
    found = _shelves().portraits.get(key)
    if found is None:
        tell("reading the tokens")
        found = portray(run, progress=lambda steps: None if steps % TOLD_EVERY else tell(f"reading the tokens, {steps} steps"))
        if found is not None:
            _shelves().portraits.put(key, found)
    return found


def _key(one: Shown, references: Sequence[Shown]) -> Hashable:
    return (one.who.id, one.key, tuple((each.who.label, each.key) for each in references))


@st.cache_resource(show_spinner=False)
def _shelves() -> Shelves:
    return Shelves()
