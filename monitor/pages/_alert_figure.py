"""The metrics that rules read of one run, as strips with the steps at which a rule would have fired."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from monitor.alerts.backtest import Backtest
from monitor.alerts.reads import readings
from monitor.alerts.rule import AlertRule, Relation, RuleKind
from monitor.metrics import glossary
from monitor.pages._curves import Strip, View, strip
from monitor.pages._panels import Panel, panels
from monitor.pages._results import Shown

MOST = 6  # strips


def strips_of(rules: Iterable[AlertRule], back: Backtest, one: Shown, references: Sequence[Shown], view: View) -> list[Strip]:
    """A strip for each metric that a rule reads in this run: first those in which a rule fires, then those that could."""
    fired = [episode.metric for episode in back.episodes]
    read = [metric for rule in rules if rule.kind is RuleKind.METRIC and rule.enabled for metric in _read(rule, one)]
    wanted = list(dict.fromkeys([*(metric for metric in fired if metric in read), *read]))[:MOST]
    drawn = [strip(_panel(metric), [(one.who, one.frame)], [(each.who, each.frame) for each in references], view) for metric in wanted]
    return [each for each in drawn if each.candidates]


def threshold_of(rules: Iterable[AlertRule], fallback: float = 0.5) -> float:
    """The threshold that ESS strips carry: that of the first rule on an ESS."""
    return next((rule.threshold for rule in rules if rule.metric.startswith("ess.") and rule.relation is Relation.ABSOLUTE), fallback)


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
