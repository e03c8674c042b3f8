"""The pictures of the what-if page: the ESS of the ratio with the steps that would have resynchronised, and what each correction leaves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import plotly.graph_objects as go

from monitor.corrections.replay import LEVELS, THRESHOLD, Replay, Result
from monitor.metrics.crossings import crossings
from monitor.pages._charts import BOTTOM, FONT, LEFT, RIGHT
from monitor.pages._colours import BROKEN, FIXED, OTHERS, PARTLY, REFERENCE, SEEDS, Hue, Theme, faint
from monitor.pages._escape import for_plotly, plain
from monitor.pages._thin import Floats, kept_rows
from monitor.pages._what_if_rows import LEVEL_WORDS

DRAWING, TITLE, LEGEND = 190, 24, 30  # px: drawing area; room for the title; for the legend
FEW_POINTS, MARKS = 40, 24  # rows up to which each is marked; marks of a longer line
MOST_LINES = 8  # as many as can be told apart
LEVEL_LOOKS = ((SEEDS, "diamond-tall"), (BROKEN, "x"), (OTHERS[1][0], "pentagon"))
LOOKS: tuple[tuple[Hue, str], ...] = (
    (REFERENCE, "circle"),
    (FIXED, "square"),
    (PARTLY, "diamond"),
    (OTHERS[0][0], "star"),
    (OTHERS[1][0], "pentagon"),
    (OTHERS[3][0], "cross"),
    (OTHERS[5][0], "hexagon"),
    (OTHERS[9][0], "octagon"),
)  # triangles are kept for crossings
Trace = dict[str, Any]


def uncorrected(replay: Replay, theme: Theme) -> go.Figure:
    """ESS of the ratio itself at each level: shaded where it is under 1/2, marked where it falls and where it recovers."""
    traces: list[Trace] = []
    for level, (hue, symbol) in zip(LEVELS, LEVEL_LOOKS, strict=True):
        name, colour = f"{LEVEL_WORDS[level]} level", hue.on(theme)
        traces.append(_line(replay, replay.ess[level], name, colour, symbol))
        traces += _falls(replay, replay.ess[level], name, colour)
    traces.append(_half(replay, theme))
    return go.Figure(data=traces, layout=_layout(f"ESS of the {replay.ratio} ratio, uncorrected", replay, theme))


def corrected(replay: Replay, rows: Sequence[tuple[str, Result]], theme: Theme) -> go.Figure:
    """ESS that is left after each of at most eight corrections."""
    traces = []
    for (name, result), (hue, symbol) in zip(rows[:MOST_LINES], LOOKS, strict=False):
        bounds = f", {result.recipe.bounds}" if result.recipe.bounds else ""
        traces.append(_line(replay, result.values("ess"), f"{name}{bounds}", hue.on(theme), symbol))
    traces.append(_half(replay, theme))
    return go.Figure(data=traces, layout=_layout("ESS that is left after a correction", replay, theme))


def told_uncorrected(replay: Replay) -> str:
    """The first figure in words."""
    parts = []
    for level in LEVELS:
        steps = replay.resync(level)
        under = f"under 1/2 at {len(steps)} steps, first at step {steps[0]}" if steps else "never under 1/2"
        parts.append(f"{LEVEL_WORDS[level]} level {under}")
    return plain(f"ESS of the {replay.ratio} ratio over the steps: {'; '.join(parts)}.")


def told_corrected(rows: Sequence[tuple[str, Result]]) -> str:
    """The second figure in words."""
    parts = (f"{name} ({one.recipe.bounds or 'weight 1'}) at least {one.lowest_ess():.3g}" for name, one in rows[:MOST_LINES])
    return plain(f"ESS left over the steps after each correction: {'; '.join(parts)}. The table below holds the values.")


def _line(replay: Replay, values: Floats, name: str, colour: str, symbol: str) -> Trace:
    x = replay.steps.astype(float)
    rows = kept_rows(x, values)
    few = len(x) <= FEW_POINTS
    return {
        "type": "scatter",
        "x": x[rows],
        "y": values[rows],
        "name": for_plotly(name, None),
        "legendgroup": name,
        "mode": "lines+markers",
        "connectgaps": False,
        "line": {"color": colour, "width": 2},
        "marker": {"symbol": symbol, "size": 6, "color": colour, "maxdisplayed": 0 if few else MARKS},
        "hovertemplate": f"%{{y:.3~g}}  {for_plotly(name, None)}<extra></extra>",
        "hoverlabel": {"font": {"color": colour}},
    }


def _falls(replay: Replay, values: Floats, name: str, colour: str) -> Iterator[Trace]:
    """Read off every row, never off the thinned line."""
    stays = crossings(replay.steps, values, THRESHOLD)
    if not stays:
        return
    x: list[float | None] = []
    y: list[float | None] = []
    for stay in stays:
        left, right = stay.from_step - 0.5, stay.to_step + 0.5
        x += [left, left, right, right, left, None]
        y += [0, THRESHOLD, THRESHOLD, 0, 0, None]
    quiet = {"type": "scatter", "legendgroup": name, "name": for_plotly(name, None), "showlegend": False}
    fill = {"mode": "lines", "fill": "toself", "fillcolor": faint(colour, 0.12), "line": {"width": 0}, "hoverinfo": "skip"}
    yield {**quiet, **fill, "x": x, "y": y}
    at = {int(step): float(value) for step, value in zip(replay.steps, values, strict=True)}
    marks = [(stay.from_step, "triangle-down", "would resynchronise from step") for stay in stays]
    marks += [(stay.recovered_step, "triangle-up-open", "back above 1/2 at step") for stay in stays if stay.recovered_step is not None]
    yield {
        **quiet,
        "x": [step for step, _, _ in marks],
        "y": [at[step] for step, _, _ in marks],
        "customdata": [f"{words} {step}" for step, _, words in marks],
        "mode": "markers",
        "cliponaxis": False,
        "marker": {"symbol": [symbol for _, symbol, _ in marks], "size": 10, "color": colour, "line": {"width": 1.5, "color": colour}},
        "hovertemplate": "%{customdata}: %{y:.3~g}<extra></extra>",
        "hoverlabel": {"font": {"color": colour}},
    }


def _half(replay: Replay, theme: Theme) -> Trace:
    """The threshold; a trace, not a shape, which would lie under the grid line at the same place."""
    return {
        "type": "scatter",
        "x": list(_ends(replay)),
        "y": [THRESHOLD, THRESHOLD],
        "mode": "lines",
        "name": "1/2",
        "showlegend": False,
        "hoverinfo": "skip",
        "line": {"color": theme.ink, "width": 1.2, "dash": "dot"},
    }


def _ends(replay: Replay) -> tuple[float, float]:
    """Where the x axis begins and ends."""
    first, last = (float(replay.steps[0]), float(replay.steps[-1])) if len(replay.steps) else (0.0, 1.0)
    room = max(0.02 * (last - first), 0.6)
    return first - room, last + room


def _layout(title: str, replay: Replay, theme: Theme) -> Trace:
    axis = {"gridcolor": theme.grid, "zeroline": False, "tickfont": {"size": 11, "color": theme.muted}}
    font = {"family": FONT, "size": 12, "color": theme.ink}
    note = {"xref": "paper", "yref": "paper", "x": 0, "y": 1, "xanchor": "left", "yanchor": "bottom", "yshift": 4, "showarrow": False}
    x_title = {"text": "optimizer step", "font": {"size": 12, "color": theme.muted}, "standoff": 6}
    unit = f"<span style='color:{theme.muted}'>  share of the sample that still counts</span>"
    return {
        "height": LEGEND + TITLE + DRAWING + BOTTOM,
        "margin": {"l": LEFT, "r": RIGHT, "t": LEGEND + TITLE, "b": BOTTOM, "pad": 0},
        "paper_bgcolor": theme.page,
        "plot_bgcolor": theme.page,
        "font": font,
        "hovermode": "x",
        "hoverlabel": {"bgcolor": theme.card, "bordercolor": theme.grid, "font": font, "namelength": 40},
        "dragmode": "zoom",
        "modebar": {"orientation": "v", "bgcolor": "rgba(0,0,0,0)", "color": theme.muted, "activecolor": theme.ink},
        "xaxis": axis | {"range": list(_ends(replay)), "title": x_title},
        "yaxis": axis | {"range": [-0.04, 1.04], "tickvals": [0, 0.5, 1]},
        "showlegend": True,
        "legend": {
            "orientation": "h",
            "x": 0,
            "xanchor": "left",
            "y": 1 + TITLE / DRAWING,
            "yanchor": "bottom",
            "font": {"size": 13, "color": theme.ink},
            "bgcolor": "rgba(0,0,0,0)",
        },
        "annotations": [
            note | {"text": f"<b>{for_plotly(title, None)}</b>{unit}", "align": "left", "font": {"size": 13, "color": theme.ink}}
        ],
    }
