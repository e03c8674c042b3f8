"""Where a run's parts lie, and how a recorded table reaches the disk: closed, complete and under its final name, or not at all."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from monitor.metrics import stored

TOKENS_FILE, TOKENS_FOLDER, SUPERSEDED = "tokens.parquet", "tokens", "superseded"
_NAMES = re.compile(r"step=[0-9]+/rank=[0-9]+\.parquet")
# A page that holds the whole row group lets byte-stream-split floats compress; the default of 20,000 rows a page defeats it
# (docs/benchmarks.md says what each choice is worth).
ROWS_PER_PAGE = 10**7
RISING = ("position",)  # one more than in the row before, nearly always: differences are half as large and faster than a dictionary


def part_of(run_dir: Path, step: int, rank: int) -> Path:
    """Where the part of a step and rank lies."""
    return run_dir / TOKENS_FOLDER / f"step={step:06d}" / f"rank={rank:03d}.parquet"


def parts(run_dir: Path) -> list[Path]:
    """Every part of a run, by step and rank as numbers: the names sort wrongly once a number outgrows its zeros."""
    return sorted((path for path in _named(run_dir) if _NAMES.fullmatch(f"{path.parent.name}/{path.name}")), key=place)


def strays(run_dir: Path) -> list[Path]:
    """Files that are named almost as parts are, without a step or rank that is a number; nobody knows what they hold."""
    return sorted(path for path in _named(run_dir) if not _NAMES.fullmatch(f"{path.parent.name}/{path.name}"))


def _named(run_dir: Path) -> list[Path]:
    found = (run_dir / TOKENS_FOLDER).glob("step=*/rank=*.parquet")
    return [path for path in found if not path.name.endswith(stored.SUFFIX)]


def place(part: Path) -> tuple[int, int]:
    """Step and rank of a part."""
    return int(part.parent.name.removeprefix("step=")), int(part.stem.removeprefix("rank="))


def write_tokens(path: Path, schema: pa.Schema, row_groups: Iterable[pa.Table]) -> None:
    """Token rows, a row group per table: zstd, byte-stream split for floats, differences for positions, dictionaries for other integers."""
    encodings = {column.name: "BYTE_STREAM_SPLIT" for column in schema if pa.types.is_floating(column.type)}
    encodings |= {name: "DELTA_BINARY_PACKED" for name in schema.names if name in RISING}
    layout: dict[str, Any] = {"compression": "zstd", "column_encoding": encodings, "max_rows_per_page": ROWS_PER_PAGE}
    layout["use_dictionary"] = [column.name for column in schema if pa.types.is_integer(column.type) and column.name not in RISING]
    layout["write_page_checksum"] = True  # a bit that flips on a disk is a refusal, not a number
    with _Beside(path) as beside, pq.ParquetWriter(beside, schema, **layout) as writer:
        for table in row_groups:
            writer.write_table(table.cast(schema), row_group_size=max(1, table.num_rows))


def write_small(path: Path, table: pa.Table) -> None:
    """A table of sums, written the same way."""
    with _Beside(path) as beside:
        pq.write_table(table, beside, compression="zstd", use_dictionary=False)


def write_text(path: Path, text: str) -> None:
    """A note, written the same way."""
    with _Beside(path) as beside:
        beside.write_text(text, encoding="utf-8")


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
