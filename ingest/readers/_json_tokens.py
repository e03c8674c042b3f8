"""Token dumps in JSON lines, one response a line: read in ranges of bytes, so that a step of any size needs little memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from ingest.readers._json import parsed
from ingest.readers._responses_table import Misfit, Response, table
from ingest.readers._tally import Tally
from ingest.run import ProblemKind, ReadProblem
from ingest.tokens import TokenPiece

# A range is what one thread holds; a line belongs to the range in which it begins, so ranges are found without reading the file.
RANGE_BYTES = 32 * 2**20
# One response: 262,144 tokens with eight columns, as long as any engine samples, are 40 MB.
MAX_TOKEN_LINE = 64 * 2**20
_BLOCK = 2**20
# What a line of each dump has, and no step log.
NEMO_RL = ("generation_logprobs", "input_lengths")
PRIME_RL = ("inference_logprobs", "trainer_logprobs")

Understand = Callable[[dict[str, Any], int], Response]  # one line's object, and where it begins -> its tokens; raises Misfit


@dataclass
class _Range:
    """What has been read of one range."""

    path: Path
    start: int
    responses: list[Response] = field(default_factory=list)
    wrong: dict[str, Tally] = field(default_factory=dict)  # what is wrong -> at which lines
    cut: str = ""  # the place of a last line that is not finished
    first_line: int | None = None

    def place(self, index: int) -> str:
        """Name a line by its number in the file; the lines before the range are counted only when one must be named."""
        if self.first_line is None:
            self.first_line = _lines_before(self.path, self.start)
        return f"line {self.first_line + index}"

    def problems(self) -> tuple[ReadProblem, ...]:
        """One problem for each thing that is wrong; its rows are responses."""
        said = [problem for what, tally in self.wrong.items() for problem in tally.problems(str(self.path), what)]
        if self.cut:
            what = "the last line is cut, as in a dump that is being written; it is not read"
            said.append(ReadProblem(path=str(self.path), place=self.cut, what=what, kind=ProblemKind.NOTE))
        return tuple(said)


def open_dump(path: Path, names: Mapping[str, str], understand: Understand) -> TokenPiece:
    """Look at one file of a dump without reading it.

    Args:
        path: the file.
        names: column of the dump -> canonical column, as far as this file has them.
        understand: what makes tokens of a line.
    """
    stat = path.stat()
    return TokenPiece(
        path=path,
        rename=dict(names),
        row_groups=max(1, -(-stat.st_size // RANGE_BYTES)),
        rows=None,
        size=stat.st_size,
        mtime_ns=stat.st_mtime_ns,
        read=partial(_read, understand=understand),
    )


def first_object(path: Path) -> dict[str, Any] | None:
    """Give the first line of a file as an object; None where it is none, or longer than any response."""
    with path.open("rb") as file:
        opening = file.read(16)
        if not opening.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{"):
            return None
        file.seek(0)
        line = file.readline(MAX_TOKEN_LINE)
    return parsed(line.removeprefix(b"\xef\xbb\xbf")) if len(line) < MAX_TOKEN_LINE else None


def is_dump(path: Path) -> bool:
    """Whether a file is a token dump, so no step log."""
    return any(objection(path, marks) is None for marks in (NEMO_RL, PRIME_RL))


def objection(path: Path, marks: tuple[str, ...]) -> str | None:
    """Why a file is no dump whose lines have these columns; None where it is."""
    row = first_object(path)
    if row is None:
        return "its first line is no JSON object"
    missing = [mark for mark in marks if mark not in row]
    return f"its first line has no {' and no '.join(missing)}" if missing else None


def _read(path: Path, index: int, understand: Understand) -> tuple[pa.Table, tuple[ReadProblem, ...]]:
    found = _Range(path=path, start=index * RANGE_BYTES)
    for number, (offset, line) in enumerate(_lines(path, found.start, found.start + RANGE_BYTES)):
        if line is None:
            found.wrong.setdefault(f"longer than {MAX_TOKEN_LINE // 2**20} MiB, so it is not read", Tally()).add(found.place(number))
        elif line.strip():
            _take(found, number, line, offset, understand)
    tokens, said = table(found.responses, str(path), f"bytes {found.start:,} to {min(found.start + RANGE_BYTES, path.stat().st_size):,}")
    return tokens, (*found.problems(), *said)


def _take(found: _Range, number: int, line: bytes, offset: int, understand: Understand) -> None:
    """Add one line's response, or what is wrong with it."""
    values = parsed(line.removeprefix(b"\xef\xbb\xbf") if offset == 0 else line)
    if values is None and not line.endswith(b"\n"):
        found.cut = found.place(number)
        return
    wrong = "no JSON object"
    if values is not None:
        try:
            found.responses.append(understand(values, offset))
        except Misfit as misfit:
            wrong = str(misfit)
        else:
            return
    found.wrong.setdefault(wrong, Tally()).add(found.place(number))


def _lines(path: Path, start: int, end: int) -> Iterator[tuple[int, bytes | None]]:
    """Yield where each line begins and its bytes, None for one that is too long, of the lines that begin in [start, end)."""
    with path.open("rb") as file:
        if start:
            file.seek(start - 1)
            _to_line_end(file)
        while (offset := file.tell()) < end and (line := file.readline(MAX_TOKEN_LINE)):
            if len(line) < MAX_TOKEN_LINE or line.endswith(b"\n"):
                yield offset, line
            else:
                _to_line_end(file)
                yield offset, None


def _to_line_end(file: Any) -> None:  # noqa: ANN401 - a binary file; its type has no short name
    """Read on to the end of the line, a block at a time: a file need not have any line breaks."""
    while (block := file.readline(_BLOCK)) and not block.endswith(b"\n"):
        pass


def _lines_before(path: Path, offset: int) -> int:
    """Number of the first line that begins at or after an offset."""
    if offset == 0:
        return 1
    count, left = 1, offset - 1
    with path.open("rb") as file:
        while left and (block := file.read(min(_BLOCK, left))):
            count += block.count(b"\n")
            left -= len(block)
    return count + 1
