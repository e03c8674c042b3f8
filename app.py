"""The dashboard: `streamlit run app.py [-- PATH …]`. The only place that puts runs, pages and navigation together."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping

import streamlit as st
from streamlit.navigation.page import Page as StreamlitPage

from ingest.discover import discover
from ingest.errors import RatiometerError
from monitor.pages._escape import for_markdown
from monitor.pages._library import open_library
from monitor.pages._page import Desk, Page
from monitor.pages._style import LOGO, STYLE

LOG = logging.getLogger("ratiometer")


def main() -> None:
    """Open the runs and show the chosen page."""
    st.set_page_config(page_title="Ratiometer", page_icon="⚖️", layout="wide", initial_sidebar_state=288)
    st.html(STYLE)
    st.logo(LOGO, size="large")
    pages: list[Page] = list(discover("monitor.pages", "PAGE"))
    places: dict[str, StreamlitPage] = {}
    for page in pages:
        places[page.url_path] = st.Page(_bounded(page, places), title=page.title, icon=page.icon, url_path=page.url_path)
    st.navigation(list(places.values()), position="top").run()


def _bounded(page: Page, places: Mapping[str, StreamlitPage]) -> Callable[[], None]:
    """The page behind the boundary at which any error becomes one sentence."""

    def run() -> None:
        try:
            page.show(Desk(library=open_library(sys.argv[1:]), pages=places))
        except RatiometerError as error:
            st.error(for_markdown(error))
        except Exception:  # the page's boundary: nobody is shown a traceback, and the log has it
            LOG.exception("the page %s failed", page.title)
            st.error(f"The page {page.title} failed in a way we did not foresee; the server's log has the details.")

    return run


main()
