"""Which metric of a log a rule is read on: its own, or what stands in for a lag that the log does not separate; and from which origin."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from monitor.alerts.rule import AlertRule, Relation
from monitor.compare.flags import candidates
from monitor.metrics import glossary
from monitor.metrics.series import ORIGINS


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One place that a rule can be read at."""

    metric: str
    origin: str
    label: str  # the metric in words, with what it stands in for


@lru_cache(maxsize=256)
def readings(rule: AlertRule) -> tuple[Reading, ...]:
    """Every place that a rule on a metric can be read at, the best first; a log is read at the best that it has, and never at two.

    The order is that of `monitor.compare.flags`: the metric, the total, the discrepancy; of each what tokens say, then what was logged,
    then what is estimated; of an export of grouped runs the run of the group that is the first to cross.
    """
    return tuple(
        Reading(metric=metric + bound, origin=origin, label=label + words)
        for metric, label in candidates(rule.metric)
        for origin in ORIGINS
        for bound, words in _bounds(rule)
    )


@lru_cache(maxsize=256)
def places(rule: AlertRule) -> dict[tuple[str, str], int]:
    """(metric, origin) -> how good a place to read the rule at it is; 0 is the best."""
    return {(each.metric, each.origin): place for place, each in enumerate(readings(rule))}


def _bounds(rule: AlertRule) -> tuple[tuple[str, str], ...]:
    if rule.relation not in {Relation.ABSOLUTE, Relation.LIMIT}:
        return (("", ""),)
    bound = ".group_low" if rule.comparison.falling else ".group_high"
    return ((bound, f" ({glossary.ENVELOPE[bound]})"), ("", ""))
