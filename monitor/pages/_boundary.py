"""Where any error of a page becomes one sentence: around the page itself, and around each part of it that is drawn anew by itself."""

from __future__ import annotations

import logging
from collections.abc import Callable

import streamlit as st

from ingest.errors import RatiometerError
from monitor.pages._escape import for_markdown

LOG = logging.getLogger("ratiometer")


def bounded(title: str, run: Callable[[], None]) -> Callable[[], None]:
    """What draws a page, or a part of it, behind the boundary at which any error becomes one sentence.

    Args:
        title: the page's.
        run: draws it.
    """

    def draw() -> None:
        try:
            run()
        except RatiometerError as error:
            st.error(for_markdown(error))
        except Exception:  # the page's boundary: nobody is shown a traceback, and the log has it
            LOG.exception("the page %s failed", title)
            st.error(f"The page {title} failed in a way we did not foresee; the server's log has the details.")

    return draw


def part(title: str, key: str, run: Callable[[], None]) -> None:
    """Draw a part of a page that can be drawn anew by itself (`st.rerun` of its key)."""
    st.fragment(bounded(title, run), key=key)()
