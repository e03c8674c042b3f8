"""How text from a file is shown: run names are somebody else's, and every place that shows them has its own little language."""

from __future__ import annotations

import html
import re

# Control characters, line and paragraph separators, and the marks that turn the direction of the text after them.
INVISIBLE = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]+")
MARKDOWN = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~$:&@^=/\"'])")
# Where the page would make a link of bare text (GitHub's autolinks); a word joiner there keeps it text, escapes do not.
LINK = re.compile(r"(?<=:)(?=//)|(?<=www)(?=\.)|(?<=@)", re.IGNORECASE)
JOINER = "\u2060"  # has no width
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
LONGEST = 48  # characters of a run's name in a legend or a table


def plain(text: object, longest: int | None = None) -> str:
    """One visible line, cut in the middle when it is longer than `longest` (both ends of a run's name tell)."""
    line = " ".join(INVISIBLE.sub(" ", str(text)).split())
    if longest is None or len(line) <= longest:
        return line
    return f"{line[: longest - longest // 3 - 1]}…{line[-(longest // 3) :]}"


def for_plotly(text: object, longest: int | None = LONGEST) -> str:
    """Plotly reads a subset of HTML, `$…$` as a formula and `%{…}` as a variable; as entities all three are text."""
    return html.escape(plain(text, longest), quote=False).replace("$", "&#36;").replace("%", "&#37;")


def for_markdown(text: object, longest: int | None = None) -> str:
    """Every character that markdown, its formulas, icons and colours could read is preceded by a backslash; no address becomes a link."""
    return MARKDOWN.sub(r"\\\1", LINK.sub(JOINER, plain(text, longest)))


def for_html(text: object, longest: int | None = None) -> str:
    """Text inside an element or an attribute."""
    return html.escape(plain(text, longest), quote=True)


def for_csv(cell: object) -> object:
    """A spreadsheet runs text that starts like a formula; a leading apostrophe makes it text. Numbers stay numbers."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA_STARTS) else cell
