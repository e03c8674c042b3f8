"""Where the overlay meets the page: one function that draws into the node it drew into before, so that zoom and eye stay where they are.

`st.plotly_chart` throws its chart away and builds another whenever the figure changes (Streamlit 1.67, streamlit#16052). So the figure
goes through two small components: the first carries plotly.js, taken from the installed plotly package, in a message that never changes
and is sent once; the second hands each new figure to `Plotly.react`, which changes only what differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import plotly
import plotly.graph_objects as go
import streamlit as st

from monitor.pages._charts import LEGEND_GAP, TOP, Definitions, stack
from monitor.pages._curves import Strip, View
from monitor.pages._firing_marks import NONE, Firings, shade, told
from monitor.pages._stretches import Stretch, mark
from monitor.pages._theme import theme

# The tools are a closed list: plotly.js 4 adds a button of its own that uploads the chart ("Share chart…", sendChartToCloud).
TOOLS = {
    "displaylogo": False,
    "responsive": True,
    "modeBarButtons": [["zoom2d", "pan2d", "resetScale2d", "toImage"]],
    "showSendToCloud": False,
    "plotlyServerURL": "",
    "toImageButtonOptions": {"format": "svg", "filename": "ratiometer"},
}
# Plotly's bundle names itself on the window or as moduleName, by how it is loaded.
ARRIVED = """
export default function () {
  window.ratiometerPlotly = window.Plotly || self.moduleName;
  window.dispatchEvent(new Event("ratiometer-plotly"));
}
"""
BUNDLE = (Path(plotly.__file__).parent / "package_data" / "plotly.min.js").read_text(encoding="utf-8")
DRAW = Path(__file__).with_name("_grid.js").read_text(encoding="utf-8")
# Styles are not isolated: plotly puts its own into the page's head, where a shadow root would not see them.
LIBRARY = st.components.v2.component("ratiometer_plotly", html="<span></span>", js=BUNDLE + ARRIVED, isolate_styles=False)
FIGURE = st.components.v2.component("ratiometer_grid", html='<div class="ratiometer-grid"></div>', js=DRAW, isolate_styles=False)


def grid(  # noqa: PLR0913 - what may lie over the strips
    key: str, strips: Sequence[Strip], *, view: View, definitions: Definitions, stretches: Sequence[Stretch] = (), firings: Firings = NONE
) -> None:
    """Draw the strips as one figure in the theme that the viewer has chosen; as with `draw`, plotly.js must be sent as well."""
    figure = shade(mark(stack(strips, view, theme(), definitions), strips, stretches, theme()), strips, firings, theme())
    draw(key, figure, " ".join(filter(None, (alternative(strips, view), *(stretch.told for stretch in stretches), told(strips, firings)))))


def draw(key: str, figure: go.Figure, alt: str, legend_room: int = TOP - LEGEND_GAP) -> None:
    """Draw one figure, of a fixed height, into the node of this key; the page must call `send_plotly` as well, once.

    Args:
        key: names the node.
        figure: with at least an empty list of annotations.
        alt: the figure in words, for those who do not see it.
        legend_room: px that a legend may take before the figure grows by it.
    """
    data = {"figure": figure.to_json(), "config": TOOLS, "height": int(figure.layout.height), "alt": alt}
    FIGURE(key=key, data=data | {"legendRoom": legend_room})


def send_plotly() -> None:
    """Send plotly.js, after the figures, which wait for it; by one name on all pages, so that it is sent once per session."""
    LIBRARY(key="overlay_library", height=1)


def alternative(strips: Sequence[Strip], view: View) -> str:
    """The figure in words, for those who do not see it."""
    runs = dict.fromkeys(curve.who.label for strip in strips for curve in strip.curves)
    crossed = [
        f"{curve.who.label} in {strip.panel.title}" for strip in strips for curve in strip.curves if any(map(view.touches, curve.stays))
    ]
    lines = sorted({under for strip in strips if strip.panel.ess and (under := view.under(strip.panel)) is not None})
    words = " or ".join(f"{line:g}" for line in lines) or f"{view.threshold:g}"
    flagged = f"Under {words}: {', '.join(dict.fromkeys(crossed))}." if crossed else f"No ESS falls under {words}."
    titles = ", ".join(strip.panel.title for strip in strips)
    return f"{len(strips)} strips over {view.x_axis.value} ({titles}) for {', '.join(runs)}. {flagged} The tables below hold the values."
