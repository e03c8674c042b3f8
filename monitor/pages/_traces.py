"""The lines, bands, shades and marks of one run, or of the reference, in one strip."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from monitor.pages._colours import REFERENCE, Theme, faint
from monitor.pages._curves import Curve, Strip, View, band
from monitor.pages._escape import for_plotly
from monitor.pages._thin import kept_rows

Floats = npt.NDArray[np.float64]
Trace = dict[str, Any]

REFERENCE_GROUP = "reference"
WIDTH = {"tokens": 2.0, "logged": 1.1, "estimated": 1.6}  # px
DASH = {"tokens": "solid", "logged": "solid", "estimated": "4px,3px"}
SHADE, DEEPEST = 0.13, 0.25  # opacity while a run is under the threshold: of one, and of all that overlap
IN_LEGEND = 34  # characters of a name; a longer line would lie under the tools of a narrow figure
MARKS = 9  # identity marks along a line
EVERY_ROW_MARKED = 24  # a short series shows its points


def of_references(strip: Strip, view: View, theme: Theme) -> Iterator[Trace]:
    """The reference, quiet: a band over its seeds with a thin median, or one thin line; its crossings like everyone's."""
    if not strip.references:
        return
    colour = REFERENCE.on(theme)
    if len(strip.references) > 1:
        yield from _seeds(strip, view, theme, colour)
    else:
        yield from _single(strip.references[0], strip, view, colour)
    for curve in strip.references:
        yield from _flags(curve, strip, view, colour, REFERENCE_GROUP)


def of_candidate(curve: Curve, strip: Strip, view: View, theme: Theme) -> Iterator[Trace]:
    """A candidate, strong: its line with marks, raw values as a shadow behind it, shades and marks where it crosses."""
    colour, label = curve.who.hue.on(theme), for_plotly(curve.who.label)
    group = curve.who.id
    yield from _envelope(curve, strip, view, colour, group)
    if view.smoothing and curve.steps.size > 1:
        yield {**_points(curve.x, curve.raw, strip, view), **_quiet(group), "mode": "lines", "line": _shadow(strip, colour)}
    yield {
        **_points(curve.x, curve.smooth, strip, view),
        "legendgroup": group,
        "name": for_plotly(curve.who.label, IN_LEGEND),
        "named": True,
        "mode": "lines+markers",
        "connectgaps": False,
        "line": {"color": colour, "width": WIDTH[curve.origin], "dash": DASH[curve.origin]},
        "marker": _marks(curve, colour),
        **_hover(strip, label, colour),
    }
    yield from _flags(curve, strip, view, colour, group)
    yield from _ticks(curve, colour, group)


def _seeds(strip: Strip, view: View, theme: Theme, colour: str) -> Iterator[Trace]:
    x, low, median, high = band(strip.references)
    if not x.size:
        return
    label = f"reference, {len(strip.references)} seeds"
    yield {**_polygon(x, low, high, strip, view), **_quiet(REFERENCE_GROUP), **_fill(colour, 0.3 if theme.dark else 0.2)}
    yield {**_points(x, median, strip, view), **_reference_line(label, colour, strip)}


def _single(curve: Curve, strip: Strip, view: View, colour: str) -> Iterator[Trace]:
    yield from _envelope(curve, strip, view, colour, REFERENCE_GROUP)
    if view.smoothing and curve.steps.size > 1:
        yield {**_points(curve.x, curve.raw, strip, view), **_quiet(REFERENCE_GROUP), "mode": "lines", "line": _shadow(strip, colour)}
    yield {
        **_points(curve.x, curve.smooth, strip, view),
        **_reference_line(f"reference: {for_plotly(curve.who.label, IN_LEGEND)}", colour, strip),
    }


def _hover(strip: Strip, label: str, colour: str) -> Trace:
    template = f"%{{y:.{strip.panel.digits}~g}}  {label}<extra></extra>"
    return {"hovertemplate": template, "hoverlabel": {"font": {"color": colour}}}


def _reference_line(label: str, colour: str, strip: Strip) -> Trace:
    return {
        "legendgroup": REFERENCE_GROUP,
        "name": label,
        "named": True,
        "mode": "lines",
        "line": {"color": colour, "width": WIDTH["logged"], "dash": DASH[strip.references[0].origin]},
        **_hover(strip, "reference", colour),
    }


def _shadow(strip: Strip, colour: str) -> Trace:
    """Raw values behind the smoothed ones; plainer where crossings are read off them."""
    return {"color": faint(colour, 0.55 if strip.panel.ess else 0.35), "width": 0.9}


def _envelope(curve: Curve, strip: Strip, view: View, colour: str, group: str) -> Iterator[Trace]:
    if curve.envelope is not None:
        yield {**_polygon(curve.x, *curve.envelope, strip, view), **_quiet(group), **_fill(colour, 0.15)}


