"""The metrics that rules read of one run, as strips with the steps at which a rule would have fired."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from ingest.run import Config
from monitor.alerts.backtest import Backtest
from monitor.alerts.levels import fixed_threshold
from monitor.alerts.reads import readings
from monitor.alerts.rule import AlertRule, RuleKind
from monitor.metrics import glossary
from monitor.metrics.series import series
from monitor.pages._curves import Strip, View, strip
from monitor.pages._panels import Panel, panels
from monitor.pages._results import Shown

MOST = 6  # strips


def strips_of(  # noqa: PLR0913 - what is drawn, and beside what
    rules: Iterable[AlertRule], back: Backtest, one: Shown, *, settings: Config, references: Sequence[Shown], view: View
) -> list[Strip]:
    """A strip for each metric that a rule reads in this run: first those in which a rule fires, then those that could.

    Each carries the thresholds of the rules that read it; of those that are another at every step there is no line.
    """
    fired = [episode.metric for episode in back.episodes]
    readers: dict[str, list[AlertRule]] = {}
    for rule in (rule for rule in rules if rule.kind is RuleKind.METRIC and rule.enabled):
        for metric in _read(rule, one):
            readers.setdefault(metric, []).append(rule)
    wanted = list(dict.fromkeys([*(metric for metric in fired if metric in readers), *readers]))[:MOST]
    seeds = [(each.who, each.frame) for each in references]
    panels_of = (_with_thresholds(_panel(metric), metric, readers[metric], one, settings) for metric in wanted)
    drawn = [strip(panel, [(one.who, one.frame)], seeds, view) for panel in panels_of]
    return [each for each in drawn if each.candidates]


def _with_thresholds(panel: Panel, metric: str, rules: Sequence[AlertRule], one: Shown, settings: Config) -> Panel:
    """The panel with where its rules' thresholds lie; an ESS is shaded under the highest that it must not fall under."""
    found = series(one.frame, metric).values
    lines = [(rule, fixed_threshold(rule, settings, _floor(rule, found[np.isfinite(found)]))) for rule in rules]
    known = [(rule, line) for rule, line in lines if line is not None]
    under = max((line for rule, line in known if rule.comparison.falling), default=None) if panel.ess else None
    return replace(panel, thresholds=tuple(sorted({line for _, line in known})), under=under)


def _floor(rule: AlertRule, finite: npt.NDArray[np.float64]) -> float | None:
    """The run's own floor, as the rule has it."""
    return float(np.median(finite[: rule.floor_steps])) if len(finite) >= rule.floor_steps else None


def _read(rule: AlertRule, one: Shown) -> list[str]:
    """The metric that the rule is read on in this run; none where the run has none of those it could be."""
    present = set(one.frame["metric"].unique().to_pylist())
    return next(([place.metric] for place in readings(rule) if place.metric in present), [])


def _panel(metric: str) -> Panel:
    """The overlay's own panel of a metric, with this metric alone; a plain one where the overlay does not show it."""
    for panel in panels():
        if metric in panel.metrics:
            stands_in = panel.ess and metric != panel.metrics[0]
            return Panel(
                title=panel.title,
                unit=f"{metric}" if stands_in else panel.unit,
                metrics=(metric,),
                ess=panel.ess,
                level=panel.level,
                digits=panel.digits,
            )
    unit = glossary.metric(metric).unit if glossary.known(metric) else ""
    return Panel(title=glossary.metric(metric).title if glossary.known(metric) else metric, unit=unit, metrics=(metric,))
