"""The overlay: do the runs behave like the reference, from which step do they not, and where does the ESS fall under its threshold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
import streamlit as st

from ingest.schema import METRIC_FRAME, describe
from monitor.metrics.glossary import METRICS
from monitor.metrics.metric import Metric
from monitor.pages import _tables
from monitor.pages._colours import REFERENCE
from monitor.pages._controls import Choice, sidebar
from monitor.pages._curves import Strip, positions
from monitor.pages._escape import for_html, for_markdown
from monitor.pages._grid import grid
from monitor.pages._library import Failure, Framed, Library
from monitor.pages._page import Desk, Page
from monitor.pages._results import Shown, headline, overlay
from monitor.pages._theme import follow, theme
from monitor.pages._thin import COLUMNS

FIT, SCROLLED = 10, 396  # rows that need no scrolling; px
Frames = Mapping[str, Framed]


def show(desk: Desk) -> None:
    """Draw the page."""
    library = desk.library
    for failure in library.failures:
        st.error(for_markdown(failure.sentence))
    choice = sidebar(library)
    with st.sidebar:
        follow()
    frames = _frames(library, choice)
    candidates, references = (_shown(library, frames, ids) for ids in (choice.candidates, choice.references))
    if not candidates and not references:
        st.info("No run is chosen. Choose runs on the left, or add your own on the Upload page.", icon=":material/info:")
        return
    strips = overlay(candidates, references, choice.ratio, choice.view)
    drawn = [one for one in strips if one.curves]
    _headlines(candidates, references)
    visible = [one for one in (each.within(choice.view) for each in drawn) if one.curves]
    if visible:
        grid("overlay", visible, view=choice.view, definitions=_definitions())
    elif drawn:
        st.info("No chosen run has a row between these steps.", icon=":material/info:")
    _caption(strips, visible, choice, (*references, *candidates))
    _crossings(drawn, choice)
    _problems(library, frames)
    _meanings(drawn)
    _data(candidates, references, drawn)


def _frames(library: Library, choice: Choice) -> Frames:
    """Metric frames of the chosen runs; a run that cannot be computed is said to be so, and left out."""
    frames = {}
    chosen = (*choice.references, *choice.candidates)
    for count, run_id in enumerate(chosen, 1):
        label = library.entries[run_id].who.label
        with st.spinner(f"Computing the metrics of {for_markdown(label)} ({count} of {len(chosen)})"):
            found = library.framed(run_id)
        if isinstance(found, Failure):
            st.error(for_markdown(found.sentence))
        else:
            frames[run_id] = found
    return frames


def _shown(library: Library, frames: Frames, ids: Sequence[str]) -> list[Shown]:
    entries = [(library.entries[run_id], frames[run_id]) for run_id in ids if run_id in frames]
    return [Shown(who=entry.who, key=entry.key, frame=found.frame, oddities=found.oddities) for entry, found in entries]


def _headlines(candidates: Sequence[Shown], references: Sequence[Shown]) -> None:
    """A sentence per candidate, as text that no markup can hide in."""
    lines = []
    for one in candidates:
        found = headline(one, references)
        chip = f"<span style='color:{one.who.hue.on(theme())}'>■</span>"
        lines.append(f"<p>{chip} <b>{for_html(found.name)}</b> {for_html(found.sentence)}</p>{_odd(one)}")
    lines += [f"<p>{chip} <b>{for_html(one.who.label)}</b> (reference)</p>{odd}" for one, chip, odd in _odd_references(references)]
    if not candidates:
        lines.append(f"<p><span style='color:{REFERENCE.on(theme())}'>■</span> Only the reference is chosen.</p>")
    with st.container(key="headlines"):
        st.html("".join(lines))


def _odd(one: Shown) -> str:
    """What the run's numbers say about themselves, once for each kind: non-finite, out of range, wrong semantics, a split that cancels."""
    once = {oddity.what: oddity for oddity in reversed(one.oddities)}
    return "".join(f"<p class='odd'>⚠ {for_html(oddity.text)}</p>" for oddity in reversed(once.values()))


def _odd_references(references: Sequence[Shown]) -> list[tuple[Shown, str, str]]:
    """The seeds of the reference that have something odd about them; the others are not named one by one."""
    chip = f"<span style='color:{REFERENCE.on(theme())}'>■</span>"
    return [(one, chip, _odd(one)) for one in references if one.oddities]


def _caption(strips: Sequence[Strip], drawn: Sequence[Strip], choice: Choice, shown: Sequence[Shown]) -> None:
    rows = sum(curve.steps.size for one in drawn for curve in one.curves)
    thinned = any(curve.steps.size > 2 * COLUMNS for one in drawn for curve in one.curves)
    drawing = f"drawn as the lowest and highest of {COLUMNS} columns" if thinned else "all of them drawn"
    smoothing = f"smoothing ({choice.view.smoothing:g} per step) and " if choice.view.smoothing else ""
    parts = [
        "Solid: computed from tokens. Thin: believed from a log. Dashed: estimated.",
        "Band: lowest to highest seed of the smoothed reference, the thin line in it their median." if len(choice.references) > 1 else "",
        f"{rows:,} rows, {drawing}; {smoothing}crossings are computed on every row.",
        f"▼ falls under {choice.view.threshold:g}, △ is back, on the raw values; shaded while under.",
    ]
    st.caption(" ".join(for_markdown(part) for part in parts if part))
    absent = _absences(strips, choice, _uncounted(shown, choice))
    if absent:
        st.caption(" ".join(for_markdown(part) for part in absent))


