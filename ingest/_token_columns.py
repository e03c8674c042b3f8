"""Columns of a token log as others write them become the types of `schema.TOKENS`, and what that changed is said."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from ingest.errors import ReadError
from ingest.run import ProblemKind, ReadProblem
from ingest.schema import TOKENS, TOKENS_REQUIRED

_KEYS = tuple(name for name in TOKENS_REQUIRED if name != "rollout_logprob")  # a token without these belongs nowhere
IDS = ("sample_id", "group_id")  # names in other logs; hashed here
_MOST_NAMES = 20
_SHOWN = 5


def schema_problems(path: str, kinds: Mapping[str, pa.DataType], unknown: list[str]) -> tuple[ReadProblem, ...]:
    """Say what the types and names of a file mean for its numbers, before anything is read.

    Args:
        path: the file.
        kinds: canonical column -> type in the file.
        unknown: columns of the file that mean nothing here.
    """
    said = []
    for name, kind in kinds.items():
        value = kind.value_type if hasattr(kind, "value_type") else kind
        if pa.types.is_float16(value):
            said.append(
                (name, "stored as 16 bit floats: each value carries a rounding error of up to 0.05 %, which a small mismatch drowns in")
            )
        elif name in IDS and _is_text(value):
            said.append((name, "text; each distinct text is replaced by a 64 bit hash of it"))
    if unknown:
        shown = ", ".join(name[:80] for name in unknown[:_MOST_NAMES]) + (" …" if len(unknown) > _MOST_NAMES else "")
        said.append((shown, f"{len(unknown)} columns are not part of a token log and are not read"))
    return tuple(ReadProblem(path=path, place=f"column {name}", what=what, kind=ProblemKind.NOTE) for name, what in said)


def whole_rows(table: pa.Table, path: str, place: str) -> tuple[pa.Table, list[ReadProblem]]:
    """Leave out tokens that name no step or no response."""
    keys = [name for name in _KEYS if name in table.column_names and table.column(name).null_count]
    if not keys:
        return table, []
    whole = table.filter(_all_valid(table, keys))
    what = f"no {' or '.join(keys)}; these rows are left out"
    return whole, [ReadProblem(path=path, place=place, what=what, rows=table.num_rows - whole.num_rows)]


def canonical(table: pa.Table, path: str, place: str) -> tuple[pa.Table, list[ReadProblem]]:
    """Cast every column to its type in `schema.TOKENS`, in that order; columns that cannot hold a null lose theirs.

    Raises:
        ReadError: a column cannot be cast without losing integers, text stands where numbers belong, or a mask is none.
    """
    columns, fields, notes = [], [], []
    for field in (field for field in TOKENS if field.name in table.column_names):
        where = f"{path}, {place}, column {field.name}"
        given = _decoded(table.column(field.name), field)
        column = _cast(given, field, where)
        if beyond := _overflown(given, column):
            what = f"{beyond} values beyond the range of {field.type} are read as infinite"
            notes.append(ReadProblem(path=path, place=f"{place}, column {field.name}", what=what, kind=ProblemKind.NOTE))
        if nulls := column.null_count:
            column, what = _without_nulls(column, field, nulls)
            notes.append(ReadProblem(path=path, place=f"{place}, column {field.name}", what=what, kind=ProblemKind.NOTE))
        if column is not None:
            columns.append(column)
            fields.append(field)
    return pa.Table.from_arrays(columns, schema=pa.schema(fields)), notes


def _all_valid(table: pa.Table, names: list[str]) -> pa.ChunkedArray:
    valid = pc.is_valid(table.column(names[0]))
    for name in names[1:]:
        valid = pc.and_(valid, pc.is_valid(table.column(name)))
    return valid


def _without_nulls(column: pa.ChunkedArray, field: pa.Field, nulls: int) -> tuple[pa.ChunkedArray | None, str]:
    """Nulls of a float become NaN and are counted as non-finite later; a null mask counts nothing; no integer means "unknown"."""
    if pa.types.is_floating(field.type):
        return pc.fill_null(column, float("nan")), f"{nulls} empty values are read as NaN"
    if pa.types.is_boolean(field.type):
        return pc.fill_null(column, False), f"{nulls} empty values are read as false: these tokens are not counted"
    return None, f"{nulls} empty values; the column is left out of this row group"


def _decoded(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    """Undo dictionary encoding, and turn names into numbers where a number is wanted."""
    if field.name in IDS and _is_text(column.type):
        return _hashed(column)
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _cast(column: pa.ChunkedArray, field: pa.Field, where: str) -> pa.ChunkedArray:
    if column.type == field.type:
        return column
    if _is_text(column.type):
        raise ReadError(where, expected=str(field.type), found=f"text ({column.type})", remedy="Write the column as numbers.")
    try:
        return _mask(column, where) if pa.types.is_boolean(field.type) else column.cast(field.type)
    except (pa.ArrowException, TypeError) as refused:
        found = f"{column.type} that does not fit ({' '.join(str(refused).split())[:120]})"
        raise ReadError(where, expected=str(field.type), found=found, remedy="Write the column in that type.") from refused


def _mask(column: pa.ChunkedArray, where: str) -> pa.ChunkedArray:
    """Numbers as a mask: 1 and 0 only, because a weight, or a sign, is no answer to whether a token counts."""
    other = column.filter(pc.invert(pc.is_in(column, value_set=pa.array([0, 1]).cast(column.type), skip_nulls=False)))
    other = other.drop_null()
    if len(other):
        shown = ", ".join(str(value) for value in pc.unique(other).to_pylist()[:_SHOWN])
        found = f"other values in {len(other)} of {len(column)} rows ({shown})"
        raise ReadError(where, expected="true and false, or 1 and 0", found=found, remedy="Write a mask; weights belong elsewhere.")
    return pc.not_equal(column, 0)


def _overflown(given: pa.ChunkedArray, column: pa.ChunkedArray) -> int:
    """How many finite values became infinite in a narrower float."""
    if not (pa.types.is_float64(given.type) and pa.types.is_float32(column.type)):
        return 0
    infinite = pc.is_inf(column)
    return pc.sum(pc.and_(infinite, pc.is_finite(given))).as_py() or 0 if pc.any(infinite).as_py() else 0


def _is_text(kind: pa.DataType) -> bool:
    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    return any(
        is_kind(value)
        for is_kind in (
            pa.types.is_string,
            pa.types.is_large_string,
            pa.types.is_string_view,
            pa.types.is_binary,
            pa.types.is_large_binary,
            pa.types.is_fixed_size_binary,
        )
    )


def _hashed(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Replace each distinct text by 63 bits of its BLAKE2 hash: the same on every machine, and not negative."""
    coded = column.unify_dictionaries() if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    chunks = [chunk.dictionary.cast(pa.binary()).to_pylist() for chunk in coded.chunks]
    numbers = [
        pa.array([_number(text) for text in texts], pa.int64()).take(chunk.indices)
        for texts, chunk in zip(chunks, coded.chunks, strict=True)
    ]
    return pa.chunked_array(numbers, pa.int64())


def _number(text: bytes | None) -> int | None:
    return None if text is None else int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1
