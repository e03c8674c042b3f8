"""The overlay: do the runs behave like the reference, from which step do they not, and where does the ESS fall under its threshold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
import streamlit as st

from ingest.schema import METRIC_FRAME, describe
from monitor.compare.headline import Headline
from monitor.metrics.glossary import METRICS
from monitor.metrics.metric import Metric
from monitor.pages import _tables
from monitor.pages._boundary import part
from monitor.pages._colours import REFERENCE
from monitor.pages._controls import Choice, sidebar
from monitor.pages._curves import Strip, View, positions
from monitor.pages._definitions import definitions
from monitor.pages._escape import for_html, for_markdown
from monitor.pages._fired import fired_in
from monitor.pages._firing_marks import Firings, bars, times
from monitor.pages._frames import Frames, frames, shown
from monitor.pages._grid import grid, send_plotly
from monitor.pages._library import Library
from monitor.pages._live import Live, live
from monitor.pages._marks import chip
from monitor.pages._page import Desk, Page
from monitor.pages._panels import ratio_of
from monitor.pages._results import Shown, headline, overlay
from monitor.pages._theme import follow, theme
from monitor.pages._thin import COLUMNS
from monitor.pages._verdict_lines import verdict_lines

FIT, SCROLLED = 10, 396  # rows that need no scrolling; px
LOOKS = "looks"  # the fragment that is drawn anew when a run grows
FEW_ODD = 3  # things to say about numbers; more are folded


def show(desk: Desk) -> None:
    """Draw the page."""
    library = desk.library
    _failures(library)
    choice = sidebar(library)
    if choice.refused:
        st.warning(" ".join(for_markdown(sentence) for sentence in choice.refused), icon=":material/link_off:")
    with st.sidebar:
        follow()
    growing = live(library, [*choice.references, *choice.candidates])
    with growing.at(LOOKS):
        part("Compare", LOOKS, lambda: _looks(desk, choice, growing))


def _looks(desk: Desk, choice: Choice, growing: Live) -> None:
    """All that shows the runs, which is drawn anew by itself when one of them grows."""
    growing.drawn()
    library = desk.library
    found = frames(library, (*choice.references, *choice.candidates))
    candidates, references = (shown(library, found, ids) for ids in (choice.candidates, choice.references))
    if not candidates and not references:
        st.info("No run is chosen. Choose runs on the left, or add your own on the Upload page.", icon=":material/info:")
        return
    strips = overlay(candidates, references, choice.ratio, choice.view)
    drawn = [one for one in strips if one.curves]
    told = [headline(one, references, choice.ratio, choice.view.threshold) for one in candidates]
    _headlines(list(zip(candidates, told, strict=True)), references)
    later = verdict_lines(desk, candidates, references)
    visible = [one for one in (each.within(choice.view) for each in drawn) if one.curves]
    if visible:
        fired = fired_in(library, candidates, references)
        grid("overlay", visible, view=choice.view, definitions=definitions(), firings=fired)
        send_plotly()
        _fired(visible, fired)
    elif drawn:
        st.info(_nothing(choice.view), icon=":material/info:")
    _caption(strips, visible, choice, (*references, *candidates), _basis(told))
    if not choice.view.backwards:
        _crossings(drawn, choice)
    _problems(library, found)
    _meanings(drawn)
    _data(candidates, references, drawn)
    later()
    growing.done()


def _fired(visible: Sequence[Strip], fired: Firings) -> None:
    """What the bars are, where there are any."""
    counts = bars(visible, fired)
    if counts:
        said = ", ".join(f"{label} {times(count)}" for label, count in counts.items())
        st.caption(for_markdown(f"Bars under a strip: a rule fires there ({said}). The Alerts page has the rules."))


def _failures(library: Library) -> None:
    """What could not be read; a log that only waits for names is no error of the runs that are looked at."""
    for failure in library.failures:
        if failure.unnamed:
            said = f"{failure.title} is no run yet: none of its keys is known. Name them on the Upload page."
            st.caption(for_markdown(said))
        else:
            st.error(for_markdown(failure.sentence))


def _headlines(told: Sequence[tuple[Shown, Headline]], references: Sequence[Shown]) -> None:
    """A sentence per candidate, as text that no markup can hide in, each with the run's own mark."""
    folded = sum(len(_kinds(one)) for one in (*references, *(one for one, _ in told))) > FEW_ODD
    lines = [
        f"<p>{chip(one.who, theme())} <b>{for_html(found.name)}</b> {for_html(found.sentence)}</p>{_odd(one, folded=folded)}"
        for one, found in told
    ]
    band = f"<span style='color:{REFERENCE.on(theme())}'>■</span>"
    odd = [one for one in references if one.oddities]  # the other seeds are not named one by one
    lines += [f"<p>{band} <b>{for_html(one.who.label)}</b> (reference)</p>{_odd(one, folded=folded)}" for one in odd]
    if not told:
        lines.append(f"<p>{band} Only the reference is chosen.</p>")
    with st.container(key="headlines"):
        st.html("".join(lines))


