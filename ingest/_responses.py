"""One row per response with list columns becomes one row per token, through Arrow offsets."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from ingest.run import ReadProblem

_LISTED = 20  # rows named one by one before the rest is counted
_MISSING = -1


def flatten(table: pa.Table, path: str, place: str) -> tuple[pa.Table, list[ReadProblem]]:
    """Flatten the list columns of a table and repeat the others, leaving out responses whose lists differ in length.

    Args:
        table: a row per response; list columns of equal length within a row, other columns one value per response.
        path: file, for problems.
        place: row group, for problems.

    Returns:
        A row per token, and one problem for each response left out (a bounded number of them named singly).
    """
    lists = [name for name in table.column_names if _is_list(table.schema.field(name).type)]
    if not lists:
        return table, []
    lengths = _lengths(table, lists)
    uneven = _uneven(lengths)
    problems = _problems(uneven, lengths, path, place)
    if problems:
        table = table.filter(pc.invert(uneven))
    table = table.combine_chunks()
    parents = pc.list_parent_indices(_one_chunk(table.column(lists[0])))
    columns = [
        pc.list_flatten(_one_chunk(table.column(name))) if name in lists else _one_chunk(table.column(name)).take(parents)
        for name in table.column_names
    ]
    return pa.table(columns, names=table.column_names), problems


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def _lengths(table: pa.Table, lists: list[str]) -> dict[str, pa.ChunkedArray]:
    """How long each list of each row is, by column; a missing list has a length of its own, -1."""
    return {name: pc.fill_null(pc.list_value_length(table.column(name)), _MISSING) for name in lists}


def _uneven(lengths: dict[str, pa.ChunkedArray]) -> pa.ChunkedArray:
    """True for each row whose lists differ in length."""
    first, *others = lengths.values()
    uneven = pc.equal(first, _MISSING)
    for other in others:
        uneven = pc.or_(uneven, pc.not_equal(first, other))
    return uneven


def _problems(uneven: pa.ChunkedArray, lengths: dict[str, pa.ChunkedArray], path: str, place: str) -> list[ReadProblem]:
    rows = pc.indices_nonzero(uneven).to_pylist()
    problems = [ReadProblem(path=path, place=f"{place}, row {row}", what=_what(lengths, row), rows=1) for row in rows[:_LISTED]]
    if len(rows) > _LISTED:
        rest = len(rows) - _LISTED
        problems.append(ReadProblem(path=path, place=place, what=f"{rest} more responses whose lists differ in length", rows=rest))
    return problems


def _what(lengths: dict[str, pa.ChunkedArray], row: int) -> str:
    """How long each list of a response is; the diagnosis reads the numbers back."""
    own = {name: column[row].as_py() for name, column in lengths.items()}
    said = ", ".join(f"{name} {'missing' if length == _MISSING else length}" for name, length in own.items())
    return f"the lists of this response differ in length: {said}; the response is left out"
