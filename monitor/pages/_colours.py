"""Which colour and mark a run has: fixed by the run, never by its place in a selection, and told apart without colour too.

Identity is colour, mark and label together, so that it survives print and colour-blindness. The dash of a line is not free for it:
dash and width say where a number comes from (`_charts.py`). Colours after Okabe and Ito (2008), lightened for the dark theme.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Hue:
    """One colour in both themes."""

    light: str
    dark: str

    def on(self, theme: Theme) -> str:
        """The colour for a theme."""
        return self.dark if theme.dark else self.light


@dataclass(frozen=True, kw_only=True)
class Theme:
    """What a figure is drawn with; backgrounds stay transparent."""

    dark: bool
    ink: str
    muted: str
    grid: str
    paper: str  # behind hover labels


@dataclass(frozen=True, kw_only=True)
class Identity:
    """How a run is told from the others."""

    label: str  # as the run calls itself; escape it where it is shown
    hue: Hue
    symbol: str  # plotly marker symbol; triangles are kept for crossings


LIGHT = Theme(dark=False, ink="#1B1F24", muted="#5F6975", grid="#E6E9ED", paper="#FFFFFF")
DARK = Theme(dark=True, ink="#E6EAEE", muted="#97A3AF", grid="#28303A", paper="#1B2128")

REFERENCE = Hue(light="#0072B2", dark="#56B4E9")
BROKEN = Hue(light="#D0451B", dark="#FF7043")
FIXED = Hue(light="#00875F", dark="#2FC497")
PARTLY = Hue(light="#B77E00", dark="#F0B429")
OTHERS = (
    (PARTLY, "square"),
    (Hue(light="#8E4FA8", dark="#C792EA"), "diamond"),
    (Hue(light="#3F6C73", dark="#7FB9C2"), "pentagon"),
    (Hue(light="#7A5C3E", dark="#C9A57B"), "hexagon"),
    (Hue(light="#B0558A", dark="#F29ACB"), "star"),
    (Hue(light="#4A55A2", dark="#9FA8F5"), "cross"),
    (Hue(light="#6B7280", dark="#AEB6C1"), "bowtie"),
)
# The picture people have in mind: reference blue, broken red, fixed green. Only our own sample runs have a colour by name.
NAMED = {"v1_broken": (BROKEN, "x"), "v1_fixed": (FIXED, "circle"), "v1_processed_logprobs": (PARTLY, "square")}


def identities(runs: Iterable[tuple[str, str]]) -> dict[str, Identity]:
    """Identity of each run (id, name), in the order they became known: a run that comes later never changes an earlier one's.

    With more runs than colours, colours are shared and labels alone tell them apart.
    """
    chosen: dict[str, Identity] = {}
    taken: set[int] = set()
    for run_id, name in runs:
        if name in NAMED:
            hue, symbol = NAMED[name]
        else:
            slot = _slot(name, taken)
            taken.add(slot)
            hue, symbol = OTHERS[slot]
        chosen[run_id] = Identity(label=name, hue=hue, symbol=symbol)
    return chosen


def _slot(name: str, taken: set[int]) -> int:
    """The name's own place in the palette, or the next free one."""
    first = zlib.crc32(name.encode()) % len(OTHERS)
    free = ((first + offset) % len(OTHERS) for offset in range(len(OTHERS)))
    return next((slot for slot in free if slot not in taken), first)


def faint(colour: str, opacity: float) -> str:
    """`#RRGGBB` as a translucent colour."""
    red, green, blue = (int(colour[start : start + 2], 16) for start in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity})"
