"""A token log on disk: which pieces it has, and how a row group of one becomes a canonical table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ingest._bounds import check_columns, check_lists, check_rows
from ingest._responses import flatten
from ingest._token_columns import IDS, canonical, schema_problems, whole_rows
from ingest.errors import ReadError
from ingest.run import ReadProblem
from ingest.schema import TOKENS, TOKENS_REQUIRED

PieceKey = tuple[str, int, int]
RowGroup = Callable[[Path, int], tuple[pa.Table, tuple[ReadProblem, ...]]]  # file, index -> a row per token, canonical names
OBJECTIVE = b"ratiometer_objective"  # key of a file's metadata: clip bounds the recorder was given, as a JSON object
_OWN_NAMES = {name: name for name in TOKENS.names}
_REMEDY = "docs/token_log.md lists the columns; rename yours, or have the trainer write them with monitor.record."


class DamagedError(ReadError):
    """Bytes of a file are not what was written: the footer cannot be parsed, or a page has another checksum than it says."""


class Layout(StrEnum):
    """How a Parquet file lays tokens out."""

    TOKEN_ROWS = "a row per token"  # noqa: S105 - a layout, not a secret
    RESPONSE_ROWS = "a row per response, list columns of equal length"


@dataclass(frozen=True, kw_only=True)
class TokenPiece:
    """One closed file of a token log: Parquet, or what a framework dumps in a format of its own and `read` knows."""

    path: Path
    rename: Mapping[str, str]  # column in the file -> canonical column
    row_groups: int  # what is read at once; of other formats than Parquet, ranges of the file
    rows: int | None  # tokens or responses; None where only reading the file tells
    size: int
    mtime_ns: int
    layout: Layout = Layout.TOKEN_ROWS
    read: RowGroup | None = None  # None for Parquet
    shown_as: str = ""  # how the user knows the file, where that is not its path: a member of an archive
    settings: Mapping[str, float] = field(default_factory=dict)  # `objective.*`: clip bounds its recorder was given

    @property
    def key(self) -> PieceKey:
        """Identity of the piece's content for a cache: path, size in bytes, modification time in ns."""
        return (str(self.path), self.size, self.mtime_ns)

    def rows_of(self, index: int) -> int:
        """Rows of one row group."""
        return int(_footer(self.key).row_group(index).num_rows)


@dataclass(frozen=True, kw_only=True)
class TokenLog:
    """All pieces of one run's token log."""

    pieces: tuple[TokenPiece, ...]
    columns: frozenset[str]  # canonical columns that at least one piece has


def open_piece(path: Path, names: Mapping[str, str] = _OWN_NAMES) -> tuple[TokenPiece, tuple[ReadProblem, ...]]:
    """Look at the footer of one Parquet file: layout, columns, sizes; no values are read.

    Args:
        path: a closed Parquet file.
        names: column in the file -> canonical column; our own names by default.

    Raises:
        DamagedError: not Parquet, or cut short.
        ReadError: a required column is missing or there twice.
        TooLargeError: a row group or the file would not fit the bounds of `ingest._bounds`.
    """
    stat = path.stat()
    footer = _footer((str(path), stat.st_size, stat.st_mtime_ns))
    columns = _arrow_schema(path, footer)
    rename = {name: names[name] for name in columns.names if name in names}
    _check_columns(path, columns.names, rename)
    kinds = {canonical_name: columns.field(name).type for name, canonical_name in rename.items()}
    layout = Layout.RESPONSE_ROWS if any(_is_list(kind) for kind in kinds.values()) else Layout.TOKEN_ROWS
    if layout is Layout.RESPONSE_ROWS and not _is_list(kinds["rollout_logprob"]):
        found = f"lists in another column and {kinds['rollout_logprob']} here"
        raise ReadError(f"{path}, column rollout_logprob", expected="lists, one value per token", found=found, remedy=_REMEDY)
    _check_sizes(path, footer, layout, rename)
    piece = TokenPiece(
        path=path,
        layout=layout,
        rename=rename,
        row_groups=footer.num_row_groups,
        rows=footer.num_rows,
        size=stat.st_size,
        mtime_ns=stat.st_mtime_ns,
        settings=_settings(footer),
    )
    unknown = [name for name in columns.names if name not in names]
    return piece, schema_problems(str(path), kinds, unknown)


