"""How the words of a rule or a check are set on a page: they are written to stand inside a sentence of ours."""

from __future__ import annotations


def sentence(text: str) -> str:
    """With a capital letter, where one may stand, and a full stop."""
    return f"{capital(text)}{'' if text.endswith(('.', '!', '?')) else '.'}"


def capital(text: str) -> str:
    """With a capital letter, unless it begins with a name that is written otherwise."""
    first = text.split(maxsplit=1)[0] if text.split() else ""
    word = first.islower() and not any(mark in first for mark in "._=(")
    return f"{text[:1].upper()}{text[1:]}" if word else text
