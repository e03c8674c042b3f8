"""What a page of the dashboard is: one file of this folder that ends in PAGE."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from monitor.pages._library import Library


@dataclass(frozen=True, kw_only=True)
class Desk:
    """What a page works with."""

    library: Library
    go_to: Callable[[str], None]  # url path of a page


@dataclass(frozen=True, kw_only=True)
class Page:
    """A place in the navigation."""

    title: str
    icon: str
    url_path: str
    show: Callable[[Desk], None]
