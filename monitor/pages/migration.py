"""Is the new backend at parity with the old one, and which layer is the first that is not: checklist, settings, divergence, yardstick."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from monitor.compare.config_difference import Loudness
from monitor.compare.headline import words
from monitor.pages import _tables
from monitor.pages._address import asked, refused
from monitor.pages._cards import pasted
from monitor.pages._checklist import checklist, code_of, differences, loud, spelled, verdict
from monitor.pages._controls import CANDIDATE, REFERENCE, RUNS, pick_references, pick_runs
from monitor.pages._definitions import definitions
from monitor.pages._escape import for_html, for_markdown
from monitor.pages._frames import frames, shown
from monitor.pages._grid import draw, grid, send_plotly
from monitor.pages._library import Failure, Library
from monitor.pages._live import live
from monitor.pages._migrations import MOST_STRIPS, VIEW, Judged, divergence_strips, judged, stretches
from monitor.pages._page import Desk, Page
from monitor.pages._parity_chart import alternative, parity_chart, parity_table
from monitor.pages._results import Shown
from monitor.pages._sentences import capital
from monitor.pages._tables import DIVERGENCE_COLUMNS
from monitor.pages._theme import follow, theme

MOST_QUIET = 100  # differences not known to matter; a whole configuration may be on one side only
MOST_COLUMNS = 4  # candidates whose numbers stand side by side
NARROWEST = 430  # px: two columns of less become one
ABOUT = (
    "The reference is the old backend, a candidate the new one. What the tokens show is stronger than what a setting says: a setting alone "
    "is a suspect, with its effect it is at fault. At most 2 times the distance between two of the reference's seeds is parity."
)


def show(desk: Desk) -> None:
    """Draw the page."""
    library = desk.library
    candidates, references = _sidebar(library)
    if not candidates or not references:
        missing = "reference, the old backend," if not references else "run, the new backend,"
        st.info(f"No {missing} is chosen. Choose it on the left, or add runs of your own on the Upload page.", icon=":material/info:")
        return
    with live(library, [*references, *candidates], alerts=False).at():
        _compared(desk, candidates, references)


def _compared(desk: Desk, candidates: Sequence[str], references: Sequence[str]) -> None:
    """Everything below the controls."""
    library = desk.library
    found = frames(library, [*references, *candidates])
    seeds, runs = shown(library, found, references), shown(library, found, candidates)
    told = _judged(library, runs, seeds)
    if not told:
        return
    with st.container(key="parities"):
        st.html("".join(verdict(each.one.who, each.migration, theme()) for each in told))
    one = _one_of(told)
    _checklist(desk, one)
    _changes(one)
    _distances(told, one)
    _divergences(told, seeds)
    send_plotly()


def _sidebar(library: Library) -> tuple[list[str], list[str]]:
    """Runs and reference, as on the Compare page; a run that is a reference is not a candidate as well."""
    wanted = asked()
    labels = {run_id: entry.who.label for run_id, entry in library.entries.items()}
    with st.sidebar:
        references = pick_references(library)
        runs = pick_runs(library, references)
        st.caption(ABOUT)
        follow()
    values = {RUNS: [labels[each] for each in runs], REFERENCE: [labels[each] for each in references]}
    sentences = refused(wanted, values, labels.values())
    if sentences:
        st.warning(" ".join(map(for_markdown, sentences)), icon=":material/link_off:")
    return [each for each in runs if each not in references], references


def _judged(library: Library, runs: Sequence[Shown], seeds: Sequence[Shown]) -> list[Judged]:
    """Each candidate beside the reference; what cannot be compared is said to be so, and left out."""
    if not seeds:
        return []
    old = [(one, library.entries[one.who.id].run) for one in seeds]
    found = []
    for one in runs:
        with st.spinner(f"Comparing {for_markdown(one.who.label)} with its reference"):
            each = judged(one, library.entries[one.who.id].run, old)
        if isinstance(each, Failure):
            st.error(for_markdown(each.sentence))
        else:
            found.append(each)
    return found


def _one_of(told: Sequence[Judged]) -> Judged:
    """The candidate whose checklist is shown: at first the one whose findings were looked at, where it is here."""
    by_id = {each.one.who.id: each for each in told}
    if len(told) == 1:
        st.subheader("Checklist", anchor=False)
        return told[0]
    here = st.session_state.get(CANDIDATE)
    if here is not None and here not in by_id:
        del st.session_state[CANDIDATE]
    chosen = st.selectbox(
        "Checklist of",
        list(by_id),
        format_func=lambda run_id: by_id[run_id].one.who.label,
        key=CANDIDATE,
        width=360,
        bind="query-params",
        persist_state="session",
    )
    return by_id.get(str(chosen), told[0])


def _checklist(desk: Desk, one: Judged) -> None:
    with st.container(key="checklist"):
        st.html(checklist(one.migration, theme()))
    with st.container(key="to_findings"):
        desk.link_to("findings", f"Findings of {for_markdown(one.one.who.label)}", ":material/troubleshoot:", run=one.one.who.label)


def _changes(one: Judged) -> None:
    bad = [check for check in one.migration.checks if check.verdict.bad and check.fix]
    if not bad:
        return
    st.subheader("What to change, the first layer first", anchor=False)
    with st.container(key="changes", gap="xsmall"):
        for check in bad:
            st.html(f"<p class='where'><b>{for_html(capital(check.title))}</b> ({for_html(check.verdict.words)}): {spelled(check.fix)}</p>")
            code = code_of(check.fix)
            if code:
                st.code(pasted(code), language=None, wrap_lines=True)


def _distances(told: Sequence[Judged], one: Judged) -> None:
    """How far all candidates lie from the reference, and beside it in what settings the chosen one differs."""
    sides = st.grid(2, min_column_width=NARROWEST, key="distances", gap="medium")
    with sides.cell():
        _yardsticks(told, one)
    with sides.cell():
        _differences(one)


def _yardsticks(told: Sequence[Judged], one: Judged) -> None:
    st.subheader("How far each lies from the reference", anchor=False)
    found = [(each.one.who, each.comparison.parities) for each in told if each.comparison.parities]
    if found:
        draw("parity", parity_chart(found, theme()), alternative(found))
        few = found if len(found) <= MOST_COLUMNS else [(who, some) for who, some in found if who.id == one.one.who.id]
        with st.expander("The same in numbers", key="parity_numbers"):
            st.caption("Times the distance between two reference seeds; in brackets the distance itself, in the metric's unit.")
            _table(parity_table(few))
    else:
        st.caption("Nothing in these logs can be compared.")
    absent = [f"{words(metric)}: {why}" for metric, why in one.comparison.not_compared.items()]
    if absent:
        st.caption(for_markdown(f"Not compared, of {one.one.who.label}: {'; '.join(absent)}."))


def _differences(one: Judged) -> None:
    """Settings that are not the same: unequal sampling first and loudest, what is not known to matter folded."""
    st.subheader("Settings that differ", anchor=False)
    sentences = loud(one.differences)
    if sentences:
        lead = "Unequal sampling: what is compared is not of one distribution."
        st.warning(" ".join(map(for_markdown, (lead, *sentences))), icon=":material/priority_high:")
    told = [each for each in one.differences if each.loudness is not Loudness.QUIET]
    quiet = [each for each in one.differences if each.loudness is Loudness.QUIET]
    if told:
        st.html(differences(told))
    else:
        st.caption("None that both logs have and that is known to matter.")
    if quiet:
        with st.expander(f"On one side only, or not known to matter ({len(quiet)})", key="quiet_differences"):
            st.html(differences(quiet[:MOST_QUIET]))
            if len(quiet) > MOST_QUIET:
                st.caption(f"The first {MOST_QUIET} of {len(quiet)}.")


def _divergences(told: Sequence[Judged], seeds: Sequence[Shown]) -> None:
    st.subheader("Where each leaves the reference", anchor=False)
    drawn = divergence_strips(told, seeds)
    if not drawn:
        st.caption("No candidate leaves the reference for long in any metric that both logs have. The Compare page has the curves.")
        return
    grid("divergence", drawn, view=VIEW, definitions=definitions(), stretches=list(stretches(told)))
    rows = divergence_table(told)
    more = f" The first {MOST_STRIPS} metrics to leave are drawn." if len(set(rows["metric"])) > len(drawn) else ""
    st.caption(
        "Dashed: the step at which a run leaves the reference in this metric; shaded from there to the step at which it was certain. "
        f"Curves are smoothed as they are compared ({VIEW.smoothing:g} per step).{more}"
    )
    with st.expander(f"All of them in numbers ({len(rows)})", key="divergences"):
        _table(rows)


def divergence_table(told: Sequence[Judged]) -> pd.DataFrame:
    """A row per candidate and metric that left the reference, the first first; not yet escaped."""
    rows = [
        (
            one.one.who.label,
            words(each.metric),
            f"{each.step} (its first)" if each.at_once else str(each.step),
            str(each.alarm_step),
            "the end" if each.until is None else str(each.until),
            f"{each.peak:.3g} × noise, {each.direction}",
        )
        for one in told
        for each in one.comparison.divergences
    ]
    rows.sort(key=lambda row: int(row[2].split()[0]))
    return pd.DataFrame(rows, columns=list(DIVERGENCE_COLUMNS))


def _table(table: pd.DataFrame) -> None:
    """A table in the page itself, its names escaped as its cells are."""
    safe = _tables.escaped(table, for_markdown)
    safe.columns = [for_markdown(name) for name in table.columns]
    st.table(safe, border="horizontal", hide_index=True)


PAGE = Page(title="Migration", icon=":material/swap_horiz:", url_path="migration", show=show, place=3)
