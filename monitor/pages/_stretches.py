"""Which part of a figure a sentence is about: steps marked and shaded in the strips of a metric, or in all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from monitor.pages._colours import Hue, Theme, faint
from monitor.pages._curves import Curve, Strip

SHADE = 0.12  # opacity
EDGE = 0.5  # steps on either side, so that a stretch of one step can be seen


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """Steps to be marked: a line at the first, a shade to the last."""

    first: int
    last: int | None  # None: only the line
    hue: Hue
    label: str  # what is seen there, for those who do not see the figure
    metric: str = ""  # in the strips that draw it; "": in all
    run: str = ""  # id of the run whose metric it is; "": whichever

    @property
    def told(self) -> str:
        """In words, for those who do not see the figure."""
        until = "" if self.last is None or self.last == self.first else f" to step {self.last}"
        return f"Marked: {self.label}, from step {self.first}{until}."


def mark(figure: go.Figure, strips: Sequence[Strip], stretches: Sequence[Stretch], theme: Theme) -> go.Figure:
    """The figure of `strips` with the stretches in it; one that no strip shows is left out."""
    shapes = list(figure.layout.shapes)
    for stretch in stretches:
        for row, strip in enumerate(strips):
            curve = next((one for one in strip.curves if _about(stretch, one) and one.steps.size), None)
            if curve is not None:
                shapes += _shapes(stretch, curve, row, theme)
    figure.layout.shapes = shapes
    return figure


def _about(stretch: Stretch, curve: Curve) -> bool:
    return stretch.metric in ("", curve.metric) and stretch.run in ("", curve.who.id)


def _shapes(stretch: Stretch, curve: Curve, row: int, theme: Theme) -> Iterator[dict[str, Any]]:
    colour = stretch.hue.on(theme)
    place = {"xref": "x", "yref": f"{_axis(row)} domain", "y0": 0, "y1": 1, "layer": "below"}
    at = curve.x_of(stretch.first)
    yield {"type": "line", **place, "x0": at, "x1": at, "line": {"color": colour, "width": 1.4, "dash": "dash"}}
    if stretch.last is not None:
        half = EDGE * _step_width(curve)
        ends = {"x0": at - half, "x1": curve.x_of(stretch.last) + half}
        yield {"type": "rect", **place, **ends, "fillcolor": faint(colour, SHADE), "line": {"width": 0}}


def _axis(row: int) -> str:
    return "y" if row == 0 else f"y{row + 1}"


def _step_width(curve: Curve) -> float:
    return float(curve.x[-1] - curve.x[0]) / (curve.x.size - 1) if curve.x.size > 1 else 1.0
