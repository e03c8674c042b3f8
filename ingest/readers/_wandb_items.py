"""Items of wandb's records: a key, plain or as a path, and a value, as JSON text or typed. History and configuration share them."""

from __future__ import annotations

from ingest.readers._wandb_values import json_value
from ingest.readers._wandb_wire import double, fields, signed, text

KEY, NESTED_KEY = 1, 2
_VALUE_JSON = 16
_NONE, _BOOLEAN, _INTEGER, _NUMBER, _TEXT, _JSON = 3, 4, 5, 6, 7, 8  # since wandb 0.31, beside the text or in its place


def item(data: bytes) -> tuple[str, object]:
    """Read an item's key, its parts joined with dots, and its value.

    Raises:
        ValueError: the bytes are no item.
    """
    parts, value = path_and_value(data)
    return ".".join(parts), value


def path_and_value(data: bytes) -> tuple[tuple[str, ...], object]:
    """Read an item's key as the path it is nested by, and its value.

    Raises:
        ValueError: the bytes are no item.
    """
    found = list(fields(data))
    last = dict(found)
    parts = tuple(text(part) for number, part in found if number == NESTED_KEY) or (text(last.get(KEY, b"")),)
    if isinstance(spelled := last.get(_VALUE_JSON), bytes) and spelled:
        return parts, json_value(spelled)
    return parts, next((_typed(number, value) for number, value in found if number in _TYPED), None)


_TYPED = (_NONE, _BOOLEAN, _INTEGER, _NUMBER, _TEXT, _JSON)


def _typed(number: int, value: int | bytes) -> object:
    if isinstance(value, int):
        return {_BOOLEAN: bool(value), _INTEGER: signed(value)}.get(number)
    if number == _NUMBER:
        return double(value)
    return {_TEXT: text(value), _JSON: json_value(value) if number == _JSON else None}.get(number)


def key_of(spelled: bytes) -> str:
    """The key that the bytes of an item before its value spell."""
    return item(spelled)[0]
