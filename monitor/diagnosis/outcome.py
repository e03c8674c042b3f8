"""What a rule can answer: it passed, it found its fault, or this log cannot tell and which column or setting would let it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from monitor.compare.layer import LAYERS, Layer

FEW_STEPS = 6  # as many as fit on a line


class Severity(StrEnum):
    """How much a finding matters; a note alone never makes a verdict."""

    NOTE = "note"
    WARNING = "warning"
    CRITICAL = "critical"


class Certainty(StrEnum):
    """What the answer stands on."""

    MEASURED = "measured from tokens"
    INDICATED = "indicated by the step log"
    SUSPECTED = "suspected from settings"


@dataclass(frozen=True, kw_only=True)
class Curve:
    """The picture of a piece of evidence, where it is not a metric over steps: a profile over something else, or points of a fit."""

    x: tuple[float, ...]
    y: tuple[float, ...]  # same length as x; NaN is a gap
    x_title: str
    y_title: str
    expected: tuple[float, ...] = ()  # what y would be without the fault, where that is known; same length


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """One number a sentence stands on."""

    metric: str  # metric id of the glossary, or the name of a statistic of the portrait
    says: str  # one sentence with the number in it
    value: float
    threshold: float | None = None  # None where the number only describes
    unit: str = ""  # of value and threshold, where they are not the metric itself but of it: times the reference, steps, standard errors
    source: str = ""  # where the threshold comes from
    steps: tuple[int, ...] = ()  # where it is seen; a few, or first and last; empty: over the whole run
    origin: str = "tokens"  # tokens, logged, estimated, settings or read problems
    curve: Curve | None = None


@dataclass(frozen=True, kw_only=True)
class Fix:
    """One thing to change."""

    change: str  # to be pasted, in the words of the user's own framework or engine where these are known
    where: str  # whose setting it is: a framework's file, an engine's argument, the trainer's code
    setting: str = ""  # our name of the setting; "" where it is code


@dataclass(frozen=True, kw_only=True)
class Passed:
    """The rule looked and its fault is not there."""

    says: str  # what was seen, in a sentence
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The rule's fault is there."""

    severity: Severity
    certainty: Certainty
    what: str  # one sentence: what is wrong, with its size
    why: str  # one or two sentences: why it matters, how it comes about
    fixes: tuple[Fix, ...]
    look_at: str  # what to look at to see that the change worked
    evidence: tuple[Evidence, ...]
    since: int | None = None  # first step at which it is seen
    until: int | None = None  # last; None: to the end, or not known
    apart_from: tuple[str, ...] = field(default=())  # neighbours it was told apart from, a sentence each
    only_a_size: bool = False  # the gap is large, and that is all: faults of earlier layers make it large as well


@dataclass(frozen=True, kw_only=True)
class Skipped:
    """The rule could not look, or another finding explains what it would see."""

    why: str  # what is missing, in a sentence
    record: tuple[str, ...] = ()  # columns, metrics or settings that would let it run


Outcome = Passed | Finding | Skipped

__all__ = ["LAYERS", "Certainty", "Curve", "Evidence", "Finding", "Fix", "Layer", "Outcome", "Passed", "Severity", "Skipped"]


def few(steps: tuple[int, ...]) -> tuple[int, ...]:
    """Steps that a piece of evidence names: all, or where they are many the first and last three."""
    return steps if len(steps) <= FEW_STEPS else (*steps[: FEW_STEPS // 2], *steps[-FEW_STEPS // 2 :])
