"""A finished run's parts as one file: `tokens.parquet`, a row group per step, with all sums beside it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ingest.errors import ReadError
from monitor.metrics import stored
from monitor.metrics.bounds import ClipBounds
from monitor.metrics.kernel import partials
from monitor.metrics.partial import StepPartial
from monitor.record import files


def compact(run_dir: Path) -> Path:
    """Join the parts of a run into one file.

    Both files are written beside and renamed; only then are the parts removed, so a run that is cut short in between has its
    tokens twice and never not at all.

    Returns:
        `run_dir/tokens.parquet`; its sums are in `tokens.sums.parquet`, a row per step.

    Raises:
        ReadError: the run has no parts, or its parts do not have the same columns.
    """
    run_dir = Path(run_dir)
    parts = _parts(run_dir)
    schema = _common_schema(parts)
    bounds = _bounds(parts[0])
    whole = run_dir / "tokens.parquet"
    sums: list[StepPartial] = []
    files.write_tokens(whole, schema, _row_groups(parts, bounds, sums))
    files.write_small(stored.beside(whole), stored.to_table(sums, stored.stamp(whole, bounds)))
    _remove(run_dir / "tokens", parts)
    return whole


def _parts(run_dir: Path) -> list[Path]:
    named = (run_dir / "tokens").glob("step=*/rank=*.parquet")
    found = sorted((path for path in named if not path.name.endswith(stored.SUFFIX)), key=_place)
    whole = run_dir / "tokens.parquet"
    if not found:
        raise ReadError(str(run_dir), expected="parts under tokens/step=*/", found="none", remedy="Record steps first.")
    if whole.exists():
        raise ReadError(
            str(run_dir),
            expected="either parts or tokens.parquet",
            found="both",
            remedy="If compacting was cut short, remove tokens.parquet and compact again; the parts are complete.",
        )
    return found


def _place(part: Path) -> tuple[int, int]:
    """Step and rank from the part's path, as numbers: the names sort wrongly once a number outgrows its zeros."""
    return int(part.parent.name.removeprefix("step=")), int(part.stem.removeprefix("rank="))


def _common_schema(parts: list[Path]) -> pa.Schema:
    schemas = {path: pq.read_schema(path) for path in parts}
    first = schemas[parts[0]]
    for path, schema in schemas.items():
        if schema.names != first.names:
            raise ReadError(
                str(path),
                expected=f"the columns of {parts[0].name} in {parts[0].parent.name}: {', '.join(first.names)}",
                found=", ".join(schema.names),
                remedy="Keep the parts as they are; a run whose columns change is read from its parts.",
            )
    return first


def _bounds(part: Path) -> ClipBounds:
    """The clip bounds the recorder used, from the sums beside its first part; the defaults where there are none."""
    path = stored.beside(part)
    if not path.is_file():
        return ClipBounds()
    note = json.loads((pq.read_schema(path).metadata or {}).get(stored.NOTE, b"{}"))
    return ClipBounds(**note.get("bounds", {}))


def _row_groups(parts: list[Path], bounds: ClipBounds, sums: list[StepPartial]) -> Iterator[pa.Table]:
    """One table per step, its ranks joined in order; its sums are appended to `sums` on the way."""
    steps: dict[Path, list[Path]] = {}
    for path in parts:
        steps.setdefault(path.parent, []).append(path)
    for paths in steps.values():
        table = pa.concat_tables([pq.ParquetFile(path).read() for path in paths])
        table = table.take(pc.sort_indices(table, sort_keys=[("sample_id", "ascending"), ("position", "ascending")]))
        sums.extend(partials(table, bounds).values())
        yield table


def _remove(folder: Path, parts: list[Path]) -> None:
    for path in parts:
        stored.beside(path).unlink(missing_ok=True)
        path.unlink()
    for path in sorted(folder.iterdir()):
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()
    if not any(folder.iterdir()):
        folder.rmdir()
