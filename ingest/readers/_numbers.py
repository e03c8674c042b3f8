"""One cell or JSON value as a number: every spelling of NaN and infinity, and None for what is no number."""

from __future__ import annotations

import re

_WRAPPED = re.compile(r"(?:np|numpy)\.(?:float|int)\d+\((.*)\)\Z|tensor\((.*)\)\Z")
_WORDS = {"true": 1.0, "false": 0.0}


def number(text: str) -> float | None:
    """Read a text as a number: `1e-06`, ` NaN `, `-Infinity`, `true`, `np.float64(0.5)`; None where it is none of these."""
    text = text.strip()
    if wrapped := _WRAPPED.match(text):
        text = next(inner for inner in wrapped.groups() if inner is not None)
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if "_" in text or not text.isascii():  # Python would read 1_000 and other scripts' digits; nobody logs those
        return None
    try:
        return float(text)
    except ValueError:
        return None


def number_of(value: object) -> float | None:
    """Read a JSON value as a number: booleans are 0 and 1, texts as `number` has it; None for lists, and integers beyond a float."""
    if isinstance(value, str):
        return number(value)
    if not isinstance(value, (int, float)):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def whole(value: float | None) -> int | None:
    """Read a number as a step; None unless it is whole and fits 64 bits."""
    if value is None or not value.is_integer() or not -(2.0**63) <= value < 2.0**63:
        return None
    return int(value)
