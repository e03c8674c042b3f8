"""What a rule is: one fault, the columns and settings it needs, its thresholds with their sources, and the check."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from monitor.diagnosis.case import Case
from monitor.diagnosis.outcome import Layer, Outcome

Check = Callable[[Case], Outcome]
PARTS = ("looks like", "why", "next", "neighbours", "source")  # paragraphs of a check's docstring, in this order


@dataclass(frozen=True, kw_only=True)
class Threshold:
    """A number a rule compares with."""

    value: float
    unit: str
    source: str  # field report, definitions section, paper; or how it was chosen


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One verdict. A file of `monitor/diagnosis/rules` ends in one of these, named RULE."""

    id: str  # <layer>_<verdict>, the name of its file
    layer: Layer
    title: str  # the fault, as a heading
    check: Check  # its docstring is shown to users: five paragraphs, see PARTS
    requires: tuple[tuple[str, ...], ...] = ()  # each group: one of these must be there ("tokens", "token:<column>", or a metric id)
    needs: tuple[str, ...] = ()  # settings (our names) that sharpen the answer
    thresholds: Mapping[str, Threshold] = field(default_factory=dict)
    after: tuple[str, ...] = ()  # ids of rules whose finding explains what this one would see
    keystone: bool = False  # its answer decides whether its layer is known
    last_resort: bool = False  # only asked where every earlier layer is known and clear

    @property
    def text(self) -> dict[str, str]:
        """The paragraphs of the check's docstring by part."""
        paragraphs = inspect.cleandoc(self.check.__doc__ or "").split("\n\n")
        return dict(zip(PARTS, (" ".join(paragraph.split()) for paragraph in paragraphs), strict=True))

    def missing(self, case: Case) -> tuple[str, ...]:
        """What of `requires` this log lacks: the first, preferred, alternative of each group that is not met."""
        return tuple(group[0] for group in self.requires if not any(case.has(name) for name in group))
