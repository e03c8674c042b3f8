"""The sidebar of the overlay: which runs, which reference, how they are looked at.

Every choice stands in the page's address (`bind`) and outlives a visit to another page (`persist_state`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from monitor.pages._address import asked, refused
from monitor.pages._colours import NAMED
from monitor.pages._curves import View, XAxis
from monitor.pages._following import Key
from monitor.pages._library import Library, is_reference
from monitor.pages._panels import RATIOS

FEW = 6  # runs chosen at first where there are no samples
MOST = 12  # runs laid over the reference: more lines than that are no picture
RUN, RUNS, REFERENCE, CANDIDATE = "run", "runs", "reference", "candidate"  # keys of controls, and their names in the address
LED = "run_led"  # the run that RUN was set to because it is the first candidate
TAKEN_UP = "selection_taken_up"  # the control is to be set to it, whatever an older address says
TO_SELECT = "sources_to_select"  # set by the upload page, taken up when the library has them
SMOOTHING_HELP = (
    "Weight of an exponential moving average, per optimizer step. It is computed on all rows; raw values stay behind as a shadow, "
    "and crossings are always read off the raw values."
)
RANGE_HELP = (
    "The part of the runs that is drawn, at its own full resolution. Unlike a zoom with the pointer it stays when another control "
    "changes, and stands in the address. Smoothing, crossings and headlines are those of the whole run."
)
RATIO_HELP = (
    "Which log ratio the effective sample size is taken of: lag (newer weights against the generator's), discrepancy (engine against "
    "trainer, same weights) or total. A run whose lag cannot be separated shows its total and is labelled so."
)
THRESHOLD_HELP = (
    "Below it the effective sample size is marked: shaded while under, a row of the table for each stay, and named in the sentences. "
    "Under 0.5, importance weighting throws away more than half of the batch."
)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What the sidebar says; a run that is a reference is not a candidate as well."""

    candidates: tuple[str, ...]  # run ids
    references: tuple[str, ...]
    ratio: str
    view: View
    refused: tuple[str, ...] = ()  # sentences about what the address asked for in vain


def select(keys: Iterable[Key]) -> None:
    """Have the runs of these sources selected when `take_up` is called next."""
    st.session_state.setdefault(TO_SELECT, []).extend(keys)


def take_up(library: Library) -> None:
    """Select what was uploaded since this was called last, as far as there is room; runs that are gone are taken out.

    What the user has chosen is never pushed out, but the sample runs, where they are chosen because nobody has chosen, make room. To be
    called where another page is drawn: Streamlit writes into the address only what a key had before its control is made.
    """
    keys = st.session_state.pop(TO_SELECT, [])
    before, at_first = chosen(), _candidates(library)
    if before is None and not keys:
        return
    kept = [run_id for run_id in (at_first if before is None else before) if run_id in library.entries]
    new = [run_id for run_id in library.ids(lambda entry: entry.key in keys) if run_id not in kept]
    if kept == at_first and all(library.entries[run_id].sample for run_id in kept):
        kept = kept[len(kept) - max(0, min(len(kept), MOST - len(new))) :]
    now = [*kept, *new][: max(MOST, len(kept))]
    if now != before:
        st.session_state[RUNS] = now
        st.session_state[TAKEN_UP] = True


def chosen() -> list[str] | None:
    """Ids of the runs laid over the reference; None as long as the control has not been made and nothing was uploaded."""
    found = st.session_state.get(RUNS)
    return None if found is None else list(found)


def sidebar(library: Library) -> Choice:
    """Draw the controls and return what they say."""
    wanted = asked()
    labels = _labels(library)
    with st.sidebar:
        references = pick_references(library)
        runs = pick_runs(library, references)
        values = {RUNS: [labels[run] for run in runs], REFERENCE: [labels[run] for run in references], **_looks()}
    view = View(
        x_axis=XAxis(values["x"]),
        smoothing=values["smoothing"],
        threshold=values["threshold"],
        log_y=values["log"],
        first_step=values["from"],
        last_step=values["to"],
    )
    return Choice(
        candidates=tuple(run for run in runs if run not in references),
        references=tuple(references),
        ratio=values["ratio"],
        view=view,
        refused=tuple(refused(wanted, values, labels.values())),
    )


