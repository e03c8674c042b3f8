"""verl's console lines: `step:12 - actor/pg_loss:0.1 - …`, found in whatever else a terminal or Ray's driver log shows around them."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, cast

from ingest._bounds import MAX_LINE_BYTES, MAX_TEXT_BYTES, check_text
from ingest.errors import ReadError, TooLargeError

_GZIP = b"\x1f\x8b"
_SEARCHED = 32 * 2**20  # bytes of a console log that may pass before the first step: engines report their start at length
_BLOCK = 1 << 20
_LONGEST_HEAD = 4096  # bytes of a line before its step and behind it that a search across two blocks needs
_WORD = b"step:"
_COLOURS = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07")
# The step is where a word begins, so that `global_step:3` or a sentence about a step is not taken for it.
STEP_LINE = re.compile(rb"(?:^|^\xef\xbb\xbf|(?<=[\s)\]|]))step:(-?\d{1,19}) - (?=[^\s:]+:)")


def is_console(path: Path) -> bool:
    """Whether a file, or what it unpacks to, has a line of verl's."""
    seen = path.stat()
    return _is_console(path, seen.st_size, seen.st_mtime_ns)


@lru_cache(maxsize=64)
def _is_console(path: Path, _size: int, _mtime_ns: int) -> bool:
    """Search a file once, however many readers ask."""
    tail, searched = b"", 0
    with path.open("rb") as file:
        source = _unpacked(file)
        try:
            while searched < _SEARCHED and (block := source.read(_BLOCK)):
                searched += len(block)
                near = _WORD in block or _WORD in tail + block[: len(_WORD)]
                if near and STEP_LINE.search(_COLOURS.sub(b"", tail + block)):
                    return True
                tail = block[block.rfind(b"\n") + 1 :][-_LONGEST_HEAD:]
        except (OSError, EOFError, zlib.error):
            return False
    return False


def _unpacked(file: BinaryIO) -> BinaryIO:
    packed = file.read(2) == _GZIP
    file.seek(0)
    return cast("BinaryIO", gzip.GzipFile(fileobj=file)) if packed else file


def console_lines(path: Path) -> Iterator[tuple[int, bytes, bool]]:
    """Yield number, text without colours, and whether the file ends within it; a progress bar's returns end a line too.

    Raises:
        ReadError: a damaged gzip file; TooLargeError beyond the bound on text.
    """
    check_text(path, path.stat().st_size)
    with path.open("rb") as file:
        source = _unpacked(file)
        read = number = 0
        try:
            while line := source.readline(MAX_LINE_BYTES):
                number += 1
                if (read := read + len(line)) > MAX_TEXT_BYTES:
                    expected = f"at most {MAX_TEXT_BYTES // 2**20} MiB of text"
                    raise TooLargeError(str(path), expected=expected, found="more, unpacked", remedy="Keep the lines with 'step:' only.")
                for part in _COLOURS.sub(b"", line).rstrip(b"\r\n").split(b"\r"):
                    yield number, part, not line.endswith(b"\n")
        except (OSError, EOFError, zlib.error) as broken:
            found = f"a damaged one ({broken})"
            raise ReadError(f"{path}, line {number + 1}", expected="a whole gzip file", found=found, remedy="Copy it again.") from broken
