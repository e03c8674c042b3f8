"""A run's history as wandb exports it: Parquet parts (`run.download_history_exports`), or rows of `scan_history` as JSON lines."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from ingest._bounds import MAX_LINE_BYTES, check_text
from ingest.errors import ReadError, TooLargeError
from ingest.reader import Reader
from ingest.readers import _wandb_folder as folders
from ingest.readers._files import files_under
from ingest.readers._json import parsed
from ingest.readers._rows import clean
from ingest.readers._text import encoding, opening
from ingest.readers._wandb_parquet import SUFFIX, is_history, is_history_folder, run_of, take_part
from ingest.readers._wandb_values import Values, is_history_row
from ingest.run import ProblemKind, RawLog, ReadProblem


def _objection(path: Path) -> str | None:
    if path.is_dir():
        if folders.is_run(path):
            return "it is the folder of a run, with its records"
        return None if is_history_folder(path) else "the folder holds no Parquet parts with a column _step"
    if is_history(path):
        return None
    first = opening(path)
    if first is None:
        return "it is neither a text file nor Parquet with a column _step"
    return None if is_history_row(first) else "its first line is no JSON object with _step and _timestamp or _runtime"


def _read(path: Path) -> tuple[RawLog, ...]:
    if path.is_dir():
        found, problems = files_under(path, SUFFIX, 0)
        runs: dict[str, list[Path]] = {}
        for part in found:
            runs.setdefault(run_of(part), []).append(part)
        first, *others = [_run(name or path.resolve().name, str(path), parts) for name, parts in runs.items()]
        return (replace(first, problems=(*problems, *first.problems)), *others)
    if is_history(path):
        return (_run(run_of(path) or path.stem, str(path), [path]),)
    return (_rows(path),)


def _run(name: str, path: str, parts: list[Path]) -> RawLog:
    """One run from its parts, whose order their names do not tell; a damaged one is listed, unless all are."""
    values = Values()
    damaged: list[ReadError] = []
    for part in parts:
        try:
            take_part(values, part)
        except TooLargeError:
            raise
        except ReadError as broken:
            damaged.append(broken)
    if len(damaged) == len(parts):
        raise damaged[0]
    lost = [ReadProblem(path=broken.where, place="whole file", what=f"not read: {broken}", rows=1) for broken in damaged]
    return _log(name, path, values, lost)


def _rows(path: Path) -> RawLog:
    """One run from JSON lines."""
    check_text(path, path.stat().st_size)
    if (named := encoding(path)) not in ("utf-8", "utf-8-sig"):
        raise ReadError(str(path), expected="JSON lines in UTF-8", found=f"{named} text", remedy="Save the file as UTF-8.")
    values = Values()
    problems: list[ReadProblem] = []
    for number, line, is_last in _lines(path):
        row = parsed(line)
        if row is not None:
            values.take_row(row, f"line {number}")
        elif is_last:
            what = "the last line is cut, as in a file that is being written; it is not read"
            problems.append(ReadProblem(path=str(path), place=f"line {number}", what=what, kind=ProblemKind.NOTE))
        else:
            values.broken.add(f"line {number}")
    return _log(path.stem, str(path), values, problems)


def _lines(path: Path) -> Iterator[tuple[int, bytes, bool]]:
    """Yield number and content of each line that is not blank, and whether the file ends in it without a line break."""
    with path.open("rb") as file:
        for number, line in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES), b""), start=1):
            if len(line) >= MAX_LINE_BYTES:
                expected = f"lines of at most {MAX_LINE_BYTES // 2**20} MiB"
                raise TooLargeError(f"{path}, line {number}", expected=expected, found="a longer one", remedy="Is it a history?")
            if line.strip():
                yield number, line.removeprefix(codecs.BOM_UTF8) if number == 1 else line, not line.endswith(b"\n")


def _log(name: str, path: str, values: Values, problems: list[ReadProblem]) -> RawLog:
    scalars = values.table()
    order = np.argsort(scalars.column("step").to_numpy(), kind="stable")
    said = (*problems, *values.problems(path), *values.rows.repeated(path))
    return RawLog(name=clean(name), path=path, container=READER.id, scalars=scalars.take(pa.array(order)), problems=said)


READER = Reader(id="wandb_history", title="wandb history export", objection=_objection, read=_read)