def pick_references(library: Library) -> list[str]:
    """Draw the control of the reference, the same on every page, and return its runs."""
    take_up(library)
    return _runs(_labels(library), REFERENCE, library.ids(is_reference), "One run, or several seeds of one configuration.")


def pick_runs(library: Library, references: Sequence[str]) -> list[str]:
    """Draw the control of the runs laid over the reference, the same on every page, and return them."""
    if st.session_state.pop(TAKEN_UP, False):
        st.session_state[RUNS] = chosen()
    runs = _runs(_labels(library), RUNS, _candidates(library), f"Laid over the reference, at most {MOST}.", MOST)
    others = len(library.entries.keys() - {*runs, *references})
    if len(runs) >= MOST and others:
        st.caption(f"{others} more {'run is' if others == 1 else 'runs are'} here and not shown. Take one out to choose another.")
    _lead([run_id for run_id in runs if run_id not in references])
    return runs


def _lead(candidates: Sequence[str]) -> None:
    """Have the page of one run look at the first candidate, until another run is chosen there.

    It is set here, and not there, because Streamlit writes into the address only what a key had before its control is made.
    """
    here = st.session_state.get(RUN)
    if candidates and (here is None or here == st.session_state.get(LED)):
        st.session_state[RUN] = st.session_state[LED] = candidates[0]


def first_candidate(library: Library) -> str | None:
    """The run that is looked at where nobody has chosen any."""
    return next(iter(_candidates(library) or library.entries), None)


def _labels(library: Library) -> dict[str, str]:
    return {run_id: entry.who.label for run_id, entry in library.entries.items()}


def _looks() -> dict[str, Any]:
    """How the runs are looked at, by the name that each control has in the address."""
    lasting: dict[str, Any] = {"bind": "query-params", "persist_state": "session"}
    values: dict[str, Any] = {"x": st.selectbox("x axis", [axis.value for axis in XAxis], key="x", **lasting)}
    first, last = st.columns(2)
    values["from"] = first.number_input("From step", 0, None, None, 1, key="from", placeholder="first", help=RANGE_HELP, **lasting)
    values["to"] = last.number_input("To step", 0, None, None, 1, key="to", placeholder="last", **lasting)
    values["smoothing"] = st.slider("Smoothing", 0.0, 0.99, 0.6, 0.01, key="smoothing", help=SMOOTHING_HELP, **lasting)
    values["log"] = st.toggle("Logarithmic y", key="log", help="For clip rate, KL and the absolute terms.", **lasting)
    values["ratio"] = st.selectbox("Ratio of the ESS", RATIOS, key="ratio", help=RATIO_HELP, **lasting)
    box = {"key": "threshold", "format": "%g", "help": THRESHOLD_HELP, **lasting}
    return values | {"threshold": st.number_input("ESS threshold", 0.0, 1.0, 0.5, 0.05, **box)}


def _runs(labels: Mapping[str, str], key: str, default: list[str], help_text: str, most: int | None = None) -> list[str]:
    return st.multiselect(
        key.capitalize(),
        list(labels),
        default=default,
        format_func=labels.__getitem__,
        key=key,
        help=help_text,
        max_selections=most,
        placeholder="none",
        bind="query-params",
        persist_state="session",
    )


def _candidates(library: Library) -> list[str]:
    """The story of the sample runs: broken, partly fixed, fixed; where there are no samples, the first few runs there are."""
    story = library.ids(lambda entry: entry.sample and entry.run.name in NAMED and not is_reference(entry))
    order = list(NAMED)
    story.sort(key=lambda run_id: order.index(library.entries[run_id].run.name))
    return story or library.ids(lambda entry: not is_reference(entry))[:FEW]
