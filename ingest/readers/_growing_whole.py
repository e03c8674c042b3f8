"""A log of a container that has no way of its own to be followed: it is read whole whenever its files changed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from ingest.errors import RatiometerError
from ingest.reader import Reader
from ingest.readers._grown import NOTHING, Grown
from ingest.run import RawLog, ReadProblem

_SHARE = 10  # times what a look and a reading took, before the next; so a large log takes a tenth of one core at most
_LONGEST_WAIT = 10.0  # seconds for which a file that changes all the time, and ends in no line, is taken for half written
_DEEPEST, _MOST = 5, 20_000  # levels of folders, and files, whose size and time are looked at
_State = tuple[tuple[str, int, int, int], ...]


class ReadWhole:
    """The runs at one path. Where a file does not end in a line break, it is read once it stopped changing from one look to the next."""

    ended = False

    troubles: tuple[ReadProblem, ...] = ()

    def __init__(self, path: Path, reader: Reader, clock: Callable[[], float]) -> None:
        self.path, self._reader, self._clock = path, reader, clock
        self._logs: tuple[RawLog, ...] = ()
        self._read: _State | None = None  # the state that was read
        self._seen: _State | None = None  # at the last look
        self._error: Exception | None = None
        self._due = self._waits_since = -float("inf")

    def more(self) -> Grown:
        """Read everything again, if anything changed.

        Raises:
            RatiometerError, OSError: as the reader, at every look until the files change.
        """
        begun = self._clock()
        if begun < self._due:
            return self._nothing()
        before, self._seen = self._seen, _state(self.path)
        if self._seen and self._seen != self._read and self._settled(before, begun):
            self._read_all()
            self._due = self._clock() + _SHARE * (self._clock() - begun)
            return Grown(anew=True)
        self._due = self._clock() + _SHARE * (self._clock() - begun)
        return self._nothing()

    def logs(self) -> tuple[RawLog, ...]:
        """What was read last."""
        return self._logs

    def _nothing(self) -> Grown:
        if self._error is not None:
            raise self._error
        return NOTHING

    def _settled(self, before: _State | None, now: float) -> bool:
        """Whether nobody seems to be in the middle of writing."""
        if self._seen == before or self._read is None or (self.path.is_file() and _ends_in_line(self.path)):
            self._waits_since = -float("inf")
            return True
        if self._waits_since == -float("inf"):
            self._waits_since = now
        return now - self._waits_since > _LONGEST_WAIT

    def _read_all(self) -> None:
        self._read, self._error = self._seen, None
        try:
            self._logs = self._reader.read(self.path)
        except (RatiometerError, OSError) as error:
            self._error = error
            raise


def _ends_in_line(path: Path) -> bool:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1))
        return file.read(1) == b"\n"


def _state(path: Path) -> _State:
    """Name, inode, size and time of the files at a path; empty where there is none."""
    try:
        if path.is_file():
            return (_key("", path.stat()),)
        return tuple(sorted(_below(path, "", _DEEPEST, [_MOST])))
    except (FileNotFoundError, NotADirectoryError):
        return ()


def _below(folder: Path, name: str, levels: int, left: list[int]) -> Iterator[tuple[str, int, int, int]]:
    for entry in os.scandir(folder):
        if left[0] <= 0:
            return
        if entry.is_dir(follow_symlinks=False):
            if levels:
                yield from _below(folder / entry.name, f"{name}{entry.name}/", levels - 1, left)
        else:
            left[0] -= 1
            yield _key(name + entry.name, entry.stat())


def _key(name: str, stat: os.stat_result) -> tuple[str, int, int, int]:
    return name, stat.st_ino, stat.st_size, stat.st_mtime_ns
