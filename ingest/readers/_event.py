"""One event of a TensorBoard file: its time, its step and its values, decoded from the protobuf wire format.

Field numbers are those of tensorboard's event.proto, summary.proto, tensor.proto and the hparams plugin's.
"""
# ruff: noqa: PLR2004  the numbers compared are field numbers and wire types of the .proto files

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ingest.run import Config

_DOUBLE, _FLOAT = struct.Struct("<d"), struct.Struct("<f")
_FIXED = {1: 8, 5: 4}  # wire type -> bytes
_LONGEST_VARINT = 10
# Of tensor.proto: type -> numpy type of `tensor_content`, and the repeated field that holds values otherwise, with its numpy type.
_TYPES = {
    1: ("<f4", 5, "<f4"),
    2: ("<f8", 6, "<f8"),
    3: ("<i4", 7, ""),
    4: ("u1", 7, ""),
    5: ("<i2", 7, ""),
    6: ("i1", 7, ""),
    9: ("<i8", 10, ""),
    10: ("?", 11, ""),
    14: ("bfloat16", 13, ""),
    17: ("<u2", 7, ""),
    19: ("<f2", 13, ""),
    22: ("<u4", 16, ""),
    23: ("<u8", 17, ""),
}
_HALF, _BFLOAT16, _STRING = 19, 14, 7
_KINDS = {4: "an image", 5: "a histogram", 6: "an audio clip"}  # fields of Summary.Value
_RESTART = 1  # SessionLog.START


@dataclass(frozen=True, kw_only=True)
class Value:
    """One value of an event: a number, or a word for what it is instead."""

    tag: str
    number: float | None
    kind: str = ""
    text: str | None = None  # of a string tensor with one element
    config: Config | None = None  # of the hparams plugin


@dataclass(frozen=True, kw_only=True)
class Event:
    """One record of an event file."""

    wall_time: float
    step: int
    values: tuple[Value, ...]
    restarts: bool = False  # says that the run begins again at this step


def event(data: bytes) -> Event:
    """Decode one record.

    Raises:
        ValueError: it is no event.
    """
    wall, step, restarts = 0.0, 0, False
    values: list[Value] = []
    for number, _, content in fields(data):
        if number == 1:
            wall = _DOUBLE.unpack(_bytes(content, 8))[0]
        elif number == 2:
            step = _signed(content)
        elif number == 5:
            values += [_value(_bytes(inner)) for place, _, inner in fields(_bytes(content)) if place == 1]
        elif number == 7:
            restarts = any(place == 1 and inner == _RESTART for place, _, inner in fields(_bytes(content)))
    return Event(wall_time=wall, step=step, values=tuple(values), restarts=restarts)


