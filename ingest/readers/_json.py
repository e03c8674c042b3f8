"""One line of JSON as flat values: what cannot be parsed is None, whatever the reason."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ingest.readers._numbers import number_of, whole

_MAX_DEPTH = 50  # of nested objects; beyond that a line is data of another kind
_INT64 = 2**63


def parsed(line: bytes) -> dict[str, Any] | None:
    """Parse one line as a JSON object; NaN and Infinity are taken as they stand.

    None for broken UTF-8, broken JSON, another type than an object, brackets nested deeper than Python follows,
    and integers of more digits than Python converts.
    """
    try:
        value = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError):  # UnicodeDecodeError and JSONDecodeError are ValueErrors
        return None
    return value if isinstance(value, dict) else None


def leaves(values: Mapping[str, Any], prefix: str = "", depth: int = 0) -> Iterator[tuple[str, object]]:
    """Yield key and value of everything that is no object; keys of nested objects are joined with "/"."""
    for key, value in values.items():
        if isinstance(value, dict) and depth < _MAX_DEPTH:
            yield from leaves(value, f"{prefix}{key}/", depth + 1)
        else:
            yield f"{prefix}{key}", value


def step_of(value: object) -> int | None:
    """Read a step: a whole number, however spelled, that fits 64 bits."""
    if isinstance(value, int):
        return value if -_INT64 <= value < _INT64 else None
    return whole(number_of(value))
