"""Settings that a log holds beside its numbers: nested objects become flat dotted keys; what could be a secret is left out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from ingest.readers._rows import clean

_DEEPEST = 20
_MOST = 20_000  # the largest public configuration has as many keys
_SECRET = ("token", "api_key", "apikey", "password", "secret")  # ends of names


def settings_of(table: Mapping[str, object], prefix: str = "") -> dict[str, str | int | float | bool]:
    """Flatten an object of settings: lists become text, nulls are left out."""
    found: dict[str, str | int | float | bool] = {}
    for key, value in _flat(table, prefix, 0):
        if len(found) >= _MOST:
            break
        if not (isinstance(value, str) and key.lower().endswith(_SECRET)):
            found[clean(key)] = clean(value) if isinstance(value, str) else value
    return found


def settings_text(text: str, prefix: str = "") -> dict[str, str | int | float | bool] | None:
    """Read a text as settings; None where it is no JSON object."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return settings_of(value, prefix) if isinstance(value, dict) else None


def _flat(table: Mapping[str, object], prefix: str, depth: int) -> Iterator[tuple[str, str | int | float | bool]]:
    for key, value in table.items():
        if isinstance(value, dict) and depth < _DEEPEST:
            yield from _flat(value, f"{prefix}{key}.", depth + 1)
        elif isinstance(value, (str, bool, int, float)):
            yield f"{prefix}{key}", value
        elif value is not None:
            yield f"{prefix}{key}", str(value)