def token_log(pieces: Iterable[TokenPiece]) -> TokenLog:
    """Put pieces together to one log, in the order given."""
    pieces = tuple(pieces)
    return TokenLog(pieces=pieces, columns=frozenset(name for piece in pieces for name in piece.rename.values()))


def ranges(piece: TokenPiece, names: tuple[str, ...]) -> list[tuple[tuple[Any, Any], ...]] | None:
    """Smallest and largest value of columns in each row group that has rows, from the footer.

    None where a range is missing, and for a piece that is no Parquet file and so has no footer.
    """
    if piece.read is not None:
        return None
    raw = {name: raw for raw, name in piece.rename.items()}
    footer, found = _footer(piece.key), []
    for index in range(footer.num_row_groups):
        group = footer.row_group(index)
        chunks = {(chunk := group.column(number)).path_in_schema.split(".")[0]: chunk for number in range(group.num_columns)}
        spans = [chunks[raw[name]].statistics for name in names]
        if group.num_rows and not all(span is not None and span.has_min_max for span in spans):
            return None
        if group.num_rows:
            found.append(tuple((span.min, span.max) for span in spans))
    return found


def steps_of(piece: TokenPiece) -> frozenset[int]:
    """The steps that a file holds, from its footer where each row group is of one step, otherwise from the column."""
    spans = ranges(piece, ("step",))
    if spans is not None and all(low == high for ((low, high),) in spans):
        return frozenset(int(low) for ((low, _),) in spans)
    read = (read_row_group(piece, index, frozenset({"step"}))[0] for index in range(piece.row_groups))
    return frozenset(step for table in read for step in pc.unique(table.column("step")).to_pylist())


def read_row_group(
    piece: TokenPiece,
    index: int,
    columns: frozenset[str] | None = None,
) -> tuple[pa.Table, tuple[ReadProblem, ...]]:
    """Read one row group as a canonical table: a row per token, names and types of `schema.TOKENS`, sorted as the file is.

    Which responses are left out is judged by the columns read, so one pass over a log asks for the same columns throughout.

    Args:
        piece: the file.
        index: row group, from 0.
        columns: canonical columns wanted; all by default. Columns that the file lacks are absent, never filled.

    Returns:
        The table, and what had to be left out or changed; rows of a response layout count responses.

    Raises:
        DamagedError: the row group cannot be read, or a page has another checksum than it says.
        ReadError: a column cannot be cast to its type without loss of its integers, or a mask is none.
    """
    if not piece.shown_as:
        return _row_group(piece, index, columns)
    try:
        table, problems = _row_group(piece, index, columns)
    except ReadError as error:
        where = error.where.replace(str(piece.path), piece.shown_as)
        raise type(error)(where, expected=error.expected, found=error.found, remedy=error.remedy) from error
    return table, tuple(replace(problem, path=piece.shown_as) for problem in problems)


def _row_group(piece: TokenPiece, index: int, columns: frozenset[str] | None) -> tuple[pa.Table, tuple[ReadProblem, ...]]:
    place = f"row group {index}"
    if piece.read is not None:
        table, said = piece.read(piece.path, index)
        found, changed = _as_tokens(table, piece, place, columns)
        return found, (*said, *changed)
    try:
        return _as_tokens(_raw_columns(piece, index, columns), piece, place, columns)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as broken:
        raise _damaged(f"{piece.path}, {place}", broken) from broken


