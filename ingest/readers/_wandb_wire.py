"""Messages in protobuf's wire format, field by field (protobuf.dev, "Encoding"): only what a `.wandb` file needs."""

from __future__ import annotations

import struct
from collections.abc import Iterator

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MORE = 0x80  # set in every byte of a varint but the last
_LONGEST = 10  # bytes of a 64 bit varint
_DOUBLE = struct.Struct("<d")


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of each field: an integer of a varint, else the bytes it has.

    Raises:
        ValueError: the bytes are no message.
    """
    at = 0
    while at < len(data):
        head, at = varint(data, at)
        kind = head & 7
        if kind == _VARINT:
            value, at = varint(data, at)
            yield head >> 3, value
            continue
        size = {_FIXED64: 8, _FIXED32: 4}.get(kind)
        if kind == _BYTES:
            size, at = varint(data, at)
        if size is None or at + size > len(data):
            raise ValueError(f"no field at byte {at}")
        yield head >> 3, data[at : at + size]
        at += size


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Read an integer of seven bits a byte, the lowest first, and where it ends.

    Raises:
        ValueError: it does not end.
    """
    value = 0
    for shift, byte in enumerate(data[at : at + _LONGEST]):
        value |= (byte & ~_MORE) << 7 * shift
        if not byte & _MORE:
            return value, at + shift + 1
    raise ValueError(f"no integer at byte {at}")


def signed(coded: int) -> int:
    """Undo the coding of a signed integer, whose sign is in the lowest bit."""
    return coded >> 1 ^ -(coded & 1)


def double(data: bytes) -> float:
    """Read eight bytes as a float.

    Raises:
        ValueError: there are not eight.
    """
    if len(data) != _DOUBLE.size:
        raise ValueError("no double")
    value: float = _DOUBLE.unpack(data)[0]
    return value


def text(data: int | bytes) -> str:
    """Read bytes as text; what is no UTF-8 becomes question marks."""
    return data.decode("utf-8", "replace") if isinstance(data, bytes) else ""
