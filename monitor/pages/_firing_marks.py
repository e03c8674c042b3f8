"""Where a rule fires, in the strips that draw its metric: a bar under the strip in the run's colour, and a shade above it.

The bar tells an alert from the shade of an ESS under its threshold, which begins where the value falls and not where a rule fires.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from monitor.alerts.rule import Severity
from monitor.pages._alerting import Firing
from monitor.pages._colours import Theme, faint
from monitor.pages._curves import Curve, Strip

BAR, APART, LANES = 0.05, 0.02, 3  # height of a bar and room before it, in heights of a strip; lanes before runs share them
SHADES = {Severity.WARNING: 0.07, Severity.CRITICAL: 0.13}  # opacity
EDGE = 0.5  # steps on either side, so that one step can be seen
MOST = 400  # bars in a figure; more are no picture

Firings = Mapping[str, Sequence[Firing]]  # by the id under which the page shows the run
NONE: Firings = {}


def shade(figure: go.Figure, strips: Sequence[Strip], firings: Firings, theme: Theme) -> go.Figure:
    """The figure of `strips` with the steps marked at which a rule fires."""
    made = [one for row, strip in enumerate(strips) for one in _of_strip(strip, row, firings, theme)]
    if made:
        figure.layout.shapes = [*figure.layout.shapes, *made[:MOST]]
    return figure


def told(strips: Sequence[Strip], firings: Firings) -> str:
    """In words, for those who do not see the figure."""
    counts = [
        f"{curve.who.label} {times(len(fired))} in {strip.panel.title}"
        for strip in strips
        for curve in strip.candidates
        if (fired := _on(curve, firings))
    ]
    return f"A rule fires on {'; '.join(counts)}." if counts else ""


def bars(strips: Sequence[Strip], firings: Firings) -> dict[str, int]:
    """How often a rule fires in the strips, by the run's label; runs in which none does are not there."""
    counts: dict[str, int] = {}
    for curve in (curve for strip in strips for curve in strip.candidates):
        counts[curve.who.label] = counts.get(curve.who.label, 0) + len(_on(curve, firings))
    return {label: count for label, count in counts.items() if count}


def times(count: int) -> str:
    """How often, in words."""
    return "once" if count == 1 else f"{count} times"


def _of_strip(strip: Strip, row: int, firings: Firings, theme: Theme) -> Iterator[dict[str, Any]]:
    fired = [(curve, found) for curve in strip.candidates if (found := _on(curve, firings))]
    axis = "y domain" if row == 0 else f"y{row + 1} domain"
    for lane, (curve, found) in enumerate(fired):
        top = -APART - (BAR + APART) * (lane % LANES)
        colour, half = curve.who.hue.on(theme), EDGE * _width(curve)
        for one in found:
            last = int(curve.steps[-1]) if one.last is None else one.last
            if not curve.reaches(one.first, last):
                continue
            place = {"type": "rect", "xref": "x", "yref": axis, "x0": curve.x_of(one.first) - half, "x1": curve.x_of(last) + half}
            plain = {"line": {"width": 0}, "layer": "below"}
            yield {**place, **plain, "y0": top - BAR, "y1": top, "fillcolor": faint(colour, 0.9), "name": f"fires {one.rule}"}
            if not strip.panel.ess:  # there the stay under the threshold is shaded already
                yield {**place, **plain, "y0": 0, "y1": 1, "fillcolor": faint(colour, SHADES[one.severity])}


def _on(curve: Curve, firings: Firings) -> list[Firing]:
    return [one for one in firings.get(curve.who.id, ()) if one.metric == curve.metric]


def _width(curve: Curve) -> float:
    return float(curve.x[-1] - curve.x[0]) / (curve.x.size - 1) if curve.x.size > 1 else 1.0
