"""A CSV file of nothing but numbers and blank cells, read by pyarrow; where anything else is in it, `_cells` reads it line by line.

Only a file that both read alike is read here: a record on each line, a cell in each column, quotes around whole cells, numbers that need
no trimming. Then a cell's line follows from its row, and there is nothing to report.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

_BLOCK = 4 * 2**20  # bytes read at once; a longer line is left to `_cells`
_STRETCH = 1 << 17  # bytes looked at at once, few enough to stay in the processor's cache
_QUOTE, _LINE_END, _RETURN = 34, 10, 13
_ENVELOPES = ("__MIN", "__MAX")  # columns of a chart export that mostly repeat another, cell by cell


@dataclass(frozen=True, kw_only=True)
class QuickColumn:
    """The numbers of one column with their lines."""

    name: str
    lines: np.ndarray  # int64
    values: np.ndarray  # float64


def quick_cells(path: Path, names: Sequence[str], delimiter: str) -> tuple[QuickColumn, ...] | None:
    """Read all numbers below the header; None where anything but numbers and blanks is in the file."""
    content = path.read_bytes()
    cells = _texts(content, len(names), delimiter)
    if cells is None:
        return None
    columns: dict[str, tuple[pa.Array, QuickColumn]] = {}
    found: list[QuickColumn] = []
    for name, texts in zip(names, cells, strict=True):
        column = _repeated(name, texts, columns) or _numbers(name, texts)
        if column is None:
            return None
        columns.setdefault(name, (texts, column))
        found.append(column)
    return tuple(found)


def _texts(content: bytes, width: int, delimiter: str) -> list[pa.Array] | None:
    """The cells below the header as they stand, column by column."""
    lines = _lines(content, delimiter) if content.endswith(b"\n") and not content.startswith((b"\n", b"\r")) else None
    if lines is None:
        return None
    options = arrow_csv.ReadOptions(column_names=[str(place) for place in range(width)], skip_rows=1, block_size=_BLOCK)
    types = {name: pa.string() for name in options.column_names}
    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(content),
            read_options=options,
            parse_options=arrow_csv.ParseOptions(delimiter=delimiter),
            convert_options=arrow_csv.ConvertOptions(column_types=types, strings_can_be_null=False),
        )
    except pa.ArrowInvalid:
        return None
    if table.num_rows != lines - 1:  # blank lines, or line ends within cells
        return None
    return [column.combine_chunks() for column in table.columns]


def _lines(content: bytes, delimiter: str) -> int | None:
    """How many lines there are; None where a quote stands elsewhere than around a whole cell, which pyarrow reads in its own way."""
    data = np.frombuffer(content, np.uint8)
    count = lines = 0
    for low in range(0, len(data), _STRETCH):
        piece = data[low : low + _STRETCH + 2]  # each byte between two others once; those at the ends of the file need no look
        quotes = piece == _QUOTE
        count += int(np.count_nonzero(quotes[:_STRETCH]))
        ends = piece == _LINE_END
        lines += int(np.count_nonzero(ends[:_STRETCH]))
        edges = (piece == ord(delimiter)) | ends | (piece == _RETURN)
        if (quotes[1:-1] > (edges[:-2] | edges[2:])).any():
            return None
    return None if count % 2 else lines


def _repeated(name: str, texts: pa.Array, columns: dict[str, tuple[pa.Array, QuickColumn]]) -> QuickColumn | None:
    """The column that an envelope repeats, under the envelope's name."""
    end = next((end for end in _ENVELOPES if name.endswith(end)), None)
    if end is None or (known := columns.get(name.removesuffix(end))) is None or not texts.equals(known[0]):
        return None
    return QuickColumn(name=name, lines=known[1].lines, values=known[1].values)


def _numbers(name: str, texts: pa.Array) -> QuickColumn | None:
    lines = np.arange(2, len(texts) + 2)
    blank = pc.equal(pc.binary_length(texts), 0)
    if pc.any(blank).as_py():
        there = pc.invert(blank)
        texts, lines = texts.filter(there), lines[there.to_numpy(zero_copy_only=False)]
    try:
        values = texts.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        return None
    if np.isnan(values).any() and pc.any(pc.match_substring(texts, "(")).as_py():  # C's nan(…) is no number here
        return None
    return QuickColumn(name=name, lines=lines, values=values)