def _flags(curve: Curve, strip: Strip, view: View, colour: str, group: str) -> Iterator[Trace]:
    """A shade while the raw value is under the threshold, a mark on the step it falls and on the step it recovers."""
    under = view.under(strip.panel)
    if not curve.stays or under is None:
        return
    half = float(np.median(np.diff(curve.x))) / 2 if curve.x.size > 1 else 0.5
    stays = [stay for stay in curve.stays if curve.reaches(stay.from_step, stay.to_step)]
    x: list[float | None] = []
    y: list[float | None] = []
    for stay in stays:
        left, right = curve.x_of(stay.from_step) - half, curve.x_of(stay.to_step) + half
        x += [left, left, right, right, left, None]
        y += [0, under, under, 0, 0, None]
    yield {"x": x, "y": y, **_quiet(group), **_fill(colour, shade(sum(bool(one.stays) for one in strip.curves)))}
    steps: list[tuple[int, str]] = [(stay.from_step, "triangle-down") for stay in curve.stays]
    steps += [(stay.recovered_step, "triangle-up-open") for stay in curve.stays if stay.recovered_step is not None]
    yield _crossing_marks(curve, [(step, symbol) for step, symbol in steps if curve.reaches(step, step)], colour, group)


def _ticks(curve: Curve, colour: str, group: str) -> Iterator[Trace]:
    """A thin upright tick where the run was resumed from an earlier step."""
    steps = [step for step in curve.seams if curve.reaches(step, step)]
    if steps:
        yield {
            "x": [curve.x_of(step) for step in steps],
            "y": [curve.raw_at(step) for step in steps],
            "customdata": [f"resumed at step {step}" for step in steps],
            "legendgroup": group,
            "name": for_plotly(curve.who.label),
            "mode": "markers",
            "marker": {"symbol": "line-ns", "size": 14, "color": colour, "line": {"width": 1, "color": colour}},
            "hovertemplate": "%{customdata}<extra></extra>",
            "hoverlabel": {"font": {"color": colour}},
        }


def shade(runs: int) -> float:
    """Opacity of one run's shade, so that those of all runs over one another stay as light as `DEEPEST`."""
    return min(SHADE, 1.0 - float((1 - DEEPEST) ** (1 / runs)))


def _crossing_marks(curve: Curve, steps: Sequence[tuple[int, str]], colour: str, group: str) -> Trace:
    words = {"triangle-down": "▼ step", "triangle-up-open": "△ step"}
    return {
        "x": [curve.x_of(step) for step, _ in steps],
        "y": [curve.raw_at(step) for step, _ in steps],
        "customdata": [f"{words[symbol]} {step}" for step, symbol in steps],
        "legendgroup": group,
        "name": for_plotly(curve.who.label),
        "mode": "markers",
        "cliponaxis": False,
        "marker": {"symbol": [symbol for _, symbol in steps], "size": 9, "color": colour, "line": {"width": 1.5, "color": colour}},
        "hovertemplate": "%{customdata}: %{y:.3~g}<extra></extra>",
        "hoverlabel": {"font": {"color": colour}},
    }


def _marks(curve: Curve, colour: str) -> Trace:
    few = curve.steps.size <= EVERY_ROW_MARKED
    return {"symbol": curve.who.symbol, "size": 5.5, "color": colour, "maxdisplayed": 0 if few else MARKS}


def _points(x: Floats, y: Floats, strip: Strip, view: View) -> Trace:
    """The drawn rows of a line; what is not finite, or not on a log axis, becomes a gap."""
    drawable = np.isfinite(y) & ((y > 0) | (not _logarithmic(strip, view)))
    shown = np.where(drawable, y, np.nan)
    rows = kept_rows(x, shown)
    return {"x": x[rows], "y": shown[rows]}


def _logarithmic(strip: Strip, view: View) -> bool:
    return view.log_y and strip.panel.positive


def _polygon(x: Floats, low: Floats, high: Floats, strip: Strip, view: View) -> Trace:
    """An area between two curves over their finite rows; on a log axis its lower edge ends at the lowest value that can be drawn."""
    known = np.flatnonzero(np.isfinite(low) & np.isfinite(high))
    rows = known[np.union1d(kept_rows(x[known], low[known]), kept_rows(x[known], high[known]))]
    under = low[rows]
    if _logarithmic(strip, view):
        drawable = [curve.raw[curve.raw > 0].min(initial=np.inf) for curve in strip.curves]
        under = np.maximum(under, min(drawable))
    return {"x": np.concatenate((x[rows], x[rows][::-1])), "y": np.concatenate((under, high[rows][::-1]))}


def _fill(colour: str, opacity: float) -> Trace:
    return {"mode": "lines", "fill": "toself", "fillcolor": faint(colour, opacity), "line": {"width": 0, "color": colour}}


def _quiet(group: str) -> Trace:
    return {"legendgroup": group, "name": group, "hoverinfo": "skip"}
