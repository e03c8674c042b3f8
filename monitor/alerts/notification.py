"""What somebody is told, once: which rule, in which run, since when, and what to do."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Self

from monitor.alerts._plain import from_plain, plain
from monitor.alerts.rule import Severity

SILENCED = "silenced"  # why something is not told: somebody asked not to be told


class Kind(StrEnum):
    """Which change of state is told."""

    FIRING = "firing"  # beyond its threshold for as many values in a row as the rule holds
    RESOLVED = "resolved"  # what was told is over: back beyond the threshold of the way back, a number again, data again, or taken back
    NAN = "nan"  # the value is no number
    NO_DATA = "no_data"  # nothing new came for as long as the rule allows
    REMINDER = "reminder"  # it still lasts


@dataclass(frozen=True, kw_only=True)
class Notification:
    """One thing to be told. Numbers are in the unit of the metric; NaN is a value, None means that there is none to show."""

    rule: str
    run: str
    kind: Kind
    severity: Severity
    episode: str  # the same from firing to resolved
    text: str  # the sentence, with what to do
    step: int | None = None  # at which it changed
    value: float | None = None
    threshold: float | None = None  # what the value was compared with at this step
    metric: str = ""  # the metric that was read: the rule's own, or what stands in for a lag that cannot be separated
    origin: str = ""  # tokens, logged or estimated
    number: int = 0  # which reminder of its episode this is, from 1; 0 for what is no reminder
    at: float = 0.0  # seconds since the epoch

    @property
    def key(self) -> str:
        """No two that are told have the same."""
        return f"{self.episode}:{self.kind}" + (f":{self.number}" if self.number else "")

    @property
    def of_nan(self) -> bool:
        """Whether it is about a stretch without a number."""
        return self.episode.startswith(f"{self.rule}:{self.run}:nan:")

    def document(self) -> dict[str, Any]:
        """All of it as JSON has it; a number that is not finite is the text "nan", "inf" or "-inf"."""
        return {name: plain(value) if isinstance(value, float) else value for name, value in asdict(self).items()}

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(self.document(), allow_nan=False, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """What `to_json` wrote."""
        said: dict[str, Any] = json.loads(text)
        numbers = {name: from_plain(said[name]) for name in ("value", "threshold", "at")}
        return cls(**said | numbers | {"kind": Kind(said["kind"]), "severity": Severity(said["severity"])})
