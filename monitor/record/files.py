"""How a recorded table reaches the disk: closed, complete and under its final name, or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

# A page that holds the whole row group lets byte-stream-split floats compress; the default of 20,000 rows a page defeats it
# (docs/benchmarks.md says what each choice is worth).
ROWS_PER_PAGE = 10**7


def write_tokens(path: Path, schema: pa.Schema, row_groups: Iterable[pa.Table]) -> None:
    """Token rows, a row group per table: zstd, dictionaries for integers only, byte-stream split for floats."""
    floats = [column.name for column in schema if pa.types.is_floating(column.type)]
    integers = [column.name for column in schema if pa.types.is_integer(column.type)]
    layout = {"compression": "zstd", "use_dictionary": integers, "use_byte_stream_split": floats, "max_rows_per_page": ROWS_PER_PAGE}
    with _Beside(path) as beside, pq.ParquetWriter(beside, schema, **layout) as writer:
        for table in row_groups:
            writer.write_table(table.cast(schema), row_group_size=max(1, table.num_rows))


def write_small(path: Path, table: pa.Table) -> None:
    """A table of sums, written the same way."""
    with _Beside(path) as beside:
        pq.write_table(table, beside, compression="zstd", use_dictionary=False)


class _Beside:
    """A name to write under; renamed to the final one when all is on the disk, removed when something fails."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.beside = path.with_name(f".{path.name}.{os.getpid()}.writing")

    def __enter__(self) -> Path:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        return self.beside

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                _sync(self.beside)
                self.beside.replace(self.path)
                _sync(self.path.parent)
        finally:
            self.beside.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
