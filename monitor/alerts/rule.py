"""One rule as data: which metric, compared with what, for how long, and who cares how much.

How a file says it stands in `policy.py`, what a value is compared with in `levels.py`, what a rule does in `machine.py`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from unicodedata import normalize

from ingest.errors import ReadError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")  # of a rule or a destination: it becomes part of ids and file names
MOST_HELD = 1000  # steps in a row; half of what a state remembers (machine.HORIZON)


class PolicyError(ReadError):
    """Rules that cannot be: where (the line, where a file says it), what was expected, what was found, and what to do."""


class Comparison(StrEnum):
    """On which side of the threshold a value is beyond it."""

    BELOW = "<"
    AT_MOST = "<="
    ABOVE = ">"
    AT_LEAST = ">="

    @property
    def falling(self) -> bool:
        """Whether small values are the bad ones."""
        return self in {Comparison.BELOW, Comparison.AT_MOST}

    def beyond(self, value: float, threshold: float) -> bool:
        """Whether `value` is beyond `threshold`; a NaN never is, infinities compare as numbers."""
        if self is Comparison.BELOW:
            return value < threshold
        if self is Comparison.AT_MOST:
            return value <= threshold
        return value > threshold if self is Comparison.ABOVE else value >= threshold


class Severity(StrEnum):
    """How urgent a rule is; notes are no alerts."""

    WARNING = "warning"
    CRITICAL = "critical"


class Relation(StrEnum):
    """What the threshold is a multiple of."""

    ABSOLUTE = "absolute"  # of nothing: the value itself is compared
    FLOOR = "floor"  # of the run's own floor: the median of its first `floor_steps` finite values
    REFERENCE = "reference"  # of the reference's noise, counted from the reference's centre at the same step
    STANDARD_ERROR = "standard_error"  # of the value's own standard error, counted from `centre`, on either side
    LIMIT = "limit"  # of a setting of the run, for instance staleness.max_versions


class RuleKind(StrEnum):
    """What a rule looks at."""

    METRIC = "metric"  # one metric against a threshold
    NONFINITE = "nonfinite"  # any metric (a glob) that is NaN or infinite, and any count of non-finite tokens above 0
    NO_DATA = "no_data"  # no new step of any metric (a glob) for some minutes


@dataclass(frozen=True, kw_only=True)
class AlertRule:
    """One rule. Thresholds are in the unit of the metric, or multiples of what `relation` names; times are in seconds."""

    id: str
    what: str = ""  # one sentence for whoever is told: what to do
    kind: RuleKind = RuleKind.METRIC
    metric: str = "*"  # metric id; a glob for the kinds nonfinite and no_data
    comparison: Comparison = Comparison.BELOW
    threshold: float = 0.0
    relation: Relation = Relation.ABSOLUTE
    centre: float | None = None  # relation standard_error: where the value ought to be
    setting: str = ""  # relation limit: the run's setting, under our name
    floor_steps: int = 10  # relation floor: how many first finite values make the floor
    at_least: float = 0.0  # relations other than absolute and limit: smallest distance (floor: smallest value) that counts at all
    hold: int = 1  # values in a row beyond the threshold before it fires
    recover: float | None = None  # threshold of the way back, on the healthy side; the threshold itself where None
    minutes: float = 10.0  # kind no_data: how long nothing new may come
    severity: Severity = Severity.WARNING
    cooldown_s: float = 600.0  # least time between two firings that are told, per rule and run; 0 for none
    remind_s: float = 0.0  # told again while it lasts, at this interval; 0 for never
    runs: tuple[str, ...] = ("*",)  # globs over run ids
    cap: int = 50  # notifications of this rule for one run; the last one says that it is the last
    enabled: bool = True

    def __post_init__(self) -> None:
        """Refuse a rule that could not mean anything.

        Raises:
            PolicyError: a field is outside its range, or does not go with the others.
        """
        for name, expected, remedy in _objections(self):
            found = repr(getattr(self, name))[:80]
            raise PolicyError(f"rule {self.id!r}, {name}", expected=expected, found=found, remedy=remedy)

    @property
    def bounds(self) -> tuple[float, float]:
        """The threshold and that of the way back, in the units in which `levels.py` scores a value.

        Distances from a reference are signed, while the file gives their size and says the side by its comparison.
        """
        back = self.threshold if self.recover is None else self.recover
        sign = -1.0 if self.relation is Relation.REFERENCE and self.comparison.falling else 1.0
        return sign * self.threshold, sign * back

    def applies(self, run: str) -> bool:
        """Whether the rule is in force for a run, by its id."""
        return self.enabled and any(fnmatchcase(run, normalize("NFC", glob)) for glob in self.runs)  # as ids are

    def __str__(self) -> str:
        """The condition as one writes it down: `ess.lag.token < 0.5`."""
        if self.kind is RuleKind.NONFINITE:
            return f"{self.metric} is not finite"
        if self.kind is RuleKind.NO_DATA:
            return f"no new data ({self.metric}) for {self.minutes:g} minutes"
        return _CONDITION[self.relation].format(rule=self, side="below" if self.comparison.falling else "above")


_CONDITION = {
    Relation.ABSOLUTE: "{rule.metric} {rule.comparison} {rule.threshold:g}",
    Relation.FLOOR: "{rule.metric} {rule.comparison} {rule.threshold:g} × its own floor",
    Relation.REFERENCE: "{rule.metric} over {rule.threshold:g} × the reference's noise {side} the reference",
    Relation.STANDARD_ERROR: "|{rule.metric} - {rule.centre:g}| {rule.comparison} {rule.threshold:g} × its standard error",
    Relation.LIMIT: "{rule.metric} {rule.comparison} {rule.threshold:g} × {rule.setting}",
}
Objection = tuple[str, str, str]  # field, what was expected, remedy


def _objections(rule: AlertRule) -> Sequence[Objection]:
    """What is wrong with a rule, the first thing first."""
    numbers = ("threshold", "at_least", "minutes", "cooldown_s", "remind_s", *(("recover",) if rule.recover is not None else ()))
    found: list[Objection] = []
    if not NAME.fullmatch(rule.id):
        found.append(("id", "letters, digits, dots, dashes and underscores, at most 80", "Rename the rule."))
    found += [(name, "a finite number", "Correct it.") for name in numbers if not math.isfinite(getattr(rule, name))]
    found += [(name, "0 or more", "Correct it.") for name in ("at_least", "cooldown_s", "remind_s") if getattr(rule, name) < 0]
    if not 1 <= rule.hold <= MOST_HELD:
        found.append(("hold", f"from 1 to {MOST_HELD} values in a row", "Correct it."))
    if rule.cap < 1:
        found.append(("cap", "at least 1 notification", "Use enabled = false to switch a rule off."))
    if not rule.runs:
        found.append(("runs", "at least one glob", 'Use ["*"] for every run.'))
    return [*found, *(_of_metric(rule) if rule.kind is RuleKind.METRIC else _of_other(rule))]


def _of_metric(rule: AlertRule) -> Sequence[Objection]:
    """What only a rule on one metric can have wrong."""
    found: list[Objection] = []
    if not rule.metric or any(sign in rule.metric for sign in "*?["):
        found.append(("metric", "one metric id", "Globs are for the kinds nonfinite and no_data."))
    threshold, back = rule.bounds
    if back != threshold and rule.comparison.beyond(back, threshold):
        side = "above" if rule.comparison.falling and rule.relation is not Relation.REFERENCE else "below"
        found.append(("recover", f"{rule.threshold:g} or a value {side} it", "The way back lies on the healthy side."))
    if rule.relation is Relation.STANDARD_ERROR:
        if rule.centre is None or not math.isfinite(rule.centre):
            found.append(("centre", "where the value ought to be, 1 for a mean ratio", "Add it."))
        if rule.comparison.falling or rule.threshold <= 0:
            found.append(("comparison", "> or >= a positive number of standard errors", "The distance counts on either side."))
    if rule.relation is Relation.LIMIT and not rule.setting:
        found.append(("setting", "a setting of the run, for instance staleness.max_versions", "Add it."))
    if rule.relation is Relation.FLOOR and (rule.floor_steps < 1 or rule.floor_steps > MOST_HELD):
        found.append(("floor_steps", f"from 1 to {MOST_HELD} values", "Correct it."))
    if rule.relation is Relation.FLOOR and rule.threshold <= 0:
        found.append(("threshold", "a positive multiple of the floor", "Use relation absolute for a fixed value."))
    if rule.relation is Relation.REFERENCE and (rule.threshold < 0 or (rule.recover or 0) < 0):
        found.append(("threshold", "how many units of noise, at least 0", "The comparison says on which side."))
    return found


def _of_other(rule: AlertRule) -> Sequence[Objection]:
    """What only a rule on any metric can have wrong."""
    if rule.kind is RuleKind.NO_DATA and rule.minutes <= 0:
        return [("minutes", "more than 0 minutes", "Correct it.")]
    return [("relation", "none for this kind", "Remove it.")] if rule.relation is not Relation.ABSOLUTE else []
