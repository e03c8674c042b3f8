"""A finding as a card: what is wrong, what to change and where, the picture of its evidence, and what it is not."""

from __future__ import annotations

import math
from collections.abc import Sequence

import streamlit as st

from monitor.diagnosis.diagnose import Answer
from monitor.diagnosis.outcome import Evidence, Finding, Fix
from monitor.diagnosis.rule import Rule
from monitor.pages._charts import Definitions
from monitor.pages._escape import INVISIBLE, for_html, for_markdown
from monitor.pages._evidence import drawings
from monitor.pages._grid import draw
from monitor.pages._results import Shown
from monitor.pages._sentences import sentence
from monitor.pages._theme import theme
from monitor.pages._verdicts import MARKS, anchor

NARROWEST = 400  # px: two columns of less become one
HEADINGS = {
    "looks like": "What it looks like",
    "why": "Why it happens",
    "next": "What to do next",
    "neighbours": "How to tell it from its neighbours",
    "source": "Where the thresholds come from",
}


def card(answer: Answer, found: Finding, one: Shown, references: Sequence[Shown], definitions: Definitions) -> None:
    """Draw the card of one finding."""
    rule = answer.rule
    with st.container(border=True, key=f"finding_{rule.id}"):
        st.html(_head(rule, found))
        sides = st.grid(2, min_column_width=NARROWEST, key=f"sides_{rule.id}", gap="medium")
        with sides.cell(), st.container(gap="xsmall"):
            _to_change(found)
        with sides.cell(), st.container(gap="xsmall"):
            pictures = drawings(found, one, references, theme(), definitions)
            for number, picture in enumerate(pictures):
                draw(f"evidence_{rule.id}_{number}", picture.figure, picture.alt, picture.legend_room)
            st.html(_evidence(found.evidence, drawn=bool(pictures)))
        _about(rule)


def since(found: Finding) -> str:
    """At which steps it is seen."""
    if found.since is None:
        return "over the whole run" if found.until is None else f"up to step {found.until}"
    if found.until is None:
        return f"since step {found.since}"
    return f"at step {found.since}" if found.until == found.since else f"from step {found.since} to {found.until}"


def _head(rule: Rule, found: Finding) -> str:
    facts = (MARKS[found.severity].html(theme()), for_html(rule.layer.words), for_html(since(found)), for_html(found.certainty))
    return (
        f"<div class='finding' id='{for_html(anchor(rule.id))}'><p class='facts'>{' · '.join(facts)}</p>"
        f"<h3>{for_html(rule.title)}</h3><p class='what'>{for_html(sentence(found.what))}</p><p>{for_html(sentence(found.why))}</p></div>"
    )


def _to_change(found: Finding) -> None:
    for number, fix in enumerate(found.fixes, 1):
        label = "" if number > 1 else "<p class='label'>What to change</p>"
        st.html(f"{label}<p class='where'>{f'{number}. ' if len(found.fixes) > 1 else ''}{_where(fix)}</p>")
        st.code(pasted(fix.change), language=None, wrap_lines=True)
    said = f"<p class='label'>To see that it worked</p><p class='where'>{for_html(sentence(found.look_at))}</p>" if found.look_at else ""
    if found.apart_from:
        items = "".join(f"<li>{for_html(sentence(each))}</li>" for each in found.apart_from)
        said += f"<p class='label'>Told apart from</p><ul class='apart'>{items}</ul>"
    if said:
        st.html(said)


def _where(fix: Fix) -> str:
    setting = f" <small>(here called {for_html(fix.setting)})</small>" if fix.setting and fix.setting not in fix.change else ""
    return f"{for_html(sentence(fix.where).removesuffix('.'))}{setting}:"


def pasted(text: str) -> str:
    """Text that is copied into somebody's configuration: its lines as they are, without marks that nobody sees."""
    return "\n".join(INVISIBLE.sub(" ", line).rstrip() for line in text.splitlines())


def _evidence(evidence: Sequence[Evidence], *, drawn: bool) -> str:
    items = "".join(f"<li>{for_html(sentence(each.says))} <small>{for_html(_basis(each))}</small></li>" for each in evidence)
    return f"<p class='label'>{'The same in numbers' if drawn else 'Evidence'}</p><ul class='numbers'>{items}</ul>"


def _basis(evidence: Evidence) -> str:
    """Where a number comes from and what it is held against."""
    where = "read problems" if evidence.origin == "read problems" else f"from {evidence.origin}"
    unit = f" {evidence.unit}" if evidence.unit else ""
    against = "" if evidence.threshold is None or math.isnan(evidence.threshold) else f"; threshold {evidence.threshold:.4g}{unit}"
    return f"({evidence.metric}, {where}{_steps(evidence.steps)}{against}{f': {evidence.source}' if evidence.source else ''})"


def _steps(steps: Sequence[int]) -> str:
    few = 4
    if not steps:
        return ""
    listed = ", ".join(map(str, steps[:few])) + (", …" if len(steps) > few else "")
    return f", step{'' if len(steps) == 1 else 's'} {listed}"


def _about(rule: Rule) -> None:
    """The rule's own text, and its numbers with their sources."""
    with st.expander("How this is recognised", key=f"about_{rule.id}"):
        text = rule.text
        st.markdown("\n\n".join(f"**{HEADINGS[part]}**  \n{for_markdown(paragraph)}" for part, paragraph in text.items()))
        rows = [
            f"<li><b>{threshold.value:g} {for_html(threshold.unit)}</b> ({for_html(name)}): {for_html(threshold.source)}</li>"
            for name, threshold in rule.thresholds.items()
        ]
        if rows:
            st.html(f"<p class='label'>Thresholds</p><ul class='numbers'>{''.join(rows)}</ul>")
        if rule.needs:
            st.html(f"<p class='label'>Settings that sharpen it</p><p>{', '.join(map(for_html, rule.needs))}</p>")