def _raw_columns(piece: TokenPiece, index: int, columns: frozenset[str] | None) -> pa.Table:
    """The columns asked for, and those without which no row can be judged, under canonical names and as the file has them."""
    rename = {raw: name for raw, name in piece.rename.items() if columns is None or name in columns or name in TOKENS_REQUIRED}
    # Names of responses stay coded until they are hashed: one long name repeated a million times is a small file.
    ids = [raw for raw, name in rename.items() if name in IDS]
    with pq.ParquetFile(piece.path, metadata=_footer(piece.key), read_dictionary=ids, page_checksum_verification=True) as file:
        table = file.read_row_group(index, columns=list(rename), use_threads=False)
    return table.rename_columns([rename[name] for name in table.column_names])


def _as_tokens(
    table: pa.Table,
    piece: TokenPiece,
    place: str,
    columns: frozenset[str] | None,
) -> tuple[pa.Table, tuple[ReadProblem, ...]]:
    uneven: list[ReadProblem] = []
    if piece.layout is Layout.RESPONSE_ROWS:
        table, uneven = flatten(table, str(piece.path), place)
    table, without_key = whole_rows(table, str(piece.path), place)
    if columns is not None:
        table = table.select([name for name in table.column_names if name in columns])
    table, changed = canonical(table, str(piece.path), place)
    return table, (*uneven, *without_key, *changed)


@lru_cache(maxsize=64)
def _footer(key: PieceKey) -> pq.FileMetaData:
    """Parse a footer once for all row groups of a file; a changed file has another key."""
    try:
        return pq.read_metadata(key[0])
    except (pa.ArrowException, OSError, UnicodeDecodeError) as broken:
        raise _damaged(key[0], broken) from broken


def _settings(footer: pq.FileMetaData) -> dict[str, float]:
    try:
        return {f"objective.{name}": float(value) for name, value in json.loads((footer.metadata or {}).get(OBJECTIVE, b"{}")).items()}
    except (ValueError, TypeError, AttributeError):
        return {}  # another tool's note under our name


def _arrow_schema(path: Path, footer: pq.FileMetaData) -> pa.Schema:
    try:
        return footer.schema.to_arrow_schema()
    except (pa.ArrowException, OSError, UnicodeDecodeError) as broken:
        raise _damaged(str(path), broken) from broken


def _check_sizes(path: Path, footer: pq.FileMetaData, layout: Layout, rename: Mapping[str, str]) -> None:
    check_columns(path, footer.num_columns)
    if layout is Layout.TOKEN_ROWS:
        width = sum(TOKENS.field(name).type.bit_width for name in rename.values()) // 8
        check_rows(path, [footer.row_group(index).num_rows for index in range(footer.num_row_groups)], width)
        return
    try:
        check_lists(path, rename)
    except ValueError as broken:
        raise _damaged(str(path), broken) from broken


def _damaged(where: str, broken: Exception) -> DamagedError:
    return DamagedError(
        where,
        expected="a whole Parquet file",
        found=f"one that the Parquet library refuses ({' '.join(str(broken).split())[:200]})",
        remedy="Write the file again or leave it out.",
    )


def _check_columns(path: Path, seen: list[str], rename: Mapping[str, str]) -> None:
    missing = [name for name in TOKENS_REQUIRED if name not in rename.values()]
    if missing:
        wanted = f"the columns {', '.join(TOKENS_REQUIRED)} of a token log (missing: {', '.join(missing)})"
        raise ReadError(str(path), expected=wanted, found=_listed(seen), remedy=_REMEDY)
    twice = sorted({name for name in rename if seen.count(name) > 1})
    if twice or len(set(rename.values())) < len(rename):
        raise ReadError(str(path), expected="each column once", found=_listed(twice or seen), remedy=_REMEDY)


def _listed(names: list[str], most: int = 30) -> str:
    shown = ", ".join(name[:80] for name in names[:most]) or "no columns"
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))
