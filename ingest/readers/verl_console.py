"""verl's console log: the metrics of each step on one line, amid everything else that was printed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ingest.errors import ReadError
from ingest.reader import Reader
from ingest.readers._console import STEP_LINE, console_lines, is_console
from ingest.readers._numbers import number
from ingest.readers._rows import INT64, Rows
from ingest.readers._tally import Tally
from ingest.readers._text import encoding
from ingest.run import ProblemKind, RawLog, ReadProblem

_BETWEEN = " - "
_REPEATED = " [repeated "  # what Ray appends where it leaves out the same line of other processes


@dataclass
class _Console:
    """What has been read of one log so far."""

    path: Path
    rows: Rows = field(default_factory=Rows)
    odd: Tally = field(default_factory=Tally)
    beyond: Tally = field(default_factory=Tally)
    other_lines: int = 0
    notes: list[ReadProblem] = field(default_factory=list)


def _objection(path: Path) -> str | None:
    if not path.is_file():
        return "it is a folder"
    with path.open("rb") as file:
        head = file.read(2)
    if head != b"\x1f\x8b" and encoding(path) not in ("utf-8", "utf-8-sig"):
        return "it is not a text file"
    if head[:1] in (b"{", b"[") and not _is_python(path):
        return "it is JSON"
    return None if is_console(path) else "no line of it reads 'step:N - key:value - …'"


def _is_python(path: Path) -> bool:
    """Whether a text begins with a printed dictionary, as verl prints its settings."""
    with path.open("rb") as file:
        return file.read(2) == b"{'"


def _read(path: Path) -> tuple[RawLog, ...]:
    console = _Console(path=path)
    try:
        for line_number, line, is_last in console_lines(path):
            _take(console, line_number, line, is_last=is_last)
    except ReadError as broken:
        if not console.rows.values:
            raise
        what = f"found {broken.found}: what stands before is read"
        console.notes.append(ReadProblem(path=str(path), place=broken.where.removeprefix(f"{path}, "), what=what, rows=1))
    return (_log(console),)


def _log(console: _Console) -> RawLog:
    path = str(console.path)
    if not console.rows.values and not console.odd.count and not console.beyond.count:
        found = "no line that begins like this"
        raise ReadError(path, expected="lines 'step:N - key:value - …'", found=found, remedy="Is it the log of verl's driver?")
    if console.other_lines:
        what = f"{console.other_lines} lines of other text are passed over"
        console.notes.append(ReadProblem(path=path, place="", what=what, kind=ProblemKind.NOTE))
    problems = (
        *console.odd.problems(path, "no number behind the key"),
        *console.beyond.problems(path, "the step does not fit 64 bits"),
        *console.notes,
        *console.rows.repeated(path),
    )
    name = console.path.name.removesuffix(".gz").rpartition(".")[0] or console.path.stem
    return RawLog(name=name, path=path, container=READER.id, scalars=console.rows.table(), axis="step", problems=problems)


def _take(console: _Console, line_number: int, line: bytes, *, is_last: bool) -> None:
    """Add the values of one line; a cut one is read up to its last whole value."""
    found = STEP_LINE.search(line)
    if found is None:
        console.other_lines += bool(line.strip())
        return
    step, text = int(found[1]), line[found.end() :].decode("utf-8", "replace")
    pieces = text.partition(_REPEATED)[0].split(_BETWEEN)
    if is_last:
        what = f"the file ends within this line, so its last value may be cut and is not read: {pieces[-1][:80]}"
        console.notes.append(ReadProblem(path=str(console.path), place=f"line {line_number}", what=what, kind=ProblemKind.NOTE))
        pieces.pop()
    for key, value in _pairs(pieces):
        if (read := number(value)) is None:
            console.odd.add(f"line {line_number}, key {key}", group=key)
        elif step not in INT64:
            console.beyond.add(f"line {line_number}, key {key}")
        else:
            console.rows.add(key, step, read)


def _pairs(pieces: list[str]) -> Iterator[tuple[str, str]]:
    """Key and value of each piece; the last colon divides them, for a key may hold one."""
    for piece in pieces:
        key, _, value = piece.strip().rpartition(":")
        yield (key, value) if key else (piece.strip()[:80], "")


READER = Reader(id="verl_console", title="verl console log", objection=_objection, read=_read)
