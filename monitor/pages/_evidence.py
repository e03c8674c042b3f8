"""The evidence of a finding as pictures: metrics over the steps with their thresholds, beside the reference; or a profile of its own."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from monitor.diagnosis.outcome import Curve, Evidence, Finding
from monitor.metrics import glossary
from monitor.pages._charts import BOTTOM, FONT, GAP, LEFT, RIGHT, TOP, Definitions, stack
from monitor.pages._colours import FAULT, Identity, Theme
from monitor.pages._curves import View, strip
from monitor.pages._escape import for_plotly, plain
from monitor.pages._panels import Panel
from monitor.pages._results import Shown
from monitor.pages._stretches import Stretch, mark

MOST_STRIPS = 3  # metrics over the steps that one finding draws; its sentences name the others
TALLER = 1.35  # than a strip of the overlay, which is wider
TITLE, MARGIN = 24, 8  # px: room for a strip's title; above the legend
PROFILE, LINE, LEGEND = 170, 17, 30  # px: drawing area of a profile, a line of its title, its legend
TITLE_WIDTH = 54  # characters of a line of a profile's title
FEW_POINTS = 40  # of a profile, each marked


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """A figure with its words."""

    figure: go.Figure
    alt: str
    legend_room: int  # px that the legend has


def drawings(found: Finding, one: Shown, references: Sequence[Shown], theme: Theme, definitions: Definitions) -> list[Drawing]:
    """The pictures of a finding's evidence: what is a metric of the frame in one figure, each profile in its own."""
    over_steps = _over_steps(found, one, references, theme, definitions)
    profiles = [_profile(each, each.curve, one.who, theme) for each in found.evidence if each.curve is not None and each.curve.x]
    return ([over_steps] if over_steps else []) + profiles


def _over_steps(found: Finding, one: Shown, references: Sequence[Shown], theme: Theme, definitions: Definitions) -> Drawing | None:
    view = View(threshold=_ess_threshold(found))
    seen: dict[str, Evidence] = {}
    for evidence in found.evidence:
        if evidence.curve is None and glossary.known(evidence.metric) and (evidence.metric not in seen or not evidence.unit):
            seen[evidence.metric] = evidence
    runs = [(one.who, one.frame)], [(each.who, each.frame) for each in references]
    strips = [strip(_panel(each), *runs, view) for each in seen.values()]
    drawn = [each for each in strips if each.candidates][:MOST_STRIPS]
    if not drawn:
        return None
    figure = mark(stack(drawn, view, theme, definitions), drawn, list(_since(found, one.who)), theme)
    _fit(figure)
    stated = [seen[each.panel.metrics[0]] for each in drawn]
    thresholds = [None if said.unit else said.threshold for said in stated]  # the axis is in the metric's own unit
    for row, (each, threshold) in enumerate(zip(drawn, thresholds, strict=True)):
        if threshold is not None and math.isfinite(threshold) and not each.panel.ess:
            figure.add_trace(_threshold(threshold, figure.layout.xaxis.range, row, theme, named=not row))
    told = [
        f"{each.panel.title}{'' if level is None else f', threshold {level:.4g}'}" for each, level in zip(drawn, thresholds, strict=True)
    ]
    beside = " beside its reference" if references else ""
    return Drawing(
        figure=figure, alt=f"{one.who.label}{beside} over the steps: {'; '.join(told)}.", legend_room=round(TALLER * GAP) - TITLE + MARGIN
    )


def _fit(figure: go.Figure) -> None:
    """A figure of few strips: taller, without ticks above, its legend right over the first title."""
    drawing = TALLER * (figure.layout.height - TOP - BOTTOM)
    figure.layout.height = MARGIN + BOTTOM + drawing
    figure.layout.margin.t = MARGIN
    figure.layout.xaxis2.showticklabels = False
    figure.layout.legend.y = 1 - (TALLER * GAP - TITLE) / drawing


def _ess_threshold(found: Finding) -> float:
    levels = [each.threshold for each in found.evidence if each.metric.startswith("ess.") and each.threshold is not None]
    return levels[0] if levels else View().threshold


def _panel(evidence: Evidence) -> Panel:
    row, ess = glossary.metric(evidence.metric), evidence.metric.startswith("ess.")
    title = f"{row.title[:1].upper()}{row.title[1:]}"
    return Panel(title=title, unit=row.unit, metrics=(evidence.metric,), ess=ess, digits=5, level=None if ess else row.no_mismatch)


