"""The mark of a run as a small picture beside its name, in the shape that plotly draws along its line.

Colours come again where there are many runs; the mark beside the name tells which line is whose. Shapes are polygons clipped out of a
coloured box, because the page takes no drawings (Streamlit 1.67 lets no SVG through `st.html`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import cos, pi, sin

from monitor.pages._colours import Identity, Theme

Points = Sequence[tuple[float, float]]  # from -1 to 1, y downwards


def chip(who: Identity, theme: Theme) -> str:
    """HTML of a run's mark in its colour."""
    return f"<span class='mark' style='background:{who.hue.on(theme)};clip-path:{clip(who.symbol)}'></span>"


def clip(symbol: str) -> str:
    """A plotly symbol as the value of CSS `clip-path`; `-open` leaves its middle out."""
    shape = SHAPES[symbol.removesuffix("-open")]
    if symbol.endswith("-open"):
        inner = [(0.5 * x, 0.5 * y) for x, y in shape]
        return f"polygon(evenodd,{_listed([*shape, shape[0], *inner, inner[0]])})"
    return f"polygon({_listed(shape)})"


def _listed(shape: Points) -> str:
    return ",".join(f"{50 + 50 * x:.0f}% {50 + 50 * y:.0f}%" for x, y in shape)


def _regular(corners: int, turn: float = 0.0, radii: Sequence[float] = (1.0,)) -> Points:
    """Corners around the middle, the first on top or `turn` corners further; several radii, one after the other, make a star."""
    angles = [2 * pi * (corner + turn) / corners for corner in range(corners)]
    return [(radii[n % len(radii)] * sin(angle), -radii[n % len(radii)] * cos(angle)) for n, angle in enumerate(angles)]


_SQUARE = ((-0.8, -0.8), (0.8, -0.8), (0.8, 0.8), (-0.8, 0.8))
_ARM = 0.36  # half the width of a cross's arm
_CROSS = (
    *((-_ARM, -1), (_ARM, -1), (_ARM, -_ARM), (1, -_ARM), (1, _ARM), (_ARM, _ARM)),
    *((_ARM, 1), (-_ARM, 1), (-_ARM, _ARM), (-1, _ARM), (-1, -_ARM), (-_ARM, -_ARM)),
)
SHAPES: dict[str, Points] = {
    "circle": _regular(24, radii=(0.9,)),
    "square": _SQUARE,
    "x": [(0.72 * (x - y), 0.72 * (x + y)) for x, y in _CROSS],
    "cross": _CROSS,
    "diamond": _regular(4),
    "diamond-tall": [(0.6 * x, y) for x, y in _regular(4)],
    "diamond-wide": [(x, 0.6 * y) for x, y in _regular(4)],
    "pentagon": _regular(5),
    "hexagon": _regular(6),
    "octagon": _regular(8, 0.5),
    "star": _regular(10, radii=(1, 0.4)),
    "star-square": _regular(8, 1.0, radii=(1, 0.45)),
    "star-diamond": _regular(8, radii=(1, 0.45)),
    "hexagram": _regular(12, radii=(1, 0.58)),
    "bowtie": ((-1, -0.8), (0, 0), (1, -0.8), (1, 0.8), (0, 0), (-1, 0.8)),
    "hourglass": ((-0.8, -1), (0.8, -1), (0, 0), (0.8, 1), (-0.8, 1), (0, 0)),
}
