"""The overlay as one stacked figure: strips in, plotly figure out; nothing of streamlit.

All strips share one x axis id, which gives the crosshair over all of them; lines are SVG, never WebGL (a browser keeps 16 contexts
and blanks the rest silently). Solid lines are computed from tokens, thin ones believed from a log, dashed ones estimated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from monitor.pages._badges import badges
from monitor.pages._colours import Theme
from monitor.pages._curves import Strip, View
from monitor.pages._escape import for_plotly
from monitor.pages._panels import ratio_of
from monitor.pages._traces import REFERENCE_GROUP, of_candidate, of_references

STRIP, GAP = 92, 34  # px: drawing area of a strip, and the room for its title
TOP, BOTTOM = 40, 46  # px: legend and upper ticks; lower ticks and the axis title
LEGEND_GAP = 12  # px between the upper ticks' axis and the legend
LEFT, RIGHT = 64, 40  # px: fixed, so that strips keep their place when a value gets longer; on the right stand the tools
FONT = "Source Sans, Source Sans Pro, sans-serif"  # the dashboard's own; streamlit serves it from this machine
Layout = dict[str, Any]
Definitions = Mapping[str, Sequence[str]]  # lines by metric id


def stack(strips: Sequence[Strip], view: View, theme: Theme, definitions: Definitions) -> go.Figure:
    """One figure of all strips, the first on top.

    Args:
        strips: at least one.
        view: x axis, smoothing, threshold, scale.
        theme: light or dark.
        definitions: shown when the pointer is over a title.
    """
    height = TOP + BOTTOM + len(strips) * (STRIP + GAP)
    layout = _frame(height, theme, view)
    layout["xaxis"]["range"] = _range(strips)
    runs = dict.fromkeys(curve.who.id for strip in strips for curve in strip.curves)
    layout["legend"] = _legend(theme, above=1 + LEGEND_GAP / (height - TOP - BOTTOM)) | {"uirevision": " ".join(runs)}
    shapes: list[Layout] = []
    notes: list[Layout] = []
    for row, strip in enumerate(strips):
        top = _paper(row * (STRIP + GAP) + GAP, height)
        layout[_axis("yaxis", row)] = _y_axis(strip, view, theme, domain=(_paper((row + 1) * (STRIP + GAP), height), top))
        shapes += list(_levels(strip, row, view, theme))
        notes += list(_titles(strip, top, view, theme, definitions))
    return go.Figure(data=list(_traces(strips, view, theme)), layout={**layout, "shapes": shapes, "annotations": notes})


def _traces(strips: Sequence[Strip], view: View, theme: Theme) -> Iterator[Layout]:
    """Bands first, so that lines lie on them; each run is named once in the legend."""
    named: set[str] = set()
    stand_ins = {
        REFERENCE_GROUP if curve in strip.references else curve.who.id: ratio_of(curve.metric)
        for strip in strips
        for curve in strip.curves
        if curve.stands_in(strip.panel)
    }
    yield {"type": "scatter", "x": [None], "y": [None], "xaxis": "x2", "yaxis": "y", "showlegend": False, "hoverinfo": "skip"}
    for row, strip in enumerate(strips):
        axis = _axis("y", row)
        drawn = [*of_references(strip, view, theme)]
        for curve in strip.candidates:
            drawn += of_candidate(curve, strip, view, theme)
        for trace in drawn:
            group = trace["legendgroup"]
            shown = trace.pop("named", False) and group not in named
            named |= {group} if shown else set()
            if shown and group in stand_ins:
                trace["name"] += f" (ESS of the {stand_ins[group]})"
            yield {"type": "scatter", "xaxis": "x", "yaxis": axis, **trace, "showlegend": shown}


def _frame(height: int, theme: Theme, view: View) -> Layout:
    ticks = {"showgrid": True, "gridcolor": theme.grid, "zeroline": False, "ticks": "", "tickfont": {"size": 11, "color": theme.muted}}
    spike = {"showspikes": True, "spikemode": "across", "spikesnap": "hovered data", "spikethickness": 1, "spikedash": "solid"}
    x_axis = {**ticks, **spike, "spikecolor": theme.muted, "anchor": "free", "position": 0, "title": _x_title(view, theme)}
    return {
        "height": height,
        "uirevision": f"{view.x_axis.value} {view.first_step} {view.last_step}",  # a zoom is kept until the axis means something else
        "margin": {"l": LEFT, "r": RIGHT, "t": TOP, "b": BOTTOM, "pad": 0},
        "paper_bgcolor": theme.page,
        "plot_bgcolor": theme.page,
        "font": {"family": FONT, "size": 12, "color": theme.ink},
        "hovermode": "x",
        "hoversubplots": "axis",
        "hoverlabel": {
            "bgcolor": theme.card,
            "bordercolor": theme.grid,
            "font": {"family": FONT, "size": 12, "color": theme.ink},
            "namelength": 24,
        },
        "dragmode": "zoom",
        "modebar": {"orientation": "v", "bgcolor": "rgba(0,0,0,0)", "color": theme.muted, "activecolor": theme.ink},
        "xaxis": x_axis,
        "xaxis2": {**ticks, "overlaying": "x", "matches": "x", "side": "top", "anchor": "free", "position": 1, "showgrid": False},
    }


def _range(strips: Sequence[Strip]) -> list[float] | None:
    """The whole of the data and a little room, so that a mark on the first or last step is not cut."""
    ends = [end for strip in strips for curve in strip.curves if curve.x.size for end in (curve.x.min(), curve.x.max())]
    if not ends:
        return None
    least, most = float(min(ends)), float(max(ends))
    room = 0.012 * (most - least) or 0.5
    return [least - room, most + room]


def _x_title(view: View, theme: Theme) -> Layout:
    return {"text": view.x_axis.value, "font": {"size": 12, "color": theme.muted}, "standoff": 6}


def _legend(theme: Theme, above: float) -> Layout:
    """Above the upper ticks; where the page is narrow and it takes more lines, plotly widens the margin for it."""
    place = {"orientation": "h", "x": 0, "xanchor": "left", "y": above, "yanchor": "bottom"}
    return {**place, "font": {"size": 13, "color": theme.ink}, "bgcolor": "rgba(0,0,0,0)", "itemsizing": "trace", "traceorder": "normal"}


def _y_axis(strip: Strip, view: View, theme: Theme, domain: tuple[float, float]) -> Layout:
    logarithmic = view.log_y and strip.panel.positive
    axis: Layout = {
        "domain": domain,
        "anchor": "x",
        "uirevision": f"{strip.panel.title} {logarithmic} {view.x_axis.value}",
        "type": "log" if logarithmic else "linear",
        "gridcolor": theme.grid,
        "zeroline": False,
        "nticks": 6,
        "exponentformat": "e",
        "tickfont": {"size": 11, "color": theme.muted},
        "fixedrange": False,
    }
    if logarithmic:
        axis |= _decades(strip)
    if strip.panel.ess:  # an ESS lies in [0, 1]; a fixed range keeps the threshold where the eye expects it
        finite = [curve.raw[np.isfinite(curve.raw)] for curve in strip.curves]
        low, high = min(each.min(initial=0.0) for each in finite), max(each.max(initial=1.0) for each in finite)
        axis |= {"range": [1.04 * low - 0.04, 1.04 * high], "tickvals": [0, 0.5, 1] if (low, high) == (0, 1) else None}
    return axis


def _decades(strip: Strip) -> Layout:
    """Whole decades, so that every logarithmic strip has at least two labelled ticks and no crowd of small ones."""
    drawn = [values[np.isfinite(values) & (values > 0)] for curve in strip.curves for values in (curve.raw, curve.smooth)]
    ends = [end for values in drawn if values.size for end in (values.min(), values.max())] or [0.1, 1.0]
    low, high = math.floor(math.log10(min(ends))), math.ceil(math.log10(max(ends)))
    high = max(high, low + 1)
    return {"range": [low - 0.02, high + 0.02], "dtick": max(1, round((high - low) / 3)), "nticks": None}


def _levels(strip: Strip, row: int, view: View, theme: Theme) -> Iterator[Layout]:
    """The thresholds, on ESS strips and on those that rules read; and the value that means no mismatch."""
    dotted, thin = {"color": theme.ink, "width": 1.2, "dash": "dot"}, {"color": theme.muted, "width": 0.8}
    levels = [] if strip.panel.ess or strip.panel.level is None else [(strip.panel.level, thin)]
    levels += [(threshold, dotted) for threshold in view.thresholds(strip.panel)]
    for level, line in levels:
        across = {"xref": "paper", "x0": 0, "x1": 1, "yref": _axis("y", row), "y0": level, "y1": level}
        yield {"type": "line", **across, "line": line, "layer": "below"}


def _titles(strip: Strip, top: float, view: View, theme: Theme, definitions: Definitions) -> Iterator[Layout]:
    panel = strip.panel
    place = {"xref": "paper", "yref": "paper", "y": top, "yanchor": "bottom", "showarrow": False, "yshift": 2, "borderpad": 0}
    shown = dict.fromkeys(curve.metric for curve in strip.curves)
    about = "<br>".join(for_plotly(line, None) for metric in shown for line in definitions.get(metric, ()))
    unit = f"<span style='color:{theme.muted}'>  {for_plotly(panel.unit, None)}</span>"
    text = f"<b>{for_plotly(panel.title)}</b>{unit}"
    card = {"bgcolor": theme.card, "bordercolor": theme.muted, "font": {"family": FONT, "color": theme.ink, "size": 12}}
    hover = {"hovertext": about, "captureevents": bool(about), "hoverlabel": card}
    yield {**place, **hover, "x": 0, "xanchor": "left", "text": text, "font": {"size": 13, "color": theme.ink}}
    found = badges(strip, view)
    if found:
        lines = "<br>".join(for_plotly(line, None) for badge in found for line in badge.lines)
        small = {"font": {"size": 11, "color": theme.muted}, "hovertext": lines, "captureevents": True}
        short = f"⚠ {sum(sum(badge.counts.values()) for badge in found)}"  # shown where the page is narrow (`_grid.js`)
        told = f"⚠ {' · '.join(for_plotly(badge.text) for badge in found)}"
        yield {**place, **hover, **small, "name": short, "x": 1, "xanchor": "right", "text": told}


def _axis(name: str, row: int) -> str:
    return name if row == 0 else f"{name}{row + 1}"


def _paper(down: int, height: int) -> float:
    """A distance from the top of the first strip's title, in the figure's paper coordinate (1 at the top, 0 at the bottom)."""
    return max(0.0, 1 - down / (height - TOP - BOTTOM))
