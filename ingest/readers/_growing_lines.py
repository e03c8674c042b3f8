"""A JSONL step log that is being written: each look takes the lines that were finished since the one before."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from pathlib import Path

from ingest._bounds import MAX_LINE_BYTES, check_text
from ingest.errors import ReadError
from ingest.readers._appended import Appended, Change
from ingest.readers._grown import NOTHING, Grown
from ingest.readers._json import parsed
from ingest.readers._json_lines import Lines
from ingest.readers._text import encoding
from ingest.readers.jsonl import STEP_KEYS, axis_of, log_of, rank_of, unread
from ingest.run import RawLog, ReadProblem

_BOM = b"\xef\xbb\xbf"


class GrowingLines:
    """One file. Its last line is taken as soon as it is a whole object, whether or not a line break follows."""

    ended = False  # a step log does not say so

    troubles: tuple[ReadProblem, ...] = ()

    def __init__(self, path: Path) -> None:
        self._file = Appended(path)
        self._told = False  # whether any value of the file was ever handed out
        self._begin()

    def _begin(self) -> None:
        """Forget what was read."""
        self._file.forget()
        self._lines: Lines | None = None
        self._rank = len(STEP_KEYS)  # of the step axis among STEP_KEYS
        self._looked = 0  # bytes that the axis was looked for in
        self._number = 0  # lines read
        self._handed = 0  # values handed out
        self._lost = 0  # places that could not be read, of which was told
        self._rest = b""  # a line that is not finished
        self._open = False  # whether the last line that was read has no line break yet

    def more(self) -> Grown:
        """Read the lines that were finished since the last look.

        Raises:
            ReadError: a line is longer than any step log's, or the text is not UTF-8.
        """
        change = self._file.look()
        if change in {Change.NONE, Change.GONE}:
            return NOTHING
        if change is Change.ANEW:
            self._begin()
        try:
            if not self._read():  # a better axis, or a line that goes on: every line is read again
                self._begin()
                self._read()
        except BaseException:
            self._begin()
            raise
        return self._grown()

    def _grown(self) -> Grown:
        """What is other than what was handed out; after `_begin` that is all."""
        rows = len(self._lines.rows.values) if self._lines else 0
        handed, self._handed, self._told = self._handed, rows, self._told or bool(rows)
        if not handed:
            return Grown(anew=self._told)
        if self._lines is None:
            return NOTHING
        lost, self._lost = self._lost, self._lines.lost
        return Grown(fresh=self._lines.rows.since(handed), unread=unread(self._lines) if self._lost > lost else ())

    def logs(self) -> tuple[RawLog, ...]:
        """What has been read so far."""
        if self._lines is None or not self._lines.rows.values:
            return ()
        lines = replace(self._lines, rows=deepcopy(self._lines.rows))  # a table holds on to its columns, and more is to come
        if self._rest.strip():
            lines.take(self._number + 1, self._rest, is_last=True)
        return (log_of(lines),)

    def _started(self) -> Lines | None:
        """What the first lines decide: the encoding, and the step axis, for which all that is there is looked at."""
        path = self._file.path
        self._looked = path.stat().st_size
        if not self._looked:
            return None
        check_text(path, self._looked)
        if (named := encoding(path)) not in ("utf-8", "utf-8-sig"):
            raise ReadError(str(path), expected="JSON lines in UTF-8", found=f"{named} text", remedy="Save the file as UTF-8.")
        axis = axis_of(path)
        self._rank = STEP_KEYS.index(axis) if axis else len(STEP_KEYS)
        return Lines(path=path, axis=axis)

    def _read(self) -> bool:
        """Take what lies behind the offset; False where it changes what was read before."""
        self._lines = self._lines or self._started()
        if self._lines is None:
            return True
        offset, self._rest = self._file.offset, b""
        with self._file.path.open("rb") as file:
            file.seek(offset)
            while line := file.readline(MAX_LINE_BYTES):
                if len(line) >= MAX_LINE_BYTES:
                    where, expected = f"{self._file.path}, line {self._number + 1}", f"lines of at most {MAX_LINE_BYTES // 2**20} MiB"
                    raise ReadError(where, expected=expected, found="a longer one", remedy="Is it a step log?")
                if not self._take(self._lines, line, checked=offset + len(line) <= self._looked):
                    return False
                if self._rest:
                    break
                offset += len(line)
        self._lines.flush()
        self._file.reached(offset)
        return True

    def _take(self, lines: Lines, line: bytes, *, checked: bool) -> bool:
        """Take one line, or leave it for later where it is not finished; False where it changes what was read before."""
        finished = line.endswith(b"\n")
        if self._open:  # the end of a line that was read without it
            self._open = not finished
            return line.isspace()
        content = line if self._number else line.removeprefix(_BOM)
        if not finished and (content.isspace() or parsed(content) is None):
            self._rest = line
            return True
        self._number, self._open = self._number + 1, not finished
        if content.isspace():
            return True
        if not checked and rank_of(content, self._rank) < self._rank:
            return False
        lines.take(self._number, content, is_last=False)
        return True
