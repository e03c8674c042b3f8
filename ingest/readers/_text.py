"""What a text file is encoded as, and how it begins: enough to recognise it by content."""

from __future__ import annotations

import codecs
from pathlib import Path

from ingest.errors import ReadError

_HEAD = 65_536
_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


def encoding(path: Path) -> str | None:
    """Name the encoding of a text file: by its byte order mark, else UTF-8; None where it holds bytes that no text has."""
    with path.open("rb") as file:
        head = file.read(_HEAD)
    for mark, name in _MARKS:
        if head.startswith(mark):
            return name
    return None if b"\0" in head else "utf-8"


def opening(path: Path) -> str | None:
    """Give the first line that is not blank; None for what is no text, "" for an empty file."""
    if not path.is_file() or (named := encoding(path)) is None:
        return None
    with path.open(encoding=named, errors="replace") as file:
        return next((line for line in file.read(_HEAD).splitlines() if line.strip()), "")


def empty(path: Path) -> ReadError:
    """The error for a file without content."""
    return ReadError(str(path), expected="at least one line", found="an empty file", remedy="Was the export finished?")
