"""One file that others append to: whether more of it came, and whether what was read of it still stands there.

A file is known by its content, not by its inode: a copy that rsync renames into place goes on where the one before it stopped, and a new
file that got the old one's inode does not. So the bytes at the beginning, and those before the place where reading stopped, are remembered.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

_REMEMBERED = 512  # bytes at either place; a line of a log, or a record with its checksum
_Seen = tuple[int, int, int, int]  # device, inode, size, modification time in ns


class Change(StrEnum):
    """What a look at a file found."""

    NONE = "none"
    MORE = "more"  # bytes behind those that were read, or the same bytes under a new time
    ANEW = "anew"  # shorter than what was read of it, or other bytes there
    GONE = "gone"


class Appended:
    """How far a file has been read."""

    def __init__(self, path: Path) -> None:
        self.path, self.offset = path, 0
        self._seen: _Seen | None = None
        self._found: _Seen | None = None
        self._first = self._last = b""

    def look(self) -> Change:
        """Compare the file with what was read of it; one call of the system where nothing changed."""
        try:
            stat = self.path.stat()
            self._found = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)
            if self._found == self._seen:
                return Change.NONE
            stands = stat.st_size >= self.offset and (self._first, self._last) == self._remembered()
        except (FileNotFoundError, NotADirectoryError):
            self._seen = None
            return Change.GONE
        return Change.MORE if stands else Change.ANEW

    def reached(self, offset: int) -> None:
        """Note that the file was read up to here, after the last look; without it, the next look finds the same again."""
        self.offset, self._seen = offset, self._found
        self._first, self._last = self._remembered()

    def forget(self) -> None:
        """Begin again with the first byte."""
        self.offset, self._seen, self._first, self._last = 0, None, b"", b""

    def _remembered(self) -> tuple[bytes, bytes]:
        """The first bytes of what was read, and the last."""
        if not self.offset:
            return b"", b""
        length = min(_REMEMBERED, self.offset)
        with self.path.open("rb") as file:
            first = file.read(length)
            file.seek(self.offset - length)
            return first, file.read(length)
