"""What a correction would have done on a run's own tokens, beside what the run does; the recommendation comes first, with its reasons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd
import streamlit as st

from monitor.corrections.replay import Result, Verdict, WhatIf
from monitor.corrections.snippets import Snippet, snippets
from monitor.diagnosis.diagnose import Diagnosis
from monitor.diagnosis.outcome import Severity
from monitor.pages import _tables
from monitor.pages._cards import pasted
from monitor.pages._diagnoses import diagnosed
from monitor.pages._escape import for_html, for_markdown
from monitor.pages._frames import frames, shown
from monitor.pages._grid import draw, send_plotly
from monitor.pages._library import Entry, Failure
from monitor.pages._live import live
from monitor.pages._one_run import pick_run_and_references
from monitor.pages._page import Desk, Page
from monitor.pages._results import Shown
from monitor.pages._sentences import sentence
from monitor.pages._theme import theme
from monitor.pages._verdicts import CLEARED, MARKS, UNTOLD
from monitor.pages._what_if_figure import LEGEND, MOST_LINES, corrected, told_corrected, told_uncorrected, uncorrected
from monitor.pages._what_if_rows import CAPS, chosen, correction_table, interval_table
from monitor.pages._what_ifs import what_if

ABOUT = (
    "Corrections are replayed on the tokens that were logged: nothing is trained. What a correction would have changed about the tokens of "
    "later steps is not in it."
)
COLUMNS = {
    "lowest ESS": "of all steps, after the correction: (sum w)² / (n sum w²); what is dropped counts in n",
    "under 1/2": "at how many steps that is the case",
    "tokens, sequences cut": "mean share whose weight was held at a bound, or that was dropped",
    "heaviest sequence": "largest share of a step's weight on one sequence",
    "E[w²]": "mean square of the weights; 1 without a correction",
    "variance of A w": "sum (A w)² / sum A²: by how much the weights blow the gradient's variance up",
    "mass kept": "share of the uncorrected weights' sum that is still there",
    "bias bound": "E|rho - w| max |A|, at the correction's own level; a token level says nothing of which prefixes are visited",
}
SAME = (
    "TIS and DLC weigh alike where level and cap are the same. What DLC's centring adds needs the engine's distribution, which no token "
    "log has, so that cannot be told."
)
UNCORRECTED = (
    "No correction gives every weight 1, so its ESS is 1 by definition: the lag stays in the gradient uncorrected, and the bias bound is "
    "what tells."
)
FALLS = "▼ the step from which a strict trigger would have thrown batches away and resynchronised the generator; △ where the ESS is back."
SIGNS = {
    Verdict.FIX_FIRST: replace(MARKS[Severity.CRITICAL], word=str(Verdict.FIX_FIRST)),
    Verdict.CORRECT: replace(MARKS[Severity.WARNING], word=str(Verdict.CORRECT)),
    Verdict.NOTHING: replace(CLEARED, word=str(Verdict.NOTHING)),
    Verdict.UNTOLD: UNTOLD,
}


def show(desk: Desk) -> None:
    """Draw the page."""
    library = desk.library
    run_id, references = pick_run_and_references(library, ABOUT)
    if run_id is None:
        st.info("There is no run whose tokens could be replayed. Add your own on the Upload page.", icon=":material/info:")
        return
    with live(library, [run_id, *references], alerts=False).at():
        _told(desk, run_id, references)


def _told(desk: Desk, run_id: str, references: Sequence[str]) -> None:
    library = desk.library
    found = frames(library, list(dict.fromkeys((run_id, *references))))
    if run_id not in found:
        return  # why was said when its frame was asked for
    (one,), seeds = shown(library, found, [run_id]), shown(library, found, references)
    told = _replayed(one, library.entries[run_id], seeds)
    if isinstance(told, Failure):
        st.error(for_markdown(told.sentence))
        return
    with st.container(key="what_if"):
        st.html(_head(one, told, [each.who.label for each in seeds]))
    if told.advice.verdict is Verdict.FIX_FIRST:
        desk.link_to("findings", "What is wrong, and what to change", ":material/troubleshoot:", run=one.who.label)
    if told.replay.ratio is None:
        return
    _code(told)
    _corrections(told)
    _intervals(told)
    send_plotly()


def _replayed(one: Shown, entry: Entry, seeds: Sequence[Shown]) -> WhatIf | Failure:
    """The diagnosis first, then the replay, with a word about how far they are."""
    place = st.empty()

    def tell(words: str) -> None:
        place.caption(for_markdown(words))

    with st.spinner(f"Replaying corrections on {for_markdown(one.who.label)}"):
        told = diagnosed(one, entry.run, seeds, tell)
        found = what_if(one, entry.run, told, tell) if isinstance(told, Diagnosis) else told
    place.empty()
    return found


def _head(one: Shown, told: WhatIf, references: Sequence[str]) -> str:
    advice, replay = told.advice, told.replay
    mark = SIGNS[advice.verdict].html(theme())
    lines = [f"<p class='verdict'>{mark} · <b>{for_html(one.who.label)}</b> · {for_html(sentence(advice.says))}</p>"]
    lines.append(f"<p class='basis'>{for_html(_basis(told))} {for_html(_held(references))}</p>")
    if advice.reasons != (advice.says,):
        items = "".join(f"<li>{for_html(reason)}</li>" for reason in advice.reasons)
        lines.append(f"<p class='label'>Why</p><ul class='numbers'>{items}</ul>")
    own = "".join(f"<li>{for_html(sentence(each.says))} <small>({for_html(each.source)})</small></li>" for each in replay.own)
    nothing = "<li>Its settings name neither an objective nor a correction.</li>"
    lines.append(f"<p class='label'>What this run does</p><ul class='numbers'>{own or nothing}</ul>")
    return "".join(lines)


def _basis(told: WhatIf) -> str:
    replay = told.replay
    if replay.ratio is None:
        record = ", ".join(replay.record) or "both sides of a ratio"
        return f"Nothing could be replayed: {replay.says}. To record: {record} (docs/token_log.md)."
    left = f"; {replay.left_out:,} tokens without finite log-probabilities are left out" if replay.left_out else ""
    tokens = f"{int(replay.tokens.sum()):,} tokens of {int(replay.sequences.sum()):,} sequences at {len(replay.steps)} steps{left}"
    return f"Replayed on {tokens}. Weighed is {replay.says}."


def _held(references: Sequence[str]) -> str:
    """What the diagnosis compared the run with: a reference of another task makes it say what is not so."""
    if not references:
        return "The diagnosis that comes first held it against no reference."
    named = ", ".join(references)
    return f"The diagnosis that comes first held it against {named}; where that is another task, take it out of the sidebar."


def _code(told: WhatIf) -> None:
    """Something to paste, where something is recommended."""
    advice = told.advice
    if advice.level is None:
        return
    found = snippets(advice.recipe, level=advice.level, sync_interval=advice.sync_interval)
    with st.expander("The code to paste", key="code", expanded=advice.verdict is Verdict.CORRECT):
        for tab, snippet in zip(st.tabs([str(each.place) for each in found]), found, strict=True):
            with tab:
                _paste(snippet)


def _paste(snippet: Snippet) -> None:
    st.html(f"<p class='where'>{for_html(sentence(snippet.says))}</p>")
    if snippet.code:
        st.code(pasted(snippet.code), language=None, wrap_lines=True)


def _corrections(told: WhatIf) -> None:
    st.subheader("What each correction leaves", anchor=False)
    draw("what_if_uncorrected", uncorrected(told.replay, theme()), told_uncorrected(told.replay), LEGEND)
    st.caption(FALLS)
    cap = st.segmented_control("Cap", CAPS, default="2", key="cap", required=True, bind="query-params", persist_state="session")
    rows = chosen(told, cap or "2")
    drawn = _to_draw(rows)
    draw("what_if_corrected", corrected(told.replay, drawn, theme()), told_corrected(drawn), LEGEND)
    with st.container(key="corrections"):
        _table(correction_table(rows))
    st.caption(f"{UNCORRECTED} {SAME}")
    with st.expander("What the columns mean", key="columns"):
        items = "".join(f"<li><b>{for_html(name)}</b>: {for_html(words)}</li>" for name, words in COLUMNS.items())
        st.html(f"<ul class='numbers'>{items}</ul>")


def _to_draw(rows: Sequence[tuple[str, Result]]) -> list[tuple[str, Result]]:
    """One line for each way of weighing, the run's own and the recommended first."""
    seen: dict[object, tuple[str, Result]] = {}
    for name, result in rows:
        if result.measures and (result.recipe.capped or name != result.recipe.title or not seen):
            seen.setdefault((result.ratio, result.recipe.weighs), (name, result))
    return list(seen.values())[:MOST_LINES]


def _intervals(told: WhatIf) -> None:
    st.subheader("How far the generator may fall behind", anchor=False)
    with st.container(key="intervals"):
        _table(interval_table(told.replay))
    st.caption(
        "In optimizer steps between the weights that sampled a token and those being updated. Batches that wait before the trainer, and "
        "answers in flight, count as well: a sync interval is what they leave of it. The range is 5 % to 95 % of a bootstrap over steps."
    )


def _table(table: pd.DataFrame) -> None:
    st.table(_tables.escaped(table, for_markdown), border="horizontal", hide_index=True)


PAGE = Page(title="What if", icon=":material/alt_route:", url_path="what_if", show=show, place=4)