def fields(data: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """Yield number, wire type and content of each field: an integer for varints, else bytes.

    Raises:
        ValueError: the bytes are no protobuf message.
    """
    place, size = 0, len(data)
    while place < size:
        key, place = varint(data, place)
        kind = key & 7
        if kind == 0:
            content, place = varint(data, place)
            yield key >> 3, kind, content
            continue
        if kind == 2:
            length, place = varint(data, place)
        elif kind in _FIXED:
            length = _FIXED[kind]
        else:
            raise ValueError(f"wire type {kind}")
        if length > size - place:
            raise ValueError("a field reaches beyond the record")
        yield key >> 3, kind, data[place : place + length]
        place += length


def varint(data: bytes, place: int) -> tuple[int, int]:
    """Read an integer of variable length; also gives the place behind it.

    Raises:
        ValueError: it does not end.
    """
    value = 0
    for index, byte in enumerate(data[place : place + _LONGEST_VARINT]):
        value |= (byte & 127) << 7 * index
        if byte < 128:  # the highest bit says that more follow
            return value & (1 << 64) - 1, place + index + 1
    raise ValueError("an integer does not end")


def _value(data: bytes) -> Value:
    tag, number, kind, text, config = "", None, "a value without content", None, None
    for place, wire, content in fields(data):
        if place == 1:
            tag = _bytes(content).decode("utf-8", "replace")
        elif place == 2 and wire == 5:
            number = _FLOAT.unpack(_bytes(content, 4))[0]
        elif place == 8:
            number, text, kind = _tensor(_bytes(content))
        elif place == 9:
            config = _hparams(_bytes(content))
        elif place in _KINDS:
            kind = _KINDS[place]
    return Value(tag=tag, number=number, kind="" if number is not None else kind, text=text, config=config)


def _tensor(data: bytes) -> tuple[float | None, str | None, str]:
    """The number of a tensor with one element, or its text, or what it is in words."""
    kind, shape, found = 0, 1, dict[int, list[int | bytes]]()
    for place, _, content in fields(data):
        if place == 1:
            kind = content if isinstance(content, int) else 0
        elif place == 2:
            shape = _elements(_bytes(content))
        else:
            found.setdefault(place, []).append(content)
    if kind == _STRING:
        texts = found.get(8, [])
        return None, _bytes(texts[0]).decode("utf-8", "replace") if len(texts) == 1 else None, "a text"
    if kind not in _TYPES:
        return None, None, f"a tensor of type {kind}"
    numbers = _numbers(kind, found)
    if shape != 1 or len(numbers) != 1:
        return None, None, "a tensor of several numbers"
    return float(numbers[0]), None, ""


def _numbers(kind: int, found: dict[int, list[int | bytes]]) -> list[float]:
    """All numbers of a tensor, from its raw content or the field of its type, packed or not."""
    raw, place, packed = _TYPES[kind]
    if 4 in found:
        content = _bytes(found[4][-1])
        return _bfloat16(np.frombuffer(content, "<u2")) if kind == _BFLOAT16 else np.frombuffer(content, raw).astype(float).tolist()
    contents = found.get(place, [])
    if packed:
        return [float(value) for content in contents for value in np.frombuffer(_bytes(content), packed)]
    bits = [bit for content in contents for bit in ([content] if isinstance(content, int) else _varints(content))]
    if kind in (_HALF, _BFLOAT16):
        short = np.array([bit & 0xFFFF for bit in bits], np.uint16)
        return _bfloat16(short) if kind == _BFLOAT16 else short.view("<f2").astype(float).tolist()
    return [float(bit if raw.startswith(("<u", "u", "?")) else _signed(bit)) for bit in bits]


def _bfloat16(bits: np.ndarray) -> list[float]:
    """The upper halves of float32 numbers."""
    return [float(value) for value in (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)]


def _varints(data: bytes) -> Iterator[int]:
    place = 0
    while place < len(data):
        value, place = varint(data, place)
        yield value


def _elements(shape: bytes) -> int:
    """The product of a shape's sizes; 1 for a scalar."""
    product = 1
    for number, _, dimension in fields(shape):
        if number == 2:
            product *= next((_signed(size) for place, _, size in fields(_bytes(dimension)) if place == 1), 0)
    return product


def _hparams(metadata: bytes) -> Config | None:
    """The settings in a summary's metadata, where the hparams plugin wrote it."""
    plugin = {number: content for number, _, content in _inner(metadata, 1)}
    if plugin.get(1) != b"hparams" or not isinstance(content := plugin.get(2), bytes):
        return None
    settings: dict[str, str | int | float | bool] = {}
    for number, _, entry in _inner(content, 3):
        if number == 1:
            pair = {place: inner for place, _, inner in fields(_bytes(entry))}
            if (value := _setting(pair.get(2, b""))) is not None:
                settings[_bytes(pair.get(1, b"")).decode("utf-8", "replace")] = value
    return settings


def _inner(data: bytes, number: int) -> Iterator[tuple[int, int, int | bytes]]:
    """Fields of the messages in one field."""
    for place, _, content in fields(data):
        if place == number:
            yield from fields(_bytes(content))


def _setting(data: int | bytes) -> str | float | bool | None:
    """A google.protobuf.Value that is a number, a text or a truth value."""
    for number, _, content in fields(_bytes(data)):
        if number == 2:
            return float(_DOUBLE.unpack(_bytes(content, 8))[0])
        if number == 3:
            return _bytes(content).decode("utf-8", "replace")
        if number == 4:
            return bool(content)
    return None


def _bytes(content: int | bytes, size: int | None = None) -> bytes:
    if isinstance(content, int) or (size is not None and len(content) != size):
        raise ValueError("a field of another type than its number says")
    return content


def _signed(content: int | bytes) -> int:
    if not isinstance(content, int):
        raise ValueError("a field of another type than its number says")  # noqa: TRY004  damaged data, not a wrong call
    return content - (1 << 64) if content >> 63 else content