def _since(found: Finding, who: Identity) -> Iterator[Stretch]:
    if found.since is not None:
        until = found.since if found.until is None else found.until
        yield Stretch(first=found.since, last=until if until > found.since else None, hue=FAULT, label="what is found", run=who.id)


def _threshold(level: float, ends: Sequence[float], row: int, theme: Theme, *, named: bool) -> dict[str, Any]:
    """A trace, not a shape, so that the axis makes room for it."""
    return {
        "type": "scatter",
        "x": list(ends),
        "y": [level, level],
        "xaxis": "x",
        "yaxis": "y" if row == 0 else f"y{row + 1}",
        "mode": "lines",
        "name": "threshold",
        "legendgroup": "threshold",
        "showlegend": named,
        "line": {"color": theme.ink, "width": 1.2, "dash": "dot"},
        "hovertemplate": "%{y:.4~g}  threshold<extra></extra>",
    }


def _profile(evidence: Evidence, curve: Curve, who: Identity, theme: Theme) -> Drawing:
    title = [for_plotly(line, None) for line in textwrap.wrap(plain(curve.y_title), TITLE_WIDTH)]
    room = LEGEND + len(title) * LINE + 6
    colour = who.hue.on(theme)
    marker = {"symbol": who.symbol, "size": 6, "color": colour, "maxdisplayed": 0 if len(curve.x) <= FEW_POINTS else FEW_POINTS}
    own = _line(curve, curve.y, for_plotly(who.label), {"color": colour, "width": 2}) | {"mode": "lines+markers", "marker": marker}
    traces = [own]
    if curve.expected:
        traces.append(_line(curve, curve.expected, "without the fault", {"color": theme.muted, "width": 1.4, "dash": "dash"}))
    layout = _profile_layout(curve, room, theme)
    note = {"xref": "paper", "yref": "paper", "x": 0, "y": 1, "xanchor": "left", "yanchor": "bottom", "yshift": 4, "showarrow": False}
    note |= {"align": "left", "text": f"<b>{'<br>'.join(title)}</b>", "font": {"size": 13, "color": theme.ink}}
    figure = go.Figure(data=traces, layout=layout | {"annotations": [note]})
    alt = f"{curve.y_title} over {curve.x_title} for {who.label}. {evidence.says}"
    return Drawing(figure=figure, alt=plain(alt), legend_room=LEGEND)


def _line(curve: Curve, y: Sequence[float], name: str, line: dict[str, Any]) -> dict[str, Any]:
    hover = f"%{{y:.4~g}} at %{{x:.4~g}}  {name}<extra></extra>"
    values = [value if math.isfinite(value) else None for value in y]
    return {"type": "scatter", "x": list(curve.x), "y": values, "mode": "lines", "name": name, "line": line, "hovertemplate": hover}


def _profile_layout(curve: Curve, room: int, theme: Theme) -> dict[str, Any]:
    axis = {"gridcolor": theme.grid, "zeroline": False, "tickfont": {"size": 11, "color": theme.muted}, "nticks": 7}
    x_title = {"text": for_plotly(curve.x_title, 80), "font": {"size": 12, "color": theme.muted}, "standoff": 6}
    legend = {"orientation": "h", "x": 0, "xanchor": "left", "y": 1 + (room - LEGEND) / PROFILE, "yanchor": "bottom"}
    font = {"family": FONT, "size": 12, "color": theme.ink}
    return {
        "height": PROFILE + room + BOTTOM,
        "margin": {"l": LEFT, "r": RIGHT, "t": room, "b": BOTTOM, "pad": 0},
        "paper_bgcolor": theme.page,
        "plot_bgcolor": theme.page,
        "font": font,
        "hovermode": "x",
        "hoverlabel": {"bgcolor": theme.card, "bordercolor": theme.grid, "font": font, "namelength": 24},
        "dragmode": "zoom",
        "modebar": {"orientation": "v", "bgcolor": "rgba(0,0,0,0)", "color": theme.muted, "activecolor": theme.ink},
        "xaxis": axis | {"title": x_title},
        "yaxis": axis,
        "showlegend": True,
        "legend": legend | {"font": {"size": 13, "color": theme.ink}, "bgcolor": "rgba(0,0,0,0)"},
    }
