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
from ingest.readers._quick_cells import quick_cells
from ingest.readers._tally import Tally
from ingest.readers._text import empty, encoding
from ingest.run import ProblemKind, ReadProblem


def _no_lines() -> np.ndarray:
    return np.zeros(0, np.int64)


def _no_values() -> np.ndarray:
    return np.zeros(0, np.float64)


@dataclass(frozen=True, kw_only=True)
class Column:
    """The cells of one column that say something: numbers with their lines, and the lines of what is no number."""

    name: str
    lines: np.ndarray = field(default_factory=_no_lines)  # int64, ascending
    values: np.ndarray = field(default_factory=_no_values)  # float64, same length
    junk: Tally = field(default_factory=Tally)

    @property
    def cells(self) -> int:
        """Cells that are not blank."""
        return len(self.values) + self.junk.count

    def at(self, lines: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Values on the lines asked for, NaN where the cell is blank, and whether there is a number."""
        place, there = places(self.lines, lines)
        return np.where(there, self.values[place], np.nan) if self.lines.size else np.full(lines.size, np.nan), there


def places(lines: np.ndarray, asked: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where each line asked for stands among ascending lines, and whether it does."""
    if lines is asked or np.array_equal(lines, asked):
        return np.arange(asked.size), np.ones(asked.size, bool)
    if not lines.size:
        return np.zeros(asked.size, np.int64), np.zeros(asked.size, bool)
    place = np.minimum(np.searchsorted(lines, asked), lines.size - 1)
    return place, lines[place] == asked


@dataclass
class _Growing:
    """A column as it is read, cell by cell."""

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

    def column(self) -> Column:
        """The column, all read."""
        return Column(name=self.name, lines=np.array(self.lines, np.int64), values=np.array(self.values, np.float64), junk=self.junk)


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


def records(path: Path, delimiter: str = ",") -> Iterator[tuple[int, list[str]]]:
    """Yield last line number and cells of every record that is not blank, the header first.

    Raises:
        ReadError: empty, not text, not UTF-8 or UTF-16, or quoted in a way that no CSV is.
        TooLargeError: beyond the bounds of `ingest._bounds`.
    """
    check_text(path, path.stat().st_size)
    line = 0
    with path.open(encoding=encoding(path), newline="") as file:
        reader = csv.reader(file, strict=True, delimiter=delimiter)
        try:
            for cells in reader:
                line = reader.line_num
                if cells:
                    check_columns(path, len(cells))
                    yield line, cells
        except (csv.Error, UnicodeError) as broken:
            raise _broken(path, line + 1, reader.line_num, broken) from broken


def header(path: Path, delimiter: str = ",") -> list[str]:
    """Read the names of the columns.

    Raises:
        ReadError: see `records`.
    """
    for _, names in records(path, delimiter):
        return [name.strip() for name in names]
    raise empty(path)


def _broken(path: Path, first: int, last: int, broken: Exception) -> ReadError:
    if str(broken) == "unexpected end of data":
        return CutError(path, first, last)
    where = f"{path}, line {last}"
    return ReadError(where, expected="comma-separated UTF-8 text", found=str(broken), remedy="Export the file again.")


def sheet(path: Path, delimiter: str = ",") -> Sheet:
    """Read all cells as numbers.

    Raises:
        ReadError: see `records`.
    """
    names = header(path, delimiter)
    if (quick := quick_cells(path, names, delimiter)) is not None:
        return Sheet(columns=tuple(Column(name=one.name, lines=one.lines, values=one.values) for one in quick), problems=())
    growing = [_Growing(name=name) for name in names]
    short, long = Tally(), Tally()
    cut: list[ReadProblem] = []
    for line, cells in _until_cut(records(path, delimiter), cut):
        for column, cell in zip(growing, cells, strict=False):
            column.add(line, cell)
        if len(cells) < len(growing):
            short.add(f"line {line}")
        for cell in cells[len(growing) :]:
            if cell.strip():
                long.add(f"line {line}")
    problems = (*_notes(short, path), *long.problems(str(path), "cells beyond the last column"), *cut)
    return Sheet(columns=tuple(column.column() for column in growing), problems=problems)


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
