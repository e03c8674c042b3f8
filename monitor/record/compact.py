"""A run's parts as one file: `tokens.parquet`, a row group per step, with all sums beside it; and steps taken back out of both."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ingest.errors import ReadError
from ingest.tokens import OBJECTIVE, open_piece, ranges
from monitor.metrics import stored
from monitor.metrics.bounds import ClipBounds
from monitor.metrics.kernel import partials
from monitor.metrics.partial import StepPartial
from monitor.record import files

log = logging.getLogger(__name__)

RowGroups = dict[int, list[Callable[[], pa.Table]]]  # step -> what reads each of its row groups


def compact(run_dir: Path) -> Path:
    """Join the parts of a run into one file; parts recorded since an earlier call join the file it made.

    Both files are written beside and renamed; only then are the parts removed, so a run that is cut short in between has its
    tokens twice and never not at all, and the next call clears that up.

    Returns:
        `run_dir/tokens.parquet`; its sums are in `tokens.sums.parquet`, a row per step.

    Raises:
        ReadError: the run has no parts, its parts do not have the same columns, a part has other tokens of a step than the file, or one
            is named by no step and rank.
    """
    run_dir = Path(run_dir).expanduser()
    whole, found = run_dir / files.TOKENS_FILE, files.parts(run_dir)
    if not found:
        raise ReadError(str(run_dir), expected="parts under tokens/step=*/", found="none", remedy="Record steps first.")
    _refuse_strays(run_dir)
    before = [whole] if whole.exists() else []
    old, new = _compacted(whole) if before else {}, _joined(found)
    schema = _common_schema([*before, *found])
    _refuse_other(run_dir, old, new)
    _write(whole, schema, old | {step: read for step, read in new.items() if step not in old}, _bounds(schema, [*before, *found][0]))
    _remove(run_dir / files.TOKENS_FOLDER, found)
    return whole


def set_aside(run_dir: Path, step: int, *, rank: int | None = None) -> Path | None:
    """Take the steps from `step` on out of the log, because they are trained again; nothing is deleted.

    Parts are renamed into `tokens/superseded/<number>/`. A `tokens.parquet` with such steps is copied there as it is, and what is left
    of it takes its place. Call it once, before any process records, where fewer processes resume than recorded before.

    Args:
        run_dir: the run's folder.
        step: the first step that is trained again.
        rank: take out only the parts of this rank, and the compacted steps if it is rank 0; all by default.

    Returns:
        The folder with what was set aside; None where there was nothing.
    """
    run_dir = Path(run_dir).expanduser()
    whole = run_dir / files.TOKENS_FILE
    chosen = [part for part in files.parts(run_dir) if files.place(part)[0] >= step and rank in (None, files.place(part)[1])]
    compacted = _compacted(whole) if rank in (None, 0) and whole.exists() else {}
    if not chosen and not any(there >= step for there in compacted):
        return None
    aside = _free(run_dir / files.TOKENS_FOLDER / files.SUPERSEDED)
    for part in chosen:
        _move(part, aside / part.parent.name)
    if any(there >= step for there in compacted):
        _cut(whole, {there: read for there, read in compacted.items() if there < step}, aside)
    log.warning("%s: steps from %d on are recorded again; %d parts of them are set aside in %s", run_dir, step, len(chosen), aside)
    return aside


def _refuse_strays(run_dir: Path) -> None:
    """Once all others are in one file, a part of another name would be read beside it."""
    strays = files.strays(run_dir)
    if strays:
        remedy = "Name it so, or move it out of the folder tokens. Nothing was changed."
        raise ReadError(str(strays[0]), expected="a name like step=000012/rank=000.parquet", found="no number there", remedy=remedy)


def _write(whole: Path, schema: pa.Schema, steps: RowGroups, bounds: ClipBounds) -> None:
    sums: dict[int, StepPartial] = {}
    files.write_tokens(whole, schema, _row_groups(steps, bounds, sums))
    files.write_small(stored.beside(whole), stored.to_table(sums.values(), stored.stamp(whole, bounds)))


def _row_groups(steps: RowGroups, bounds: ClipBounds, sums: dict[int, StepPartial]) -> Iterator[pa.Table]:
    """The tables of each step, rising; their sums are put into `sums` on the way."""
    for step in sorted(steps):
        for read in steps[step]:
            table = read()
            for key, found in partials(table, bounds).items():
                sums[key] = sums[key].merge(found) if key in sums else found
            yield table


def _compacted(whole: Path) -> RowGroups:
    spans = ranges(open_piece(whole)[0], ("step",))
    if spans is None or any(low != high for ((low, high),) in spans):
        remedy = "Keep it under another name and in another folder; compact joins parts to a file that it wrote itself."
        raise ReadError(str(whole), expected="a row group per step", found="row groups of several steps", remedy=remedy)
    steps: RowGroups = {}
    for index, ((step, _),) in enumerate(spans):
        steps.setdefault(int(step), []).append(partial(_row_group, whole, index))
    return steps


def _joined(parts: list[Path]) -> RowGroups:
    """One table per step, its ranks joined in order."""
    steps: dict[int, list[Path]] = {}
    for path in parts:
        steps.setdefault(files.place(path)[0], []).append(path)
    return {step: [partial(_step, paths)] for step, paths in steps.items()}


def _row_group(path: Path, index: int) -> pa.Table:
    return _file(path).read_row_group(index)


def _step(paths: list[Path]) -> pa.Table:
    table = pa.concat_tables([_file(path).read().replace_schema_metadata() for path in paths])
    return table.take(pc.sort_indices(table, sort_keys=[("sample_id", "ascending"), ("position", "ascending")]))


def _file(path: Path) -> pq.ParquetFile:
    return pq.ParquetFile(path, page_checksum_verification=True)


def _refuse_other(run_dir: Path, old: RowGroups, new: RowGroups) -> None:
    """Parts whose step is in the file already must be those it was made from (a call that was cut short left them)."""
    for step in sorted(old.keys() & new.keys()):
        there = pa.concat_tables([read().replace_schema_metadata() for read in old[step]])
        if not _same(there, new[step][0]()):
            raise ReadError(
                str(run_dir),
                expected="each step either in tokens.parquet or in parts",
                found=f"step {step} in both, with other tokens",
                remedy=f"tokens.parquet is what is shown. Move tokens/step={step:06d} elsewhere; the next time a step is repeated, "
                f"say Recorder(..., resume_from=step), which takes it out of tokens.parquet first.",
            )


def _same(one: pa.Table, two: pa.Table) -> bool:
    """Equal bit by bit: a NaN is what was recorded, and equals itself here."""
    if one.column_names != two.column_names or one.num_rows != two.num_rows:
        return False
    return all(_bits(one.column(name)).equals(_bits(two.column(name))) for name in one.column_names)


def _bits(column: pa.ChunkedArray) -> pa.Array:
    array = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    return array.view(pa.int32()) if pa.types.is_float32(column.type) else array


def _common_schema(paths: list[Path]) -> pa.Schema:
    schemas = {path: pq.read_schema(path) for path in paths}
    first = schemas[paths[0]]
    for path, schema in schemas.items():
        if schema.names != first.names:
            raise ReadError(
                str(path),
                expected=f"the columns of {paths[0].name} in {paths[0].parent.name}: {', '.join(first.names)}",
                found=", ".join(schema.names),
                remedy="Keep the parts as they are; a run whose columns change is read from its parts.",
            )
    said = (schema.metadata for schema in schemas.values() if OBJECTIVE in (schema.metadata or {}))
    return first.with_metadata(next(said, first.metadata))


def _bounds(schema: pa.Schema, part: Path) -> ClipBounds:
    """The clip bounds the recorder used: as the schema says, or the sums beside a part; the defaults where neither does."""
    if OBJECTIVE in (schema.metadata or {}):
        return ClipBounds(**json.loads(schema.metadata[OBJECTIVE]))
    path = stored.beside(part)
    if not path.is_file():
        return ClipBounds()
    note = json.loads((pq.read_schema(path).metadata or {}).get(stored.NOTE, b"{}"))
    return ClipBounds(**note.get("bounds", {}))


def _remove(folder: Path, parts: list[Path]) -> None:
    for path in parts:
        stored.beside(path).unlink(missing_ok=True)
        path.unlink()
    for path in {part.parent for part in parts}:
        _remove_empty(path)
    _remove_empty(folder)


def _remove_empty(folder: Path) -> None:
    if not any(folder.iterdir()):
        folder.rmdir()


def _free(folder: Path) -> Path:
    """A new folder with the next number; two processes that ask at once get two."""
    number = 1
    while True:
        try:
            (made := folder / f"{number:03d}").mkdir(parents=True)
        except FileExistsError:
            number += 1
        else:
            return made


def _move(part: Path, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for path in (stored.beside(part), part):
        if path.exists():
            path.rename(folder / path.name)
    _remove_empty(part.parent)


def _cut(whole: Path, left: RowGroups, aside: Path) -> None:
    """Keep the file in `aside`, and put what is left of it in its place."""
    if left:
        schema = pq.read_schema(whole)
        shutil.copy2(whole, aside / whole.name)
        _write(whole, schema, left, _bounds(schema, whole))
    else:
        stored.beside(whole).unlink(missing_ok=True)
        whole.rename(aside / whole.name)
