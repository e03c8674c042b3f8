"""What was computed for the page stays computed: curves and headlines, by the content of the runs they are of.

Without it a page would compare every run again whenever a control moves. The scale and the part that is drawn change nothing here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import streamlit as st

from ingest.run import ReadProblem
from monitor.compare.flags import Rule
from monitor.compare.headline import Headline
from monitor.compare.headline import headline as compared
from monitor.metrics.sanity import Oddity
from monitor.pages._colours import Identity
from monitor.pages._curves import Strip, View, strip
from monitor.pages._following import Key
from monitor.pages._panels import panels

MAX_OVERLAYS = 16  # kept; one of six runs of 10,000 steps is about 25 MB
MAX_HEADLINES = 512


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A run that is looked at."""

    who: Identity
    key: Key  # of its content
    frame: pa.Table
    oddities: tuple[Oddity, ...] = ()
    problems: tuple[ReadProblem, ...] = ()  # met while the run was read, and while its metrics were computed


def overlay(candidates: Sequence[Shown], references: Sequence[Shown], ratio: str, view: View) -> tuple[Strip, ...]:
    """The strips of the overlay, the first on top; those without a curve as well."""
    content = tuple(tuple((one.who, one.key) for one in some) for some in (candidates, references))
    lasting = replace(view, log_y=False, first_step=None, last_step=None)
    return _strips(content, ratio, lasting, candidates, references)


def headline(candidate: Shown, references: Sequence[Shown], ratio: str, threshold: float) -> Headline:
    """The sentence about a candidate; the stays in it are those of the ESS that is drawn."""
    content = (candidate.who.label, candidate.key, tuple((one.who.label, one.key) for one in references))
    rules = tuple(Rule(metric=f"ess.{ratio}.{level}", comparison="<", threshold=threshold) for level in ("token", "sequence"))
    return _headline(content, rules, candidate, references)


@st.cache_resource(max_entries=MAX_OVERLAYS, show_spinner=False)
def _strips(content: object, ratio: str, view: View, _candidates: Sequence[Shown], _references: Sequence[Shown]) -> tuple[Strip, ...]:
    del content  # the cache's key
    drawn = [[(one.who, one.frame) for one in some] for some in (_candidates, _references)]
    return tuple(strip(panel, drawn[0], drawn[1], view) for panel in panels(ratio))


@st.cache_resource(max_entries=MAX_HEADLINES, show_spinner=False)
def _headline(content: object, rules: tuple[Rule, ...], _candidate: Shown, _references: Sequence[Shown]) -> Headline:
    del content
    return compared(_candidate.frame, {one.who.label: one.frame for one in _references}, name=_candidate.who.label, rules=rules)
