"""How far each candidate lies from its reference, metric by metric, in distances between two of the reference's own seeds: a dot chart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from monitor.compare.headline import words
from monitor.compare.parity import PARITY, Parity
from monitor.pages._charts import FONT, RIGHT
from monitor.pages._colours import CLEAR, Identity, Theme, faint
from monitor.pages._escape import for_plotly, plain

ROW, TOP, BOTTOM = 26, 34, 46  # px
LEAST = 0.1  # what lies nearer is drawn here; a logarithmic axis has no 0
ROOM = 1.4  # factor between the farthest dot and the edge, where what is infinitely far is drawn
Yardsticks = Sequence[tuple[Identity, Sequence[Parity]]]


def parity_chart(found: Yardsticks, theme: Theme) -> go.Figure:
    """A dot per candidate and metric, the line at which parity ends, the side of parity shaded.

    Args:
        found: at least one candidate with at least one yardstick.
        theme: light or dark.
    """
    metrics = metrics_of(found)
    finite = [each.value for _, some in found for each in some if math.isfinite(each.value)]
    edge = ROOM * max([2 * PARITY, *finite])
    height = TOP + BOTTOM + ROW * len(metrics)
    data = [_dots(who, some, edge, theme) for who, some in found]
    return go.Figure(data=data, layout=_layout(height, metrics, edge, theme))


def metrics_of(found: Yardsticks) -> list[str]:
    """The metrics of any candidate, in the order in which they are compared."""
    return list(dict.fromkeys(each.metric for _, some in found for each in some))


def alternative(found: Yardsticks) -> str:
    """The chart in words."""
    worst = [(who.label, max(some, key=lambda each: each.value)) for who, some in found if some]
    told = "; ".join(f"{label} at most {each.value:.3g} times ({words(each.metric)})" for label, each in worst)
    return plain(f"Distance to the reference over the distance between two of its seeds, at most {PARITY:g} is parity: {told}.")


def parity_table(found: Yardsticks) -> pd.DataFrame:
    """A row per metric: its yardstick, and for each candidate the distance in yardsticks and in its own unit; not yet escaped."""
    rows = [_row(metric, found) for metric in metrics_of(found)]
    return pd.DataFrame(rows, columns=["metric", "between seeds", *(who.label for who, _ in found)])


def _row(metric: str, found: Yardsticks) -> list[str]:
    own = [next((each for each in some if each.metric == metric), None) for _, some in found]
    yardstick = next(each.yardstick for each in own if each is not None)
    cells = ["not compared" if each is None else f"{_times(each.value)} ({each.distance:.3g})" for each in own]
    return [words(metric), f"{yardstick:.3g}", *cells]


def _times(value: float) -> str:
    return "not told" if math.isnan(value) else "∞ ×" if math.isinf(value) else f"{value:.3g} ×"


def _dots(who: Identity, some: Sequence[Parity], edge: float, theme: Theme) -> dict[str, Any]:
    told = [each for each in some if not math.isnan(each.value)]
    hover = [f"{_times(each.value)}, {each.distance:.3g} against {each.yardstick:.3g}" for each in told]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": for_plotly(who.label),
        "x": [min(max(each.value, LEAST), edge / math.sqrt(ROOM)) for each in told],
        "y": [words(each.metric) for each in told],
        "customdata": hover,
        "marker": {"symbol": who.symbol, "size": 9, "color": who.hue.on(theme), "line": {"width": 1, "color": who.hue.on(theme)}},
        "hovertemplate": f"%{{y}}: %{{customdata}}  {for_plotly(who.label)}<extra></extra>",
        "cliponaxis": False,
    }


def _layout(height: int, metrics: Sequence[str], edge: float, theme: Theme) -> dict[str, Any]:
    ends = [math.log10(LEAST / ROOM), math.log10(edge)]
    font = {"family": FONT, "size": 12, "color": theme.ink}
    ticks = {"gridcolor": theme.grid, "zeroline": False, "tickfont": {"size": 11, "color": theme.muted}}
    title = {"text": "times the distance between two reference seeds", "font": {"size": 12, "color": theme.muted}, "standoff": 6}
    at = {"xref": "x", "yref": "paper", "y0": 0, "y1": 1, "layer": "below"}
    parity = {"type": "rect", **at, "x0": LEAST / ROOM, "x1": PARITY, "fillcolor": faint(CLEAR.on(theme), 0.1), "line": {"width": 0}}
    line = {"type": "line", **at, "x0": PARITY, "x1": PARITY, "line": {"color": theme.ink, "width": 1.2, "dash": "dot"}}
    note = {"xref": "x", "yref": "paper", "x": math.log10(PARITY), "y": 1, "xanchor": "right", "yanchor": "bottom", "showarrow": False}
    return {
        "height": height,
        "margin": {"l": 8, "r": RIGHT, "t": TOP, "b": BOTTOM, "pad": 4},
        "paper_bgcolor": theme.page,
        "plot_bgcolor": theme.page,
        "font": font,
        "hovermode": "closest",
        "hoverlabel": {"bgcolor": theme.card, "bordercolor": theme.grid, "font": font},
        "modebar": {"orientation": "v", "bgcolor": "rgba(0,0,0,0)", "color": theme.muted, "activecolor": theme.ink},
        "showlegend": False,
        "xaxis": ticks | {"type": "log", "range": ends, "dtick": 1, "title": title},
        "yaxis": ticks
        | {"categoryorder": "array", "categoryarray": [words(each) for each in metrics], "autorange": "reversed", "automargin": True}
        | {"tickfont": {"size": 12, "color": theme.ink}},
        "shapes": [parity, line],
        "annotations": [note | {"text": f"at most {PARITY:g} is parity", "font": {"size": 11, "color": theme.muted}}],
    }
