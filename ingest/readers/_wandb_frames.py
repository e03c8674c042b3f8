"""The records of a `.wandb` file, as bytes: where each begins, and what was lost to damage or to a cut end.

The framing is LevelDB's log (google/leveldb, `doc/log_format.md`) behind a header of wandb's own: blocks of 32 KiB hold chunks, and one
chunk, or a first, some middle and a last one, make a record. A chunk has a checksum, its length and its type. After damage the next block
is a fresh start, so little more than the damaged block is lost.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO
from zlib import crc32

from ingest.errors import ReadError, TooLargeError

MAGIC = b":W&B"
HEADER = 7  # the magic word, two bytes that repeat it as a number, a version
_NUMBER = b"\xe1\xbe"
KNOWN_VERSIONS = (0, 1)  # both framed alike
_BLOCK = 32_768
_CHUNK = struct.Struct("<IHB")  # checksum, length, type
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_SEEDS = {kind: crc32(bytes([kind])) for kind in (_FULL, _FIRST, _MIDDLE, _LAST)}  # the type is part of what is summed
# wandb 0.17.0 to 0.17.5 counted blocks from the end of the header, every other version from the start of the file.
_ORIGINS = (0, HEADER)
# 10,000 steps of 50 metrics are 44 MB, of which 14 MB stay in memory.
MAX_BYTES = 8 * 2**30
# A record holds one step, or the run's settings; the largest public settings have 20,000 keys.
MAX_RECORD_BYTES = 64 * 2**20


@dataclass
class Losses:
    """What was not read of a file: offsets of damage, and where the file stops inside a record."""

    damaged: list[tuple[int, str]] = field(default_factory=list)  # offset, what is wrong there
    cut_at: int | None = None  # where the record begins that the end of the file cuts in two
    unfinished_at: int | None = None  # the same, where the file ends between two chunks, as one that is being written does


def version_of(path: Path) -> int | None:
    """The version of the framing; None where the file is no `.wandb` file."""
    with path.open("rb") as file:
        head = file.read(HEADER)
    whole = len(head) == HEADER and head.startswith(MAGIC) and head[len(MAGIC) :].startswith(_NUMBER)
    return head[-1] if whole else None


def check_size(path: Path) -> None:
    """Refuse a file that is larger than any run's.

    Raises:
        TooLargeError: it has more than MAX_BYTES.
    """
    if (size := path.stat().st_size) > MAX_BYTES:
        expected = f"a .wandb file of at most {MAX_BYTES // 2**30} GiB"
        raise TooLargeError(str(path), expected=expected, found=f"{size / 2**30:.1f} GiB", remedy="Export the run's history as Parquet.")


def origin_of(path: Path) -> int:
    """Where blocks are counted from: the start of the file, unless counting from behind the header finds less damage."""
    return min(_ORIGINS, key=lambda origin: _damage(path, origin))


def _damage(path: Path, origin: int) -> int:
    losses = Losses()
    for _ in records(path, origin, losses):
        pass
    return len(losses.damaged)


def records(path: Path, origin: int, losses: Losses) -> Iterator[tuple[int, bytes]]:
    """Yield the offset and the bytes of every whole record; what cannot be read is added to `losses`.

    Raises:
        ReadError: the file does not begin as a `.wandb` file does.
    """
    if version_of(path) is None:
        raise ReadError(str(path), expected="a .wandb file", found="a file that begins otherwise", remedy="Was it copied as text?")
    with path.open("rb") as file:
        yield from ((begun, data) for begun, _, data in whole_records(file, origin, losses, HEADER))


def whole_records(file: BinaryIO, origin: int, losses: Losses, start: int) -> Iterator[tuple[int, int, bytes]]:
    """The same from the beginning of a chunk on: of each record where it begins, where it ends, and its bytes."""
    record = _Record(losses)
    for offset, kind, content in _chunks(file, origin, losses, start):
        end = offset + _CHUNK.size + len(content)
        if kind == _FULL:
            record.begin(offset, kind, b"")
            yield offset, end, content
        elif kind in (_MIDDLE, _LAST):
            if record.goes_on(offset, content) and kind == _LAST:
                yield record.begun, end, record.close()
        else:
            record.begin(offset, kind, content)
    if record.held and losses.cut_at is None:
        losses.unfinished_at = record.begun
    elif record.held:
        losses.cut_at = record.begun


@dataclass
class _Record:
    """The chunks of a record whose last one is still to come."""

    losses: Losses
    held: list[bytes] = field(default_factory=list)
    begun: int = 0
    size: int = 0
    excused: bool = False  # whether the beginning of what comes is missing for a reason that is counted already

    def begin(self, offset: int, kind: int, content: bytes) -> None:
        """Take the first chunk of a record, or let none be open: after a whole record, or after damage, which is counted already."""
        if self.held and kind:
            self.losses.damaged.append((self.begun, "the end of this record is missing"))
        self.held, self.begun, self.size = [content] if kind == _FIRST else [], offset, len(content)
        self.excused = kind == 0

    def goes_on(self, offset: int, content: bytes) -> bool:
        """Take a further chunk; false where there is no record it could belong to."""
        if not self.held and not self.excused:
            self.losses.damaged.append((offset, "the beginning of this record is missing"))
            self.excused = True
        if not self.held:
            return False
        self.held.append(content)
        self.size += len(content)
        if self.size > MAX_RECORD_BYTES:
            self.losses.damaged.append((self.begun, f"a record of more than {MAX_RECORD_BYTES // 2**20} MiB"))
            self.held, self.excused = [], True
        return bool(self.held)

    def close(self) -> bytes:
        """The record's bytes, after which none is open."""
        whole, self.held = b"".join(self.held), []
        return whole


def _chunks(file: BinaryIO, origin: int, losses: Losses, start: int) -> Iterator[tuple[int, int, bytes]]:
    """Yield offset, type and content of each chunk; type 0 stands for damage, after which the next block is tried."""
    file.seek(start)
    length = _BLOCK - (start - origin) % _BLOCK
    while block := file.read(length):
        at = 0
        while at + _CHUNK.size <= len(block):
            checksum, size, kind = _CHUNK.unpack_from(block, at)
            stop = at + _CHUNK.size + size
            if stop > len(block) and len(block) < length and kind in _SEEDS:
                losses.cut_at = start + at
                return
            content = block[at + _CHUNK.size : stop]
            if kind not in _SEEDS or stop > len(block) or crc32(content, _SEEDS[kind]) != checksum:
                losses.damaged.append((start + at, "the checksum does not fit" if kind in _SEEDS else "no chunk begins here"))
                yield start + at, 0, b""
                break
            yield start + at, kind, content
            at = stop
        else:
            if len(block) < length and at < len(block):  # a chunk's own head is cut
                losses.cut_at = start + at
        start += len(block)
        length = _BLOCK
