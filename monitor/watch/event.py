"""What a watch says: one thing that happened, as a line for people and as a document for programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class EventKind(StrEnum):
    """What happened."""

    RULES = "rules"  # which rules are asked: at the start, and when their file has changed
    WATCHING = "watching"  # a run has its first values
    WAITING = "waiting"  # there is nothing at a path yet
    NEVER = "never"  # a rule can never fire on a run
    TOLD = "told"  # a rule changed its state
    SENT = "sent"  # that arrived at a destination
    FAILED = "failed"  # that did not arrive, and will be tried again
    RESTARTED = "restarted"  # a run went back to an earlier step
    FINISHED = "finished"  # a log says that nothing more will come
    PROBLEM = "problem"  # something of a log was not read or not understood
    TROUBLE = "trouble"  # something cannot be read or kept at present; it is tried again
    OVER = "over"  # a trouble is over
    LOOKED = "looked"  # the one look that was asked for is over


@dataclass(frozen=True, kw_only=True)
class Event:
    """One thing that happened."""

    kind: EventKind
    at: float  # seconds since the epoch
    text: str
    run: str = ""  # its id, where it is about one
    detail: Mapping[str, Any] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """All of it as JSON has it."""
        return {"event": str(self.kind), "at": self.at, "run": self.run, "text": self.text, **self.detail}
