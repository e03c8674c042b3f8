"""Where the overlay meets the page: one function, so that another way of drawing can take its place.

Streamlit 1.67 rebuilds a plotly chart whenever its figure changes. One stacked figure costs two thirds of as many charts, and brings the
crosshair.
"""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from monitor.pages._charts import Definitions, stack
from monitor.pages._curves import Strip, View
from monitor.pages._theme import theme

TOOLS = {
    "displaylogo": False,
    "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d"],
    "toImageButtonOptions": {"format": "svg", "filename": "ratiometer"},
}


def grid(key: str, strips: Sequence[Strip], *, view: View, definitions: Definitions) -> None:
    """Draw the strips as one figure in the theme that the viewer has chosen."""
    figure = stack(strips, view, theme(), definitions)
    st.plotly_chart(figure, key=key, theme=None, config=TOOLS, alt=alternative(strips, view))


def alternative(strips: Sequence[Strip], view: View) -> str:
    """The figure in words, for those who do not see it."""
    runs = dict.fromkeys(curve.who.label for strip in strips for curve in strip.curves)
    crossed = [f"{curve.who.label} in {strip.panel.title}" for strip in strips for curve in strip.curves if curve.stays]
    flagged = f"Under {view.threshold:g}: {', '.join(dict.fromkeys(crossed))}." if crossed else f"No ESS falls under {view.threshold:g}."
    titles = ", ".join(strip.panel.title for strip in strips)
    return f"{len(strips)} strips over {view.x_axis.value} ({titles}) for {', '.join(runs)}. {flagged} The tables below hold the values."
