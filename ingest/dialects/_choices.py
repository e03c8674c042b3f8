"""One setting out of the names it may have: as a number, as yes or no, as a word, or with the name it was found under."""

from __future__ import annotations

from collections.abc import Mapping

from ingest.run import Config

Value = str | int | float | bool

_WORDS = {"true": True, "false": False, "yes": True, "no": False, "1": True, "0": False}
_UNSET = ("", "none", "null")


def found(config: Config, names: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[Value, str]]:
    """Our settings, each from the first of the framework's names that is set to something.

    Args:
        config: the framework's settings.
        names: our setting -> the framework's names for it, the preferred first.
    """
    taken = {}
    for ours, theirs in names.items():
        for name in theirs:
            if name in config and str(config[name]).strip().lower() not in _UNSET:
                taken[ours] = (config[name], name)
                break
    return taken


def number(config: Config, *names: str) -> float | None:
    """The first of several settings that is a number; numbers written as text count."""
    for name in names:
        value = config.get(name)
        if isinstance(value, bool) or value is None:
            continue
        try:
            return float(value)
        except ValueError:
            continue
    return None


def truth(config: Config, *names: str) -> bool | None:
    """The first of several settings as yes or no; None where none is set."""
    for name in names:
        value = config.get(name)
        if isinstance(value, bool):
            return value
        if isinstance(value, (int, float)):
            return value != 0
        if isinstance(value, str) and value.strip().lower() in _WORDS:
            return _WORDS[value.strip().lower()]
    return None


def word(config: Config, *names: str) -> str:
    """The first of several settings as a word in lower case; "" where none is set, or set to none."""
    for name in names:
        if name in config:
            text = str(config[name]).strip().lower()
            return "" if text in _UNSET else text
    return ""
