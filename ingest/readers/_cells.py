"""A CSV file as columns of numbers, each with the line it stands on; blank cells are absent, nothing is filled."""

from __future__ import annotations

import csv
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from ingest._bounds import check_columns, check_text
from ingest.errors import ReadError
from ingest.readers._numbers import number
from ingest.readers._tally import Tally
from ingest.readers._text import empty, encoding
from ingest.run import ProblemKind, ReadProblem


@dataclass
class Column:
    """The cells of one column that say something: numbers with their lines, and the lines of what is no number."""

    name: str
    lines: array[int] = field(default_factory=lambda: array("q"))
    values: array[float] = field(default_factory=lambda: array("d"))
    junk: Tally = field(default_factory=Tally)

    def add(self, line: int, cell: str) -> None:
        """Take one cell; a blank one says nothing."""
        if not (text := cell.strip()):
            return
        if (value := number(text)) is None:
            self.junk.add(f"line {line}, column {self.name}")
            return
        self.lines.append(line)
        self.values.append(value)

    @property
    def cells(self) -> int:
        """Cells that are not blank."""
        return len(self.values) + self.junk.count

    def at(self, lines: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Values on the lines asked for, NaN where the cell is blank, and whether there is a number."""
        own, values = np.array(self.lines, np.int64), np.array(self.values, np.float64)
        if not own.size:
            return np.full(lines.size, np.nan), np.zeros(lines.size, bool)
        place = np.minimum(np.searchsorted(own, lines), own.size - 1)
        there = own[place] == lines
        return np.where(there, values[place], np.nan), there


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """All columns of a file, and what was wrong with its shape."""

    columns: tuple[Column, ...]
    problems: tuple[ReadProblem, ...]


class CutError(ReadError):
    """The file ends inside a quoted cell: it was cut, or a quote was lost further up."""

    def __init__(self, path: Path, first: int, last: int) -> None:
        """Name the lines that cannot be told apart."""
        found = f"a quote opened in line {first} and never closed"
        super().__init__(f"{path}, line {first}", expected="closed quotes", found=found, remedy="Export the file again.")
        what = "the file ends inside a quoted cell: it was cut, or a quote was lost; these lines are not read"
        self.problem = ReadProblem(path=str(path), place=f"lines {first} to {last}", what=what, rows=max(1, last - first + 1))


def records(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield last line number and cells of every record that is not blank, the header first.

    Raises:
        ReadError: empty, not text, not UTF-8 or UTF-16, or quoted in a way that no CSV is.
        TooLargeError: beyond the bounds of `ingest._bounds`.
    """
    check_text(path, path.stat().st_size)
    line = 0
    with path.open(encoding=encoding(path), newline="") as file:
        reader = csv.reader(file, strict=True)
        try:
            for cells in reader:
                line = reader.line_num
                if cells:
                    check_columns(path, len(cells))
                    yield line, cells
        except (csv.Error, UnicodeError) as broken:
            raise _broken(path, line + 1, reader.line_num, broken) from broken


def header(path: Path) -> list[str]:
    """Read the names of the columns.

    Raises:
        ReadError: see `records`.
    """
    for _, names in records(path):
        return [name.strip() for name in names]
    raise empty(path)


def _broken(path: Path, first: int, last: int, broken: Exception) -> ReadError:
    if str(broken) == "unexpected end of data":
        return CutError(path, first, last)
    where = f"{path}, line {last}"
    return ReadError(where, expected="comma-separated UTF-8 text", found=str(broken), remedy="Export the file again.")


def sheet(path: Path) -> Sheet:
    """Read all cells as numbers.

    Raises:
        ReadError: see `records`.
    """
    columns = tuple(Column(name=name) for name in header(path))
    short, long = Tally(), Tally()
    cut: list[ReadProblem] = []
    for line, cells in _until_cut(records(path), cut):
        for column, cell in zip(columns, cells, strict=False):
            column.add(line, cell)
        if len(cells) < len(columns):
            short.add(f"line {line}")
        for cell in cells[len(columns) :]:
            if cell.strip():
                long.add(f"line {line}")
    return Sheet(columns=columns, problems=(*_notes(short, path), *long.problems(str(path), "cells beyond the last column"), *cut))


def _until_cut(found: Iterator[tuple[int, list[str]]], cut: list[ReadProblem]) -> Iterator[tuple[int, list[str]]]:
    """Pass the records behind the header on; a quote that is never closed ends them and is noted in `cut`."""
    next(found)
    try:
        yield from found
    except CutError as open_quote:
        cut.append(open_quote.problem)


def _notes(tally: Tally, path: Path) -> list[ReadProblem]:
    what = "fewer cells than the header has columns; the others count as blank"
    return [replace(problem, rows=0, kind=ProblemKind.NOTE) for problem in tally.problems(str(path), what)]
