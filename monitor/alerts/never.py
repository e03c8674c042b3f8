"""Whether a rule can fire on a log at all; said when it is set up, because an alert that sleeps looks like an alert that is content."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from monitor.alerts.levels import NOTHING, Against
from monitor.alerts.observation import NO_ERROR
from monitor.alerts.reads import readings
from monitor.alerts.rule import AlertRule, Relation, RuleKind
from monitor.compare.flags import what_to_record
from monitor.metrics import glossary
from monitor.metrics.series import Series, series

_FLOOR = re.compile(r"cannot fall under (?P<floor>\d*\.?\d+(?:[eE][-+]?\d+)?)(?![\d.(/])")  # as `ingest.dialect.Key` and dialects say it
_VAGUE = "cannot fall under "  # the same where the log does not say how far its weights were truncated
_CONSTANT = "constant by construction"


def never_fires(rule: AlertRule, frame: pa.Table, compared: Against = NOTHING) -> str | None:
    """Why the rule can never fire on this log, or None where it can.

    A log that grows may still change the answer: ask again where a rule is shown.

    Args:
        rule: the rule; one on missing data can always fire, one on values that are not finite wherever there is a value.
        frame: what the log has so far, as a metric frame.
        compared: its settings, and the reference.
    """
    if rule.kind is RuleKind.NO_DATA:
        return None
    if rule.kind is RuleKind.NONFINITE:
        return None if frame.num_rows else "the log has no value yet"
    found = _read(rule, frame)
    if found is None:
        return _missing(rule)
    objections = (_no_value(found), _out_of_range(rule, found, compared), _floored(rule, found), _saturated(rule, found))
    return next((said for said in (*objections, _nothing_to_compare(rule, found, compared)) if said), None)


def never_firing(rules: tuple[AlertRule, ...], frame: pa.Table, compared: Against = NOTHING) -> Mapping[str, str]:
    """Rule id -> why it can never fire, for those that cannot."""
    said = {rule.id: never_fires(rule, frame, compared) for rule in rules}
    return {name: why for name, why in said.items() if why is not None}


def _read(rule: AlertRule, frame: pa.Table) -> Series | None:
    """The series that the rule is read on; None where the log has none of those it could be."""
    present = set(frame["metric"].unique().to_pylist())
    for place in readings(rule):
        if place.metric in present and len(found := series(frame, place.metric, origin=place.origin)):
            return found
    return None


def _missing(rule: AlertRule) -> str:
    if glossary.known(rule.metric):
        return f"can never fire: {what_to_record(rule.metric)}"
    close = difflib.get_close_matches(rule.metric, [metric.id for metric in glossary.METRICS], 3)
    also = f"; did you mean {', '.join(close)}?" if close else "; 'python -m monitor summarize' lists those of a log"
    return f"can never fire: there is no metric {rule.metric}{also}"


def _no_value(found: Series) -> str:
    said = f"{found.metric} has no value: NaN or empty at all of its {len(found)} steps"
    return f"cannot fire on this log so far: {said}" if np.isnan(found.values).all() else ""


def _floored(rule: AlertRule, found: Series) -> str:
    """An ESS of truncated weights has a floor, which the dialect wrote beside the value; a constant says so there too."""
    if _CONSTANT in found.caveat:
        return f"can never fire on this log: {found.metric} is {found.caveat[found.caveat.index(_CONSTANT) :].partition(';')[0]}"
    limit = rule.threshold if rule.relation is Relation.ABSOLUTE and rule.comparison.falling else None
    if limit is None or _VAGUE not in found.caveat:
        return ""
    floors = [float(match["floor"]) for match in _FLOOR.finditer(found.caveat)]
    if floors and not rule.comparison.beyond(min(floors), limit):
        return f"can never fire on this log: {found.metric} {_VAGUE}{min(floors):g}, because its weights were truncated before it was taken"
    said = found.caveat[found.caveat.index(_VAGUE) :].partition(";")[0]
    return "" if floors else f"may never fire on this log: {found.metric} {said}"


def _out_of_range(rule: AlertRule, found: Series, compared: Against) -> str:
    """No true value lies beyond the threshold."""
    if not glossary.known(found.metric):
        return ""
    threshold = _fixed(rule, found, compared)
    row = glossary.metric(found.metric)
    best = row.low if rule.comparison.falling else row.high
    if threshold is None or rule.comparison.beyond(best, threshold):
        return ""
    return f"can never fire: {found.metric} lies in [{row.low:g}, {row.high:g}], and the threshold is {threshold:.4g}"


def _fixed(rule: AlertRule, found: Series, compared: Against) -> float | None:
    """The threshold in the metric's unit, where it is the same at every step and known."""
    if rule.relation is Relation.ABSOLUTE:
        return rule.threshold
    if rule.relation is Relation.LIMIT and (limit := compared.limit(rule)) is not None:
        return rule.threshold * limit
    finite = found.values[np.isfinite(found.values)][: rule.floor_steps]
    if rule.relation is Relation.FLOOR and len(finite) == rule.floor_steps:
        return rule.threshold * max(float(np.median(finite)), rule.at_least / rule.threshold)
    return None


def _saturated(rule: AlertRule, found: Series) -> str:
    """An ESS lies in [1/n, 1]: of one or two weights it never falls under 1/2."""
    if not (found.metric.startswith("ess.") and rule.relation is Relation.ABSOLUTE and rule.comparison.falling):
        return ""
    counted = found.n[found.n > 0]
    if not len(counted) or rule.comparison.beyond(1 / counted.max(), rule.threshold):
        return ""
    n = int(counted.max())
    return f"can never fire on this log: {found.metric} is taken over at most {n} weights, so it cannot fall under 1/{n}"


def _nothing_to_compare(rule: AlertRule, found: Series, compared: Against) -> str:
    """What the relation needs and the log, or whoever watches, does not give."""
    head = "can never fire on this log: "
    if rule.relation is Relation.LIMIT and compared.limit(rule) is None:
        return f"{head}its settings do not say {rule.setting} as a number"
    if rule.relation is Relation.STANDARD_ERROR and not np.isfinite(found.standard_error).any():
        return f"{head}{found.metric} has no standard error; it takes token logs (monitor.record.Recorder)"
    if rule.relation is Relation.STANDARD_ERROR and NO_ERROR in found.caveat:
        return f"{head}{found.caveat[found.caveat.index(NO_ERROR) :].partition(';')[0]}"
    if rule.relation is Relation.REFERENCE:
        return _no_reference(found, compared)
    finite = found.values[np.isfinite(found.values)][: rule.floor_steps]
    if rule.relation is Relation.FLOOR and len(finite) == rule.floor_steps and np.median(finite) < 0:
        return f"{head}the floor of {found.metric} is {np.median(finite):.4g}, and a multiple of what is under 0 means nothing"
    return ""


def _no_reference(found: Series, compared: Against) -> str:
    if not compared.baselines:
        return "can never fire: no reference is given, or it lacks the metric (watch --reference PATH)"
    baseline = compared.baselines.get((found.metric, found.origin))
    if baseline is None:
        return f"can never fire: the reference does not have {found.metric} as the log has it ({found.origin})"
    if found.steps[0] > baseline.steps[-1]:
        return f"cannot fire any more: the reference ends at step {baseline.steps[-1]}, and the log begins at {found.steps[0]}"
    return ""
