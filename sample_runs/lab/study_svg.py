"""Small figures for the study's page: a line over seeds' medians in a band from the smallest to the largest, panels side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from sample_runs.lab.study_bands import Band, number

WIDTH, HEIGHT, LEFT, TOP, BOTTOM, GAP = 330, 230, 48, 46, 34, 34
# Okabe and Ito's colours, which colour-blind readers can tell apart; dashes tell the lines apart in print.
INKS = (("#0072B2", ""), ("#D55E00", "6 3"), ("#009E73", "2 2"), ("#CC79A7", "8 3 2 3"), ("#E69F00", "4 2"), ("#56B4E9", "1 3"))
GREY = "#777777"

Line = Mapping[float, Band]


@dataclass(frozen=True, kw_only=True)
class Panel:
    """Lines over a common x; `quiet` is drawn as a grey band: the yardstick."""

    title: str
    lines: Mapping[str, Line]
    quiet: Line
    logarithmic: bool = False


def figure(panels: Sequence[Panel], x_label: str, y_label: str) -> str:
    """An SVG of panels side by side with one legend; all panels have the same y."""
    names = list(dict.fromkeys(name for panel in panels for name in panel.lines))
    bands = [band for panel in panels for line in (*panel.lines.values(), panel.quiet) for band in line.values()]
    logarithmic = panels[0].logarithmic
    low, high = min(band.low for band in bands), max(band.high for band in bands)
    low = max(low, high / 1e4) if logarithmic else min(low, 0.0)
    width, height = LEFT + len(panels) * (WIDTH + GAP), TOP + HEIGHT + BOTTOM + 18 * math.ceil(len(names) / 3)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">']
    parts += [f'<rect width="{width}" height="{height}" fill="white"/>', f'<text x="4" y="14">{escape(y_label)}</text>']
    for place, panel in enumerate(panels):
        parts += _panel(panel, names, LEFT + place * (WIDTH + GAP), (low, high))
    parts.append(f'<text x="{width / 2:.0f}" y="{TOP + HEIGHT + 30}" text-anchor="middle">{escape(x_label)}</text>')
    for place, name in enumerate(names):
        x, y = LEFT + (place % 3) * (width - LEFT) / 3, TOP + HEIGHT + BOTTOM + 14 + 18 * (place // 3)
        parts.append(f'<path d="M{x:.0f},{y - 4} h26" {_stroke(place)}/><text x="{x + 32:.0f}" y="{y}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _panel(panel: Panel, names: Sequence[str], left: float, extent: tuple[float, float]) -> list[str]:
    xs = sorted({x for line in (*panel.lines.values(), panel.quiet) for x in line})
    parts = [f'<text x="{left + WIDTH / 2:.0f}" y="{TOP - 8}" text-anchor="middle" font-weight="bold">{escape(panel.title)}</text>']

    def place(x: float, y: float) -> str:
        return f"{left + (x - xs[0]) / max(xs[-1] - xs[0], 1e-9) * WIDTH:.1f},{_height(y, extent, panel.logarithmic):.1f}"

    for tick in _ticks(extent, panel.logarithmic):
        y = _height(tick, extent, panel.logarithmic)
        parts.append(f'<path d="M{left},{y:.1f} h{WIDTH}" stroke="#dddddd"/>')
        parts.append(f'<text x="{left - 4}" y="{y + 4:.1f}" text-anchor="end">{number(tick)}</text>' if left == LEFT else "")
    parts += [f'<text x="{place(x, extent[0]).split(",")[0]}" y="{TOP + HEIGHT + 14}" text-anchor="middle">{x:g}</text>' for x in xs]
    parts.append(_area(panel.quiet, place, f'fill="{GREY}" fill-opacity="0.35"'))
    for name, line in panel.lines.items():
        ink = names.index(name)
        parts.append(_area(line, place, f'fill="{INKS[ink % len(INKS)][0]}" fill-opacity="0.14"'))
        parts.append(f'<path d="M{" L".join(place(x, band.mid) for x, band in sorted(line.items()))}" {_stroke(ink)}/>')
    return [part for part in parts if part]


def _area(line: Line, place, attributes: str) -> str:  # type: ignore[no-untyped-def] # noqa: ANN001 - a local function
    if not line:
        return ""
    there = [place(x, band.low) for x, band in sorted(line.items())]
    back = [place(x, band.high) for x, band in sorted(line.items(), reverse=True)]
    return f'<path d="M{" L".join([*there, *back])} Z" {attributes}/>'


def _height(value: float, extent: tuple[float, float], logarithmic: bool) -> float:  # noqa: FBT001 - of the panel
    low, high = extent
    value = min(max(value, low), high)
    share = math.log(value / low) / math.log(high / low) if logarithmic else (value - low) / (high - low)
    return TOP + HEIGHT * (1 - share)


def _ticks(extent: tuple[float, float], logarithmic: bool) -> list[float]:  # noqa: FBT001 - of the panel
    low, high = extent
    if logarithmic:
        powers = range(math.floor(math.log10(low)), math.floor(math.log10(high)) + 1)
        return [tick for power in powers for tick in (10.0**power, 2 * 10.0**power, 5 * 10.0**power) if low <= tick <= high]
    step = 10.0 ** math.floor(math.log10(high - low))
    step /= 5 if high - low < 2 * step else 1  # at least a few
    return [step * count for count in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _stroke(ink: int) -> str:
    colour, dash = INKS[ink % len(INKS)]
    return f'fill="none" stroke="{colour}" stroke-width="2"' + (f' stroke-dasharray="{dash}"' if dash else "")
