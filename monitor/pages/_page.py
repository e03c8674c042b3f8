"""What a page of the dashboard is: one file of this folder that ends in PAGE."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import streamlit as st
from streamlit.navigation.page import Page as StreamlitPage

from monitor.pages._library import Library


@dataclass(frozen=True, kw_only=True)
class Desk:
    """What a page works with."""

    library: Library
    pages: Mapping[str, StreamlitPage]  # by url path

    def go_to(self, url_path: str) -> None:
        """Show another page; not from one whose controls stand in its address, which Streamlit does not take back then."""
        st.switch_page(self.pages[url_path])

    def link_to(self, url_path: str, label: str, icon: str, **address: str) -> None:
        """Draw a link to another page.

        Args:
            url_path: the page's.
            label: markdown, already escaped.
            icon: an icon of Streamlit's.
            address: parameters of its address, by name.
        """
        st.page_link(self.pages[url_path], label=label, icon=icon, query_params=address)


@dataclass(frozen=True, kw_only=True)
class Page:
    """A place in the navigation."""

    title: str
    icon: str
    url_path: str
    show: Callable[[Desk], None]
    place: int = 9  # in the navigation, from the left; the page at 0 is where one arrives
