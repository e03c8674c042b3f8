"""Which steps a threshold flags: the one place that decides what is looked at when a rule names an ESS, for the page and the command line.

The lag cannot always be separated from a log; a rule on the lag is then read on the total, and every answer says which of the two it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ingest.errors import RatiometerError
from monitor.metrics import glossary
from monitor.metrics.crossings import Crossing, crossings
from monitor.metrics.series import Series, series

_RULE = re.compile(r"\s*(?P<metric>[A-Za-z_][\w.]*)\s*(?P<comparison><=|>=|<|>)\s*(?P<threshold>[-+]?[\d.]+(?:[eE][-+]?\d+)?)\s*")
DEFAULT_RULES = ("ess.lag.token < 0.5", "ess.lag.sequence < 0.5")  # definitions, section 5: both levels, each by name


class RuleError(RatiometerError):
    """A rule that cannot be understood; the message shows a good one."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A metric beyond a threshold, for instance `ess.lag.token < 0.5`."""

    metric: str
    comparison: str
    threshold: float

    @classmethod
    def parse(cls, text: str) -> Rule:
        """Read `<metric> <comparison> <number>`.

        Raises:
            RuleError: the text has another form.
        """
        match = _RULE.fullmatch(text)
        if match is None:
            raise RuleError(f"rule {text!r}: expected '<metric> < <number>' (or <=, >, >=), for instance '{DEFAULT_RULES[0]}'")
        try:
            threshold = float(match["threshold"])
        except ValueError as error:
            raise RuleError(f"rule {text!r}: {match['threshold']!r} is not a number") from error
        return cls(metric=match["metric"], comparison=match["comparison"], threshold=threshold)

    def __str__(self) -> str:
        return f"{self.metric} {self.comparison} {self.threshold:g}"


@dataclass(frozen=True, kw_only=True)
class Flagged:
    """What a rule found in one run; no crossings means that no step is beyond the threshold."""

    rule: Rule
    metric: str  # the metric that was read: the rule's own, or what stands in for a lag that cannot be separated
    label: str  # says so in words
    bound: str  # "value"; of an export of grouped runs "group_low" or "group_high", whichever side the rule looks at
    origin: str  # tokens, logged or estimated
    steps: int  # steps with a value, NaN included
    unknown: int  # of these, steps whose value is NaN
    crossings: tuple[Crossing, ...]


@dataclass(frozen=True, kw_only=True)
class NotTold:
    """A rule that this log cannot answer, and what to record so that it can."""

    rule: Rule
    reason: str


def flags(frame: pa.Table, rule: Rule) -> Flagged | NotTold:
    """Apply `rule` to a metric frame.

    Args:
        frame: rows of `METRIC_FRAME` of one run.
        rule: the threshold.

    Returns:
        the stays beyond the threshold, read off the raw values; or why they cannot be told.
    """
    for metric, label in candidates(rule.metric):
        found = series(frame, metric)
        if found.steps.size and np.isnan(found.values).all():
            return NotTold(rule=rule, reason=f"{metric} has no value: NaN or empty at all of its {found.steps.size} steps")
        if found.steps.size:
            bounded, bound = _bounded(frame, found, rule)
            words = "" if bound == "value" else f" ({glossary.ENVELOPE['.' + bound]})"
            return _flagged(bounded, rule, metric, label + words, bound)
    return NotTold(rule=rule, reason=what_to_record(rule.metric))


def _bounded(frame: pa.Table, found: Series, rule: Rule) -> tuple[Series, str]:
    """The side of a group's envelope that crosses first: of a mean over runs, the one run that crosses is what is looked for."""
    bound = "group_low" if rule.comparison.startswith("<") else "group_high"
    envelope = series(frame, f"{found.metric}.{bound}", origin=found.origin)
    if not len(envelope):
        return found, "value"
    place = np.minimum(np.searchsorted(envelope.steps, found.steps), len(envelope) - 1)
    there = (envelope.steps[place] == found.steps) & ~np.isnan(envelope.values[place])
    return replace(found, values=np.where(there, envelope.values[place], found.values)), bound


def candidates(metric: str) -> tuple[tuple[str, str], ...]:
    """The metric, then what stands in for a lag that the log does not separate (the total, else the discrepancy), each in words."""
    own = (metric, metric)
    if ".lag." not in metric:
        return (own,)
    total, discrepancy = (metric.replace(".lag.", f".{ratio}.") for ratio in ("total", "discrepancy"))
    return (
        own,
        (total, f"{total} (total: the lag cannot be separated in this log)"),
        (discrepancy, f"{discrepancy} (discrepancy: this log has neither the lag's nor the total's)"),
    )


def _flagged(found: Series, rule: Rule, metric: str, label: str, bound: str) -> Flagged:
    return Flagged(
        rule=rule,
        metric=metric,
        label=label,
        bound=bound,
        origin=found.origin,
        steps=int(found.steps.size),
        unknown=int(np.isnan(found.values).sum()),
        crossings=_stays(found, rule),
    )


def _stays(found: Series, rule: Rule) -> tuple[Crossing, ...]:
    """Stays beyond the threshold; `>` is `<` of the mirrored series, and the `=` forms move the threshold by one ulp."""
    mirrored = rule.comparison.startswith(">")
    sign = -1.0 if mirrored else 1.0
    threshold = sign * rule.threshold
    if rule.comparison.endswith("="):
        threshold = float(np.nextafter(threshold, np.inf))
    stays = crossings(found.steps, sign * found.values, threshold)
    return tuple(replace(stay, lowest=sign * stay.lowest) for stay in stays)


def what_to_record(metric: str) -> str:
    """The sentence for a metric that a log does not have."""
    head = f"{metric} cannot be told from this log"
    if metric.startswith(("ess.", "log_ratio.", "ratio.", "kl.", "clip_rate.")):
        return f"{head}; record rollout_logprob, same_weights_logprob and current_logprob for each token (monitor.record.Recorder)"
    return f"{head}; log it, or see the metric ids it does have with 'python -m monitor summarize'"
