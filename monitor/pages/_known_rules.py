"""What is known of the rules that fire: from the pages' own rule file, else from what the store has of what was told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from monitor.alerts.notification import Notification
from monitor.alerts.rule import AlertRule, Severity
from monitor.alerts.state import State


@dataclass(frozen=True, kw_only=True)
class Known:
    """The rules, and how those were told that fire; a watch may have them from another file."""

    rules: Mapping[str, AlertRule] = field(default_factory=dict)  # by id
    said: Mapping[tuple[str, str], Notification] = field(default_factory=dict)  # by rule and run

    def severity(self, state: State) -> Severity:
        """How urgent a state is; a warning where nothing is known."""
        rule, said = self.rules.get(state.rule), self.said.get((state.rule, state.run))
        return rule.severity if rule is not None else said.severity if said is not None else Severity.WARNING

    def what(self, state: State) -> str:
        """What to do; of a rule of another file the whole sentence that was told."""
        rule, said = self.rules.get(state.rule), self.said.get((state.rule, state.run))
        return rule.what if rule is not None else said.text if said is not None else ""
