"""What corrections would have done on a run, replayed once per content and kept, like its diagnosis."""

from __future__ import annotations

from collections.abc import Hashable

import streamlit as st

from ingest.run import Run
from monitor.corrections.replay import DEFAULT, Replay, WhatIf, advise, replayed
from monitor.diagnosis.diagnose import Diagnosis
from monitor.pages._diagnoses import TOLD_EVERY, Shelf, Tell
from monitor.pages._library import Failure, guarded
from monitor.pages._results import Shown

MAX_REPLAYS = 16  # kept; one is about 4 kB a step


def kept(one: Shown) -> Replay | Failure | None:
    """The replay of a run, where it was made before."""
    return _shelf().get(_key(one))


def what_if(one: Shown, run: Run, diagnosis: Diagnosis, tell: Tell) -> WhatIf | Failure:
    """The replay of a run with what to do about it; what goes wrong is a sentence.

    Args:
        one: the run as it is shown.
        run: the same as it was read.
        diagnosis: of the same run, which decides what comes first.
        tell: told how far it is, in a few words.
    """
    replay = kept(one)
    if replay is None:
        replay = _shelf().put(_key(one), guarded(one.who.label, lambda: _replay(run, tell), "replaying"))
    return replay if isinstance(replay, Failure) else WhatIf(replay=replay, advice=advise(diagnosis, replay))


def _replay(run: Run, tell: Tell) -> Replay:
    def progress(steps: int) -> None:
        if steps % TOLD_EVERY == 0:
            tell(f"replaying {len(DEFAULT)} corrections, {steps} steps")

    return replayed(run, DEFAULT, progress=progress)


def _key(one: Shown) -> Hashable:
    return (one.who.id, one.key)


@st.cache_resource(show_spinner=False)
def _shelf() -> Shelf[Replay | Failure]:
    return Shelf(MAX_REPLAYS)
