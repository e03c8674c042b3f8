"""Who is told, and how often logs are looked at: destinations, the resync signal, and the policy that holds them beside its rules."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from monitor.alerts.rule import NAME, AlertRule, PolicyError, Severity

_SIGNAL = "resync"  # id of the sink that asks trainers
_NOBODY = {"log", _SIGNAL}

_LAST_PORT = 65535
PORTS = f"a port from 1 to {_LAST_PORT}, or 0 for none"

Option = str | int | float | bool | tuple[str, ...] | Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class SinkSettings:
    """One destination as the file says it; what the options mean is its sink's business, and secrets are named there, never written."""

    name: str
    sink: str  # id of the sink: log, jsonl, webhook, apprise, wandb_alert, command, resync
    least: Severity = Severity.WARNING  # warnings are left out where it is critical
    rules: tuple[str, ...] = ("*",)  # globs over rule ids
    enabled: bool = True
    options: Mapping[str, Option] = field(default_factory=dict)  # every other key of its table

    def takes(self, rule: str, severity: Severity) -> bool:
        """Whether what a rule says goes there."""
        loud = severity is Severity.CRITICAL or self.least is Severity.WARNING
        return self.enabled and loud and any(fnmatchcase(rule, glob) for glob in self.rules)


@dataclass(frozen=True, kw_only=True)
class ResyncSettings:
    """Which rules ask the trainer to resynchronise the generator, and where it can ask; nothing is asked by default."""

    rules: tuple[str, ...] = ()  # globs over rule ids
    host: str = "127.0.0.1"
    port: int = 0  # of the small HTTP endpoint; 0 for none
    file: bool = True  # write resync.json into the run's folder

    def __post_init__(self) -> None:
        """Refuse what is no port.

        Raises:
            PolicyError: see above.
        """
        if not 0 <= self.port <= _LAST_PORT:
            raise PolicyError("resync, port", expected=PORTS, found=str(self.port), remedy="Choose a port that is free, for instance 8765.")

    def asks(self, rule: str) -> bool:
        """Whether a firing of this rule asks for a resync."""
        return any(fnmatchcase(rule, glob) for glob in self.rules)


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Everything a rule file says."""

    rules: tuple[AlertRule, ...] = ()
    sinks: tuple[SinkSettings, ...] = ()
    poll_s: float = 1.0
    resync: ResyncSettings = field(default_factory=ResyncSettings)
    comments: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # lines above a table, by "", "rule ID" or "sink NAME"

    def __post_init__(self) -> None:
        """Refuse two of one name, a name that cannot be shown everywhere, and an interval that is none.

        Raises:
            PolicyError: see above.
        """
        for kind, names in (("rule", [rule.id for rule in self.rules]), ("sink", [sink.name for sink in self.sinks])):
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise PolicyError(kind, expected="each name once", found=f"{twice[0]!r} twice", remedy="Rename one of them.")
        for sink in self.sinks:
            if not NAME.fullmatch(sink.name):
                expected = "letters, digits, dots, dashes and underscores, at most 80"
                raise PolicyError("sink, name", expected=expected, found=repr(sink.name)[:90], remedy="Rename it.")
        if not (math.isfinite(self.poll_s) and self.poll_s > 0):
            raise PolicyError("poll_s", expected="seconds above 0", found=repr(self.poll_s), remedy="Correct it.")

    def rules_for(self, run: str) -> tuple[AlertRule, ...]:
        """The rules in force for a run."""
        return tuple(rule for rule in self.rules if rule.applies(run))

    def sinks_for(self, rule: str, severity: Severity) -> tuple[str, ...]:
        """Names of the destinations that a rule's notifications go to."""
        return tuple(sink.name for sink in self.sinks if sink.takes(rule, severity))

    def people_for(self, rule: str, severity: Severity) -> tuple[str, ...]:
        """The same without those that tell nobody: the log of the process, which is there anyway, and the trainers' signal."""
        return tuple(sink.name for sink in self.sinks if sink.sink not in _NOBODY and sink.takes(rule, severity))

    def trainers_for(self, rule: str, severity: Severity) -> tuple[str, ...]:
        """Names of the resync signals among them."""
        return tuple(sink.name for sink in self.sinks if sink.sink == _SIGNAL and sink.takes(rule, severity))
