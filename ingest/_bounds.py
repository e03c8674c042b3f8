"""How large an input may be: a small file can unpack to more than the machine holds, and its footer says so beforehand."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from ingest._footer import chunks
from ingest.errors import TooLargeError

# Text is parsed in memory, at about ten times its size; the largest real export seen is 3.3 MB, a 10,000 step x 50 key log 25 MB.
MAX_TEXT_BYTES = 512 * 2**20
# One line of a step log holds the keys of one step; 16 MiB is a hundred thousand keys.
MAX_LINE_BYTES = 16 * 2**20
# The largest real table seen has 500 columns, a chart of 1,000 grouped runs 6,001.
MAX_COLUMNS = 20_000
# Row groups are what is held in memory at once, one per thread; a step of 16 million tokens with every column is 1.2 GB.
MAX_ROW_GROUP_BYTES = 2 * 2**30
# At the measured 28 million tokens per second and core this is an hour on one core.
MAX_TOKENS = 100_000_000_000


def check_text(path: Path, size: int) -> None:
    """Refuse a text file that would be too large to parse.

    Raises:
        TooLargeError: it has more than MAX_TEXT_BYTES.
    """
    if size > MAX_TEXT_BYTES:
        _refuse(path, f"at most {MAX_TEXT_BYTES // 2**20} MiB of text", f"{size / 2**20:.0f} MiB", "Split it by step range.")


def check_columns(path: Path, columns: int) -> None:
    """Refuse a table that is wider than any real one.

    Raises:
        TooLargeError: it has more than MAX_COLUMNS.
    """
    if columns > MAX_COLUMNS:
        _refuse(path, f"at most {MAX_COLUMNS:,} columns", f"{columns:,}", "Export fewer runs or metrics at once.")


def check_rows(path: Path, row_groups: Sequence[int], width: int) -> None:
    """Refuse a Parquet file of a row per token that would unpack to more than the bounds allow; compressed sizes say nothing.

    Args:
        path: the file.
        row_groups: rows of each.
        width: bytes of a row of the columns to be read.

    Raises:
        TooLargeError: a row group unpacks to more than MAX_ROW_GROUP_BYTES, or there are more than MAX_TOKENS.
    """
    _check(path, [rows * width for rows in row_groups], sum(row_groups))


def check_lists(path: Path, columns: Collection[str]) -> None:
    """Refuse the same of a file with lists, whose tokens are counted by column chunk.

    Args:
        path: the file.
        columns: the columns to be read.

    Raises:
        TooLargeError: as `check_rows`.
        ValueError: the footer is damaged.
    """
    groups = [[chunk for chunk in group if chunk.column in columns] for group in chunks(path)]
    unpacked = [sum(chunk.values * chunk.width for chunk in group) for group in groups]
    _check(path, unpacked, sum(max((chunk.values for chunk in group), default=0) for group in groups))


def _check(path: Path, unpacked: Sequence[int], tokens: int) -> None:
    for index, size in enumerate(unpacked):
        if size > MAX_ROW_GROUP_BYTES:
            bound = f"row groups of at most {MAX_ROW_GROUP_BYTES / 2**30:.0f} GiB unpacked"
            _refuse(path, bound, f"{size / 2**30:.1f} GiB in row group {index}", "Write one row group per step.")
    if tokens > MAX_TOKENS:
        _refuse(path, f"at most {MAX_TOKENS:,} tokens", f"{tokens:,}", "Read a range of steps.")


def _refuse(path: Path, expected: str, found: str, remedy: str) -> None:
    raise TooLargeError(str(path), expected=expected, found=found, remedy=remedy)
