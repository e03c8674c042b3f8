"""The sentences that are sent: what is so, at which step, compared with what, and what to do."""

from __future__ import annotations

from dataclasses import dataclass

from monitor.alerts._told import Event
from monitor.alerts.notification import Kind
from monitor.alerts.rule import AlertRule, Relation, RuleKind

_NAN = "Until it is a number again, this rule cannot tell whether it is beyond its threshold. Look at the first step that is not finite."


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a sentence is made of besides the event."""

    run: str
    name: str  # the metric that was read, in words
    step: int | None
    value: float | None
    threshold: float | None
    gone: str = ""  # why what was told is over, where no value says so
    firing: bool = False  # whether the rule fires after this batch
    last: bool = False  # no further notification of this rule will come for this run


def sentence(rule: AlertRule, event: Event, facts: Facts) -> str:
    """The text of one notification."""
    parts = [f"{facts.run}: {_what(rule, event, facts)}."]
    if event.skipped:
        parts.append(f"{event.skipped} earlier {'episode' if event.skipped == 1 else 'episodes'} came and went meanwhile.")
    if event.kind is not Kind.RESOLVED:
        parts.append(_NAN if event.kind is Kind.NAN else rule.what)
    if facts.last:
        more = "" if event.kind is Kind.RESOLVED else "; that it is over will not be told"
        parts.append(f"This is the last notification of rule {rule.id} for this run (cap {rule.cap}){more}.")
    return " ".join(part for part in parts if part)


def _what(rule: AlertRule, event: Event, facts: Facts) -> str:
    if event.kind is Kind.RESOLVED:
        return f"over: {facts.gone or _back(rule, event, facts)}"
    if event.kind is Kind.NAN:
        return f"{facts.name} is no number at step {facts.step}"
    still = "still: " if event.kind is Kind.REMINDER else ""
    if rule.kind is RuleKind.NO_DATA:
        seen = "nothing was ever logged" if facts.step is None else f"the last step is {facts.step}"
        return f"{still}nothing new for {rule.minutes:g} minutes, {seen}"
    if facts.value is None:
        return f"{still}{facts.name} is not finite, since step {facts.step}"
    since = "" if event.stay is None or event.stay.fired == facts.step else f" (since step {event.stay.first})"
    return f"{still}{facts.name} is {facts.value:.5g} at step {facts.step}{_compared(rule, facts)}{since}"


def _back(rule: AlertRule, event: Event, facts: Facts) -> str:
    began = "" if event.stay is None else f"; it began at step {event.stay.first}"
    if event.of_nan:
        return f"{facts.name} is a number again at step {facts.step}{began}" + (", and the rule is firing" if facts.firing else "")
    if rule.kind is RuleKind.NONFINITE:
        return f"every value is finite at step {facts.step}{began}"
    shown = "back" if facts.value is None else f"{facts.value:.5g}"
    return f"{facts.name} is {shown} at step {facts.step}{began}"


def _compared(rule: AlertRule, facts: Facts) -> str:
    if facts.threshold is None:
        return ""
    side = "under" if rule.comparison.falling else "over"
    if rule.relation is Relation.STANDARD_ERROR:
        side = "beyond"
    held = f" for {rule.hold} values in a row" if rule.hold > 1 else ""
    condition = "" if rule.relation is Relation.ABSOLUTE else f" ({rule})"
    return f", {side} {facts.threshold:.5g}{held}{condition}"
