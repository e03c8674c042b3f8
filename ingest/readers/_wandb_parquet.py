"""Parts of a history in Parquet, as `run.download_history_exports` leaves them: columns of numbers become values, all else is counted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ingest._bounds import MAX_ROW_GROUP_BYTES, check_columns
from ingest.errors import ReadError, TooLargeError
from ingest.readers._files import files_under
from ingest.readers._numbers import number
from ingest.readers._wandb_histogram import MOMENTS, moments
from ingest.readers._wandb_values import BOOKKEEPING, KIND, SECONDS, STEP, Values

SUFFIX = ".parquet"
_MAGIC = b"PAR1"
# 100 bytes a value stay in memory while a run is read; a run of a million steps and 50 metrics is half of this.
MAX_VALUES = 100_000_000
_WIDTH = 8
_PART = re.compile(r"(?:^|[_-])\d+\Z")  # <entity>_<project>_<run>_<part>.runhistory.parquet
_END = ".runhistory"
_BEYOND = 2.0**63
_MAX_DEPTH = 50


def columns(path: Path) -> list[str] | None:
    """Names of a Parquet file's columns; None where it is none, or damaged."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            return None
    try:
        names: list[str] = pq.read_schema(path).names
    except (pa.ArrowException, OSError, ValueError):
        return None
    return names


def is_history(path: Path) -> bool:
    """Whether a Parquet file is a history: it has the step as wandb calls it."""
    return STEP in (columns(path) or ())


def is_history_folder(folder: Path) -> bool:
    """Whether a folder holds the parts of a history; parts without columns say nothing, another kind of Parquet says no."""
    named = [names for path in files_under(folder, SUFFIX, 0)[0] if (names := columns(path))]
    return bool(named) and all(STEP in names for names in named)


def run_of(path: Path) -> str:
    """The name that the parts of one run share; "" where they are only numbered."""
    return _PART.sub("", path.name.removesuffix(SUFFIX).removesuffix(_END))


def take_part(values: Values, path: Path) -> None:
    """Add a part; one without columns or rows, as wandb writes for steps it has compacted, adds nothing.

    Raises:
        ReadError: it is damaged; TooLargeError where it unpacks to more than the bounds allow.
    """
    try:
        file = pq.ParquetFile(path)
        check_columns(path, len(file.schema_arrow.names))
        for group in range(file.num_row_groups):
            _check(path, file.metadata.row_group(group), values)
            _take(values, file.read_row_group(group), path)
    except (pa.ArrowException, OSError, ValueError) as broken:
        expected, found = "a whole Parquet file", "a damaged one"
        raise ReadError(str(path), expected=expected, found=found, remedy="Download the history again.") from broken


def _check(path: Path, group: pq.RowGroupMetaData, values: Values) -> None:
    unpacked = group.num_rows * group.num_columns * _WIDTH
    if unpacked > MAX_ROW_GROUP_BYTES or values.found > MAX_VALUES:
        expected = f"row groups of at most {MAX_ROW_GROUP_BYTES // 2**30} GiB unpacked, {MAX_VALUES:,} values in all"
        raise TooLargeError(str(path), expected=expected, found="more", remedy="Export fewer keys, or a range of steps.")


def _take(values: Values, table: pa.Table, path: Path) -> None:
    """Add one row group, column by column."""
    steps, usable = _steps(table)
    seconds, are = _numbers(table.column(SECONDS).combine_chunks() if SECONDS in table.column_names else pa.nulls(table.num_rows))
    walls = np.where(are, seconds, np.nan)
    axes = (steps, usable, walls)
    names = [name for name in table.column_names if name not in BOOKKEEPING]
    columns = dict(leaf for name in names for leaf in _leaves(name, table.column(name).combine_chunks(), 0))
    for name in [key.removesuffix(f".{KIND}") for key in columns if key.endswith(f".{KIND}")]:
        _take_histograms(values, name, columns, axes)
    for key, column in columns.items():
        _take_column(values, key, column, path, axes)


def _take_histograms(values: Values, name: str, columns: dict[str, pa.Array], axes: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    """Take the moments of a column of histograms and the column away, where every one of them has bins and a step."""
    parts = {end: columns.get(f"{name}.{end}") for end in (KIND, "values", "bins")}
    kinds = parts[KIND]
    rows = np.flatnonzero(_valid(kinds)) if kinds is not None else np.array([], np.int64)
    found = [moments({end: None if part is None else part[int(row)].as_py() for end, part in parts.items()}) for row in rows]
    steps, usable, walls = axes
    if not found or None in found or not usable[rows].all():
        return
    for end, numbers in zip(MOMENTS, zip(*filter(None, found), strict=True), strict=True):
        values.rows.extend(f"{name}.{end}", steps[rows], np.array(numbers), walls[rows])
    for end in parts:
        columns.pop(f"{name}.{end}", None)


def _take_column(values: Values, key: str, column: pa.Array, path: Path, axes: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    steps, usable, walls = axes
    if key.endswith(f".{KIND}"):
        values.count_medium(key.removesuffix(f".{KIND}"), len(column) - column.null_count)
        return
    numbers, are = _numbers(column)
    place = f"{path.name}, column {key}"
    for tally, which in ((values.words, _valid(column) & ~are), (values.stepless, are & ~usable)):
        if rows := int(np.count_nonzero(which)):
            tally.add(place, group=key, rows=rows)
    kept = are & usable
    values.rows.extend(key, steps[kept], numbers[kept], walls[kept])


def _steps(table: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """The step of each row, and whether it has one; wandb writes them as floats, too."""
    if STEP not in table.column_names:
        return np.zeros(table.num_rows, np.int64), np.zeros(table.num_rows, bool)
    column = table.column(STEP).combine_chunks()
    if pa.types.is_integer(column.type):
        return pc.fill_null(column, 0).cast(pa.int64(), safe=False).to_numpy(zero_copy_only=False), _valid(column)
    numbers, are = _numbers(column)
    usable = are & (np.abs(numbers) < _BEYOND) & (np.floor(numbers) == numbers)
    return np.where(usable, numbers, 0).astype(np.int64), usable


def _leaves(key: str, column: pa.Array, depth: int) -> Iterator[tuple[str, pa.Array]]:
    """A struct as its fields, keys joined with dots as wandb does."""
    if pa.types.is_struct(column.type) and depth < _MAX_DEPTH:
        for field, inner in zip(column.type, column.flatten(), strict=True):
            yield from _leaves(f"{key}.{field.name}", inner, depth + 1)
    else:
        yield key, column


def _numbers(column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """The values of a column as numbers, and which of them are any; texts are read once each."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        coded = column.dictionary_encode()
        read = [number(text) for text in coded.dictionary.to_pylist()]
        table = pa.array(read, pa.float64(), from_pandas=False)
        column = table.take(coded.indices)
    elif pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or pa.types.is_decimal(column.type)):
        return np.full(len(column), np.nan), np.zeros(len(column), bool)
    are = _valid(column)
    floats = column.cast(pa.float64(), safe=False)
    return pc.fill_null(floats, 0.0).to_numpy(zero_copy_only=False), are


def _valid(column: pa.Array) -> np.ndarray:
    valid: np.ndarray = column.is_valid().to_numpy(zero_copy_only=False)
    return valid
