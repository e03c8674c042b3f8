"""What may be printed: names out of logs and paths may hold characters that command a terminal, forge a line, or turn the text around."""

from __future__ import annotations

import json
import unicodedata

_UNPRINTED = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})  # control, format (bidi too), half of a pair, line and paragraph separators
_JOINERS = frozenset("\u200c\u200d")  # scripts of India, Persian and emoji are written with them


def printable(line: str) -> str:
    """One line, with every such character as JSON escapes it; a line of JSON stays the same document."""
    if line.isascii() and line.isprintable():
        return line
    return "".join(_escaped(letter) for letter in line)


def printable_lines(text: str) -> str:
    """The same for a text of several lines."""
    return "\n".join(printable(line) for line in text.split("\n"))


def _escaped(letter: str) -> str:
    if unicodedata.category(letter) not in _UNPRINTED or letter in _JOINERS:
        return letter
    return json.dumps(letter)[1:-1] if letter != "\x7f" else "\\u007f"
