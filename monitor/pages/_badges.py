"""What a strip cannot show as a line, counted run by run; nothing is left out of a chart, or looks impossible in it, without a word."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from monitor.metrics import glossary
from monitor.metrics.sanity import ROUNDING
from monitor.pages._curves import Curve, Strip, View


@dataclass(frozen=True, kw_only=True)
class Badge:
    """One kind of thing, with how often each run has it, by label; the counts are above 0."""

    what: str
    counts: dict[str, int]

    @property
    def text(self) -> str:
        """The total, with the run's name or the number of runs."""
        total = sum(self.counts.values())
        return (
            f"{total} {self.what}: {next(iter(self.counts))}"
            if len(self.counts) == 1
            else f"{total} {self.what} in {len(self.counts)} runs"
        )

    @property
    def lines(self) -> tuple[str, ...]:
        """A line for the kind, and one for each run."""
        return (f"{self.what}:", *(f"{count} {label}" for label, count in self.counts.items()))


def badges(strip: Strip, view: View) -> list[Badge]:
    """The badges of a strip."""
    counts: dict[str, dict[str, int]] = {}
    for curve in strip.curves:
        for what, count in _counted(curve, logarithmic=view.log_y and strip.panel.positive):
            if count:
                counts.setdefault(what, {})[curve.who.label] = count
    return [Badge(what=what, counts=by_run) for what, by_run in counts.items()]


def _counted(curve: Curve, *, logarithmic: bool) -> Iterator[tuple[str, int]]:
    yield "NaN or infinite", curve.not_finite
    if logarithmic:
        yield "at or under 0", int((curve.raw <= 0).sum())
    if glossary.known(curve.metric):
        row = glossary.metric(curve.metric)
        beyond = np.isfinite(curve.raw) & ((curve.raw < row.low - ROUNDING) | (curve.raw > row.high + ROUNDING))
        yield f"outside {_interval(row.low, row.high)}", int(beyond.sum())


def _interval(low: float, high: float) -> str:
    left = "(−∞" if low == -np.inf else f"[{low:g}"
    right = "∞)" if high == np.inf else f"{high:g}]"
    return f"{left}, {right}"