def _odd(one: Shown, *, folded: bool) -> str:
    """What the run's numbers say about themselves; where many runs have something to say, their words unfold on a click."""
    kinds = _kinds(one)
    if not kinds:
        return ""
    texts = "".join(f"<p class='odd'>⚠ {for_html(text)}</p>" for text in kinds.values())
    return f"<details><summary class='odd'>⚠ {for_html(', '.join(kinds))}</summary>{texts}</details>" if folded else texts


def _kinds(one: Shown) -> dict[str, str]:
    """The first sentence of each kind: non-finite, out of range, wrong semantics, a split that cancels."""
    once = {oddity.what: oddity.text for oddity in reversed(one.oddities)}
    return dict(reversed(once.items()))


def _nothing(view: View) -> str:
    """Why no row is drawn."""
    if view.backwards:
        return f"*From step* ({view.first_step}) lies after *To step* ({view.last_step}), so that nothing can be drawn."
    return "No chosen run has a row between these steps."


def _basis(told: Sequence[Headline]) -> str:
    """What the sentences' noise of the reference is estimated from; empty where nothing was compared."""
    return next((found.comparison.noise_basis for found in told if found.comparison and found.comparison.noise_basis), "")


def _caption(strips: Sequence[Strip], drawn: Sequence[Strip], choice: Choice, shown: Sequence[Shown], basis: str) -> None:
    rows = sum(curve.steps.size for one in drawn for curve in one.curves)
    thinned = any(curve.steps.size > 2 * COLUMNS for one in drawn for curve in one.curves)
    drawing = f"drawn as the lowest and highest of {COLUMNS} columns" if thinned else "all of them drawn"
    smoothing = f"smoothing ({choice.view.smoothing:g} per step) and " if choice.view.smoothing else ""
    parts = [
        "Solid: computed from tokens. Thin: believed from a log. Dashed: estimated.",
        "Band: lowest to highest seed of the smoothed reference, the thin line in it their median." if len(choice.references) > 1 else "",
        f"Noise of the reference, which a run must exceed to leave it: {basis}." if basis else "",
        f"{rows:,} rows, {drawing}; {smoothing}crossings are computed on every row." if rows else "",
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
    stand_ins: dict[str, set[str]] = {}
    for curve in (curve for one in strips for curve in one.curves if curve.stands_in(one.panel)):
        stand_ins.setdefault(ratio_of(curve.metric), set()).add(curve.who.label)
    empty = [one.panel.title for one in strips if not one.curves]
    lacking: dict[tuple[str, ...], list[str]] = {}
    for label in dict.fromkeys(label for one in strips for label in one.missing if label not in uncounted):
        lacking.setdefault(tuple(one.panel.title for one in strips if one.curves and label in one.missing), []).append(label)
    why = f"because the {choice.ratio} cannot be separated"
    said = [f"ESS of the {ratio}, {why}: {', '.join(sorted(labels))}." for ratio, labels in stand_ins.items()]
    said += _other_ratios(strips)
    if uncounted:
        said.append(f"Not drawn, because their logs do not count {choice.view.x_axis.value}: {', '.join(uncounted)}.")
    if empty:
        said.append(f"Not recorded by any run that is drawn: {', '.join(empty)}.")
    return said + [f"Not recorded by {', '.join(labels)}: {', '.join(titles)}." for titles, labels in lacking.items() if titles]


def _other_ratios(strips: Sequence[Strip]) -> list[str]:
    """Which runs are drawn with another ratio, or another estimator, than a strip's own, as a framework's log may have no other."""
    others: dict[tuple[str, str], list[str]] = {}
    for one in (one for one in strips if not one.panel.ess):
        for curve in one.curves:
            if curve.metric != one.panel.metrics[0]:
                others.setdefault((one.panel.title, curve.metric), []).append(curve.who.label)
    return [f"{title} of {', '.join(dict.fromkeys(labels))}: {metric}." for (title, metric), labels in others.items()]


def _crossings(drawn: Sequence[Strip], choice: Choice) -> None:
    table = _tables.crossing_table(drawn, choice.view)
    part = choice.view.part
    st.subheader(f"Where the ESS is under {choice.view.threshold:g}{part and f', {part}'}", anchor=False)
    if not any(one.panel.ess for one in drawn):
        st.caption("No chosen run records an ESS, or the log-probabilities to compute one.")
        return
    if table.empty:
        st.caption(f"At no step{part and f' {part}'}, on any chosen run, for the {choice.ratio} ratio at the token and the sequence level.")
        return
    with st.container(key="crossings"):
        _table(table)
    _download("Crossings as CSV", table, "crossings.csv")


def _table(table: pd.DataFrame) -> None:
    """A table in the page itself, which scrolls when it is long."""
    height: int | Literal["content"] = SCROLLED if len(table) > FIT else "content"
    st.table(_tables.escaped(table.head(_tables.MOST_ROWS), for_markdown), border="horizontal", hide_index=True, height=height)
    if len(table) > _tables.MOST_ROWS:
        st.caption(f"The first {_tables.MOST_ROWS} of {len(table)} rows, scrolling; the CSV has all.")
    elif len(table) > FIT:
        st.caption(f"{len(table)} rows; the table scrolls.")


def _problems(library: Library, framed: Frames) -> None:
    """What was not understood on the way to the numbers of the chosen runs."""
    found = [(library.entries[run_id].who.label, each) for run_id, one in framed.items() for each in one.problems]
    table = _tables.problem_table(found, runs=len(framed))
    if table.empty:
        st.caption("Everything in the chosen runs' files was read and understood.")
        return
    with st.expander(f"What could not be read or mapped ({len(table)})", expanded=False, key="problems"):
        _table(table)
        _download("All of it as CSV", _tables.problem_rows(found), "read_problems.csv")


def _meanings(drawn: Sequence[Strip]) -> None:
    shown = dict.fromkeys(curve.metric for one in drawn for curve in one.curves)
    known = {metric.id: metric for metric in METRICS}
    rows = [_meaning(known[name]) for name in shown if name in known]
    with st.expander("What the strips mean", key="meanings"):
        st.table(pd.DataFrame(rows), border="horizontal", hide_index=True)


def _meaning(metric: Metric) -> dict[str, str]:
    """A row of the table of definitions, in words for readers."""
    least, most = (f"{bound:g}".replace("inf", "∞").replace("-", "−") for bound in (metric.low, metric.high))
    agree = "–" if metric.no_mismatch is None else f"{metric.no_mismatch:g}"
    title = f"{metric.title} ({metric.id})"
    cells = (title, metric.formula, metric.unit, f"{least} … {most}", agree, metric.direction, metric.blind_to, metric.reference)
    return {name: for_markdown(text) for name, text in zip(_tables.MEANING_COLUMNS, cells, strict=True)}


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


PAGE = Page(title="Compare", icon=":material/stacked_line_chart:", url_path="compare", show=show, place=0)