def _uncounted(shown: Sequence[Shown], choice: Choice) -> list[str]:
    """Labels of the runs that have no place on the x axis."""
    nowhere = np.array([], np.int64)
    return [one.who.label for one in shown if positions(one.frame, nowhere, choice.view.x_axis) is None]


def _absences(strips: Sequence[Strip], choice: Choice, uncounted: Sequence[str]) -> list[str]:
    """What is not on screen, and why."""
    stand_ins = {curve.who.label for one in strips for curve in one.curves if curve.stands_in(one.panel)}
    empty = [one.panel.title for one in strips if not one.curves]
    lacking: dict[tuple[str, ...], list[str]] = {}
    for label in dict.fromkeys(label for one in strips for label in one.missing if label not in uncounted):
        lacking.setdefault(tuple(one.panel.title for one in strips if one.curves and label in one.missing), []).append(label)
    said = [f"ESS of the total, because the {choice.ratio} cannot be separated: {', '.join(sorted(stand_ins))}."] if stand_ins else []
    if uncounted:
        said.append(f"Not drawn, because their logs do not count {choice.view.x_axis.value}: {', '.join(uncounted)}.")
    if empty:
        said.append(f"Not recorded by any run that is drawn: {', '.join(empty)}.")
    return said + [f"Not recorded by {', '.join(labels)}: {', '.join(titles)}." for titles, labels in lacking.items() if titles]


def _crossings(drawn: Sequence[Strip], choice: Choice) -> None:
    table = _tables.crossing_table(drawn)
    st.subheader(f"Where the ESS is under {choice.view.threshold:g}", anchor=False)
    if not any(one.panel.ess for one in drawn):
        st.caption("No chosen run records an ESS, or the log-probabilities to compute one.")
        return
    if table.empty:
        st.caption(f"At no step, on any chosen run, for the {choice.ratio} ratio at the token and the sequence level.")
        return
    with st.container(key="crossings"):
        _table(table)
    if len(table) > _tables.MOST_ROWS:
        st.caption(f"The first {_tables.MOST_ROWS} of {len(table)}; the CSV has all.")
    _download("Crossings as CSV", table, "crossings.csv")


def _table(table: pd.DataFrame) -> None:
    """A table in the page itself, which scrolls when it is long."""
    height: int | Literal["content"] = SCROLLED if len(table) > FIT else "content"
    st.table(_tables.escaped(table.head(_tables.MOST_ROWS), for_markdown), border="horizontal", hide_index=True, height=height)


def _problems(library: Library, frames: Frames) -> None:
    """What was not understood on the way to the numbers of the chosen runs."""
    found = ((library.entries[run_id].who.label, each) for run_id, framed in frames.items() for each in framed.problems)
    table = _tables.problem_table(found, runs=len(frames))
    if table.empty:
        st.caption("Everything in the chosen runs' files was read and understood.")
        return
    with st.expander(f"What could not be read or mapped ({len(table)})", expanded=False, key="problems"):
        _table(table)
        _download("All of it as CSV", table, "read_problems.csv")


def _meanings(drawn: Sequence[Strip]) -> None:
    shown = dict.fromkeys(curve.metric for one in drawn for curve in one.curves)
    known = {metric.id: metric for metric in METRICS}
    rows = [_meaning(known[name]) for name in shown if name in known]
    with st.expander("What the strips mean", key="meanings"):
        st.table(pd.DataFrame(rows), border="horizontal", hide_index=True)


def _meaning(metric: Metric) -> dict[str, str]:
    """A row of the table of definitions, in words for readers."""
    least, most = (f"{bound:g}".replace("inf", "∞").replace("-", "−") for bound in (metric.low, metric.high))
    agree = "" if metric.no_mismatch is None else f"{metric.no_mismatch:g}"
    row = {
        "metric": f"{metric.title} ({metric.id})",
        "formula": metric.formula,
        "unit": metric.unit,
        "range": f"{least} … {most}",
        "no mismatch": agree,
        "better": metric.direction,
        "blind to": metric.blind_to,
        "source": metric.reference,
    }
    return {name: for_markdown(text) for name, text in row.items()}


def _definitions() -> dict[str, tuple[str, ...]]:
    """A few lines per metric id, for the title of its strip."""
    return {metric.id: (f"{metric.title} [{metric.unit}]", metric.formula, f"better: {metric.direction}") for metric in METRICS}


def _data(candidates: Sequence[Shown], references: Sequence[Shown], drawn: Sequence[Strip]) -> None:
    """The rows behind the strips, unsmoothed, all of them."""
    shelf = st.expander("Show data", key="data", on_change="rerun")
    if not shelf.open:  # of long runs these are many rows; they are put together when somebody looks
        return
    with shelf:
        frames = {one.who.label: one.frame for one in (*references, *candidates)}
        table = _tables.drawn_rows(drawn, frames)
        st.dataframe(
            table, hide_index=True, column_config=_column_help(), key="data_table", alt="The rows of the metric frames that are drawn"
        )
        _download("Data as CSV", table, "ratiometer_data.csv")


def _column_help() -> dict[str, Any]:
    described = {column["name"]: column for column in describe(METRIC_FRAME)}
    return {name: st.column_config.Column(help=f"{column['meaning']} ({column['unit'] or 'text'})") for name, column in described.items()}


def _download(label: str, table: pd.DataFrame, name: str) -> None:
    """A button whose file is made when it is pressed."""
    st.download_button(
        label, lambda: _tables.as_csv(table), name, "text/csv", on_click="ignore", type="tertiary", icon=":material/download:"
    )


PAGE = Page(title="Compare", icon=":material/stacked_line_chart:", url_path="compare", show=show)
