"""How many values each column chunk of a Parquet file holds, read from the footer's own bytes.

The Parquet library can tell too, but a damaged footer makes that one call end the whole process (pyarrow 26: a C++ exception that
nobody catches). The footer is in Thrift's compact protocol (apache/parquet-format, `parquet.thrift`); only what is needed is understood.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_TAIL = 8  # length of the footer and the magic word, at the end of the file
_ROW_GROUPS, _COLUMNS, _META_DATA = 4, 1, 3  # field numbers in FileMetaData, RowGroup, ColumnChunk
_TYPE, _PATH, _NUM_VALUES = 1, 3, 5  # in ColumnMetaData
_WIDTHS = {0: 1, 1: 4, 2: 8, 3: 12, 4: 4, 5: 8}  # bytes of a value by physical type
_OTHER_WIDTH = 16  # byte arrays: the offset or view they cost at least
_BOOLEANS = (1, 2)
_LONG = 15  # a list of this many items or more says so in another way


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """One column of one row group."""

    column: str  # name of the top-level column
    values: int  # values of the leaf: for a list column, tokens
    width: int  # bytes per value, at least


def chunks(path: Path) -> list[list[Chunk]]:
    """List the column chunks of each row group.

    Raises:
        ValueError: the footer is damaged.
    """
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _TAIL))
        length = int.from_bytes(file.read(4), "little")
        file.seek(max(0, size - _TAIL - length))
        footer = _Compact(file.read(min(length, size)))
    try:
        groups = footer.struct().get(_ROW_GROUPS, [])
        return [[_chunk(column[_META_DATA]) for column in group[_COLUMNS]] for group in groups]
    except (IndexError, KeyError, TypeError, AttributeError, RecursionError) as broken:
        raise ValueError("the footer is not what the format says") from broken


def _chunk(meta_data: dict[int, Any]) -> Chunk:
    width = _WIDTHS.get(meta_data[_TYPE], _OTHER_WIDTH)
    return Chunk(column=meta_data[_PATH][0].decode("utf-8", "replace"), values=max(0, meta_data[_NUM_VALUES]), width=width)


class _Compact:
    """A cursor over values in Thrift's compact protocol; reading past the end is an IndexError."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def struct(self) -> dict[int, Any]:
        """Field number -> value."""
        fields: dict[int, Any] = {}
        number = 0
        while head := self.byte():
            number = number + (head >> 4) if head >> 4 else self.integer()
            kind = head & 0x0F
            fields[number] = kind == _BOOLEANS[0] if kind in _BOOLEANS else self.value(kind)
        return fields

    def value(self, kind: int) -> Any:  # noqa: ANN401 - whatever the file holds
        """One value of a kind; a boolean here is an item of a list."""
        if kind not in _VALUES:
            raise IndexError(f"no kind {kind}")
        return _VALUES[kind](self)

    def items(self) -> list[Any]:
        """A list or a set."""
        head = self.byte()
        length = head >> 4 if head >> 4 < _LONG else self.varint()
        return [self.value(head & 0x0F) for _ in range(length)]

    def pairs(self) -> list[tuple[Any, Any]]:
        """A map; an empty one does not say of what."""
        if not (length := self.varint()):
            return []
        kinds = self.byte()
        return [(self.value(kinds >> 4), self.value(kinds & 0x0F)) for _ in range(length)]

    def byte(self) -> int:
        """The next byte."""
        self.at += 1
        return self.data[self.at - 1]

    def bytes(self, length: int) -> bytes:
        """The next bytes."""
        if self.at + length > len(self.data):
            raise IndexError("past the end")
        self.at += length
        return self.data[self.at - length : self.at]

    def varint(self) -> int:
        """An integer of seven bits a byte, the lowest first."""
        value = shift = 0
        while (byte := self.byte()) & 0x80:
            value |= (byte & 0x7F) << shift
            shift += 7
        return value | byte << shift

    def integer(self) -> int:
        """A signed integer, its sign in the lowest bit."""
        coded = self.varint()
        return coded >> 1 ^ -(coded & 1)


_VALUES: dict[int, Callable[[_Compact], Any]] = {
    **dict.fromkeys((*_BOOLEANS, 3), _Compact.byte),
    **dict.fromkeys((4, 5, 6), _Compact.integer),
    7: lambda data: data.bytes(8),  # a double
    8: lambda data: data.bytes(data.varint()),
    **dict.fromkeys((9, 10), _Compact.items),
    11: _Compact.pairs,
    12: _Compact.struct,
}
