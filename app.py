"""The dashboard: `streamlit run app.py [-- PATH …]`. The only place that puts runs, pages and navigation together."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

import streamlit as st
from streamlit.navigation.page import Page as StreamlitPage

from ingest.discover import discover
from monitor.pages._boundary import bounded
from monitor.pages._library import open_library
from monitor.pages._page import Desk, Page
from monitor.pages._style import LOGO, STYLE


def main() -> None:
    """Open the runs and show the chosen page."""
    st.set_page_config(page_title="Ratiometer", page_icon="⚖️", layout="wide", initial_sidebar_state=288)
    st.html(STYLE)
    st.logo(LOGO, size="large")
    pages: list[Page] = sorted(discover("monitor.pages", "PAGE"), key=lambda page: page.place)
    places: dict[str, StreamlitPage] = {}
    for page in pages:
        places[page.url_path] = st.Page(_shown(page, places), title=page.title, icon=page.icon, url_path=page.url_path)
    st.navigation(list(places.values()), position="top").run()


def _shown(page: Page, places: Mapping[str, StreamlitPage]) -> Callable[[], None]:
    """What draws the page."""
    return bounded(page.title, lambda: page.show(Desk(library=open_library(sys.argv[1:]), pages=places)))


main()
