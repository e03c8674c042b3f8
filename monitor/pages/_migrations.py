"""What becomes of a backend's migration, computed once per content: checklist, comparison, differing settings and the strips to mark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import streamlit as st

from ingest.run import Run
from monitor.compare.config_difference import SettingDifference, config_difference
from monitor.compare.headline import Comparison, words
from monitor.compare.migration import Migration, migration
from monitor.compare.reference import SMOOTHING
from monitor.metrics import glossary
from monitor.pages._curves import Strip, View, strip
from monitor.pages._library import Failure, guarded
from monitor.pages._panels import Panel, panels
from monitor.pages._results import Shown, headline
from monitor.pages._stretches import Stretch

MAX_JUDGED, MAX_STRIPS = 128, 16  # kept
MOST_STRIPS = 6  # strips that are drawn, of the metrics that left the reference first; the table has all
VIEW = View(smoothing=SMOOTHING)  # as the curves are compared


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A candidate beside its reference."""

    one: Shown
    run: Run
    comparison: Comparison
    migration: Migration
    differences: tuple[SettingDifference, ...]


Runs = Sequence[tuple[Shown, Run]]


def judged(one: Shown, run: Run, references: Runs) -> Judged | Failure:
    """A candidate against the runs of its reference, of which there is at least one."""
    return _judged(_content([one], [each for each, _ in references]), one, run, references)


def divergence_strips(found: Sequence[Judged], references: Sequence[Shown]) -> tuple[Strip, ...]:
    """The metrics in which a candidate left the reference, the first to leave on top."""
    left = sorted((each for one in found for each in one.comparison.divergences), key=lambda each: each.step)
    metrics = tuple(dict.fromkeys(each.metric for each in left))[:MOST_STRIPS]
    runs = [one.one for one in found]
    return _strips(_content(runs, references), metrics, runs, references)


def stretches(found: Sequence[Judged]) -> Iterator[Stretch]:
    """Where each candidate leaves the reference in each metric: from the step it is dated to, to the one at which it was certain."""
    for one in found:
        for each in one.comparison.divergences:
            label = f"{one.one.who.label} leaves the reference in {words(each.metric)}"
            who = one.one.who
            yield Stretch(first=each.step, last=each.alarm_step, hue=who.hue, label=label, metric=each.metric, run=who.id)


@st.cache_resource(max_entries=MAX_JUDGED, show_spinner=False)
def _judged(content: object, _one: Shown, _run: Run, _references: Runs) -> Judged | Failure:
    del content  # the cache's key
    return guarded(_one.who.label, lambda: _judge(_one, _run, _references), "comparing")


def _judge(one: Shown, run: Run, references: Runs) -> Judged:
    comparison = headline(one, [each for each, _ in references], "lag", VIEW.threshold).comparison
    if comparison is None:
        raise ValueError("a migration needs a reference")
    old = [(each_run, each.frame) for each, each_run in references]
    checked = migration(old, (run, one.frame), comparison)
    differences = config_difference([each_run for _, each_run in references], run)
    return Judged(one=one, run=run, comparison=comparison, migration=checked, differences=differences)


@st.cache_resource(max_entries=MAX_STRIPS, show_spinner=False)
def _strips(content: object, metrics: tuple[str, ...], _runs: Sequence[Shown], _references: Sequence[Shown]) -> tuple[Strip, ...]:
    del content
    runs = [[(one.who, one.frame) for one in some] for some in (_runs, _references)]
    drawn = (strip(_panel(metric), runs[0], runs[1], VIEW) for metric in metrics)
    return tuple(one for one in drawn if one.curves)


def _panel(metric: str) -> Panel:
    """The overlay's own panel where it is of this very metric; else one that names its ratio, as the sentences do."""
    own = next((panel for panel in panels() if panel.metrics[0] == metric), None)
    if own is not None:
        return replace(own, metrics=(metric,))
    title = words(metric)
    unit = glossary.metric(metric).unit
    return Panel(title=f"{title[:1].upper()}{title[1:]}", unit=unit, metrics=(metric,), ess=metric.startswith("ess."))


def _content(candidates: Sequence[Shown], references: Sequence[Shown]) -> object:
    return tuple(tuple((one.who, one.key) for one in some) for some in (candidates, references))
