"""What each run's diagnosis says, in one short line on the overlay's page, with the way to its findings.

The overlay is not kept waiting: lines that have to be computed are filled in when all else is on screen, and a run whose tokens would
take long is only diagnosed when somebody opens its findings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import streamlit as st

from monitor.diagnosis.diagnose import Diagnosis
from monitor.pages._diagnoses import diagnosed, known, latest, quick
from monitor.pages._escape import for_markdown
from monitor.pages._library import Failure
from monitor.pages._page import Desk
from monitor.pages._results import Shown
from monitor.pages._verdicts import brief, overall

IN_LINE = 40  # characters of a run's name
LOOKING = "Looking for what is wrong …"


def verdict_lines(desk: Desk, candidates: Sequence[Shown], references: Sequence[Shown]) -> Callable[[], None]:
    """Draw the lines of the candidates.

    Returns:
        what is to be called when the rest of the page is drawn.
    """
    place = st.container(key="verdicts").empty()
    quickly = [one for one in candidates if quick(desk.library.entries[one.who.id].run)]
    told = {one.who.id: known(one, references) or _standing(desk, one) for one in candidates}
    if all(told[one.who.id] for one in quickly):
        _lines(place, desk, candidates, told)
        return lambda: None
    with place.container(horizontal=True):
        st.caption(LOOKING)

    def later() -> None:
        runs = desk.library.entries
        asked = [one for one in quickly if told[one.who.id] is None]
        found = told | {one.who.id: diagnosed(one, runs[one.who.id].run, references, lambda _: None) for one in asked}
        _lines(place, desk, candidates, found)

    return later


def _standing(desk: Desk, one: Shown) -> Diagnosis | Failure | None:
    """What was found in a run that grows a moment ago; it is not diagnosed at every step."""
    found = latest(one) if desk.library.entries[one.who.id].source.may_grow else None
    return found.told if found is not None and found.stands else None


def _lines(
    place: st.delta_generator.DeltaGenerator, desk: Desk, candidates: Sequence[Shown], told: Mapping[str, Diagnosis | Failure | None]
) -> None:
    with place.container(horizontal=True, gap="xsmall", vertical_alignment="center"):
        st.caption("Findings:", width="content")
        for one in candidates:
            icon, said = _line(told[one.who.id])
            label = f"**{for_markdown(one.who.label, IN_LINE)}** {said}"
            desk.link_to("findings", label, icon, run=one.who.label)


def _line(told: Diagnosis | Failure | None) -> tuple[str, str]:
    if told is None:
        return ":material/search:", "not diagnosed yet"
    if isinstance(told, Failure):
        return ":material/error:", "could not be diagnosed"
    return overall(told).icon, for_markdown(brief(told))
