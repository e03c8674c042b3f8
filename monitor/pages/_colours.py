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
    """What a figure is drawn with."""

    dark: bool
    ink: str
    muted: str
    grid: str
    page: str  # the page's background, as in .streamlit/config.toml; on a transparent one plotly takes white for granted
    card: str  # behind hover labels


@dataclass(frozen=True, kw_only=True)
class Identity:
    """How a run is told from the others."""

    id: str  # the run's
    label: str  # as the run calls itself; escape it where it is shown
    hue: Hue
    symbol: str  # plotly marker symbol; triangles are kept for crossings


LIGHT = Theme(dark=False, ink="#1B1F24", muted="#5F6975", grid="#E6E9ED", page="#FFFFFF", card="#FFFFFF")
DARK = Theme(dark=True, ink="#E6EAEE", muted="#97A3AF", grid="#28303A", page="#12161B", card="#1B2128")

# States; each is told by a mark and a word as well.
FAULT = Hue(light="#B3261E", dark="#FF8A80")
WARNING = Hue(light="#8A5A00", dark="#F0B429")
CLEAR = Hue(light="#00734F", dark="#2FC497")

REFERENCE = Hue(light="#0072B2", dark="#56B4E9")
BROKEN = Hue(light="#D0451B", dark="#FF7043")
FIXED = Hue(light="#00875F", dark="#2FC497")
PARTLY = Hue(light="#B77E00", dark="#F0B429")
SEEDS = Hue(light="#4A55A2", dark="#9FA8F5")
OTHERS = (
    (Hue(light="#8E4FA8", dark="#C792EA"), "diamond"),
    (Hue(light="#3F6C73", dark="#7FB9C2"), "pentagon"),
    (Hue(light="#7A5C3E", dark="#C9A57B"), "hexagon"),
    (Hue(light="#B0558A", dark="#F29ACB"), "star"),
    (Hue(light="#76751A", dark="#C9C44B"), "cross"),
    (Hue(light="#6B7280", dark="#AEB6C1"), "bowtie"),
    (Hue(light="#0A8FA0", dark="#4DD0E1"), "hourglass"),
    (Hue(light="#30363D", dark="#DDE3E9"), "hexagram"),
    (Hue(light="#9C6B98", dark="#CFA6CC"), "star-diamond"),
    (Hue(light="#4F7A28", dark="#A3CF6B"), "octagon"),
    (Hue(light="#6A3DE8", dark="#A98BFF"), "star-square"),
    (Hue(light="#8C2D4B", dark="#E0809B"), "circle-open"),
)  # as many as runs may be laid over a reference, so that the first dozen of somebody's runs have a colour each
# The picture people have in mind: reference blue, broken red, fixed green. Only our own sample runs have a colour by name.
NAMED = {
    "v1_broken": (BROKEN, "x"),
    "v1_processed_logprobs": (PARTLY, "square"),
    "v1_fixed": (FIXED, "circle"),
    "v0_reference_seed0": (SEEDS, "diamond-tall"),
    "v0_reference_seed1": (SEEDS, "diamond-wide"),
    "v0_reference_seed2": (SEEDS, "pentagon"),
}
# Samples with one fault each; they leave the palette to the runs of the user.
ONE_FAULT = {
    "v1_raw_logprobs_only": (OTHERS[0][0], "square-open"),
    "v1_prefix_cache_only": (OTHERS[4][0], "diamond-open"),
    "v1_bf16_head_only": (OTHERS[2][0], "x-open"),
    "v1_async_only": (OTHERS[6][0], "cross-open"),
}


def identities(runs: Iterable[tuple[str, str, bool]]) -> dict[str, Identity]:
    """Identity of each run (id, name, whether it is one of our samples), in the order they became known.

    A run that comes later never changes an earlier one's.

    With more runs than colours, colours come again with another mark.
    """
    ours = NAMED | ONE_FAULT
    chosen: dict[str, Identity] = {}
    taken: list[int] = []
    for run_id, name, sample in runs:
        if sample and name in ours:
            hue, symbol = ours[name]
        else:
            hue, symbol = _next(name, taken)
        chosen[run_id] = Identity(id=run_id, label=name, hue=hue, symbol=symbol)
    return chosen


def _next(name: str, taken: list[int]) -> tuple[Hue, str]:
    """The name's own place in the palette, or the next free one of this round.

    Each round moves the marks on by one colour; when every pair has been given, open marks take turns with filled ones.
    """
    size = len(OTHERS)
    turn, first = len(taken) // size, zlib.crc32(name.encode()) % size
    used = taken[turn * size :]
    slot = next(place % size for place in range(first, first + size) if place % size not in used)
    taken.append(slot)
    symbol = OTHERS[(slot + turn) % size][1]
    return OTHERS[slot][0], symbol if turn // size % 2 == 0 else _opened(symbol)


def _opened(symbol: str) -> str:
    """The open form of a mark; of an open one the filled form."""
    return symbol.removesuffix("-open") if symbol.endswith("-open") else f"{symbol}-open"


def faint(colour: str, opacity: float) -> str:
    """`#RRGGBB` as a translucent colour."""
    red, green, blue = (int(colour[start : start + 2], 16) for start in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity})"
