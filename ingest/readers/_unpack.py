"""Archives unpacked without trusting them: whitelisted names, bounded sizes, nothing but plain files, into a folder of our own."""

from __future__ import annotations

import gzip
import re
import stat
import struct
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Any

from ingest.errors import ReadError, TooLargeError

MAX_MEMBERS = 20_000  # entries of one archive, folders too; a run folder of wandb has thirty
MAX_BYTES = 4 * 2**30  # unpacked, of an archive and the archives in it together
MAX_RATIO = 200  # unpacked to packed; logs reach thirty, deflate can do a thousand
_RATIO_FROM = 64 * 2**20  # below this no ratio harms
MAX_SECONDS = 120.0
_MAX_PARTS, _MAX_NAME = 12, 200  # of a member's path
_MAX_READ = 16 * 2**20  # what is asked for at once; only the headers of a hostile tar ask for more
_BLOCK = 2**20

# What a log's files are called; programs, pictures and weights beside them are not unpacked.
_TEXTS = frozenset((".csv", ".json", ".jsonl", ".ndjson", ".log", ".txt", ".toml", ".yaml", ".yml"))
_OTHERS = frozenset((".parquet", ".wandb", ".pt", ".pth", ".pkl", ".zip", ".tar", ".tgz", ".gz"))
_NAMES = re.compile(r"tfevents|\ASTABLE\Z")
_UNSAFE = re.compile("[\x00-\x1f\x7f\ud800-\udfff\\\\]")  # also bytes that are no UTF-8
_DRIVE = re.compile(r"[A-Za-z]:")

_DAMAGED = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    struct.error,
    EOFError,
    OSError,
    NotImplementedError,
    ValueError,
    OverflowError,
)


@dataclass
class Allowance:
    """What one upload may unpack to, over all archives in it."""

    packed: int  # bytes of the outermost file
    until: float = field(default_factory=lambda: time.monotonic() + MAX_SECONDS)
    unpacked: int = 0
    members: int = 0

    def count(self, where: str) -> None:
        """Allow for one more member."""
        self.members += 1
        if self.members > MAX_MEMBERS:
            _refuse(where, f"at most {MAX_MEMBERS:,} members", "more", "Pack only the logs.")

    def take(self, where: str, size: int) -> None:
        """Allow for bytes, before they are unpacked."""
        self.unpacked += size
        if self.unpacked > MAX_BYTES:
            _refuse(where, f"at most {MAX_BYTES // 2**30} GiB unpacked", "more", "Pack fewer runs, or open the folder itself.")
        if self.unpacked > max(_RATIO_FROM, MAX_RATIO * self.packed):
            _refuse(where, f"at most {MAX_RATIO} times its size unpacked", "more", "Pack the logs again, or open the folder itself.")
        if time.monotonic() > self.until:
            _refuse(where, f"at most {MAX_SECONDS:.0f} s to unpack", "more", "Pack fewer runs, or open the folder itself.")


@dataclass
class Unpacked:
    """What has been taken out of an archive, and what has not."""

    archive: Path
    target: Path
    allowance: Allowance
    names: set[PurePosixPath] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)

    def wanted(self, name: str) -> PurePosixPath | None:
        """Where a member goes; None for what is no file of a log.

        Raises:
            ReadError: its name leads out of the archive, or is there twice.
        """
        path = self._safe(name)
        if path.suffix.lower() not in _TEXTS | _OTHERS and not _NAMES.search(path.name):
            self.others.append(name)
            return None
        if path in self.names:
            raise ReadError(self._where(name), expected="each name once", found="it twice", remedy="Pack the logs again.")
        self.names.add(path)
        return path

    def _safe(self, name: str) -> PurePosixPath:
        path = PurePosixPath(name)
        parts = path.parts
        outside = path.is_absolute() or ".." in parts or _UNSAFE.search(name) or _DRIVE.match(name)
        if outside or not parts or len(parts) > _MAX_PARTS or any(len(part.encode()) > _MAX_NAME for part in parts):
            expected = f"names inside the archive, at most {_MAX_PARTS} folders deep, each of at most {_MAX_NAME} bytes"
            raise ReadError(self._where(name), expected=expected, found="another", remedy="Pack the logs' folder by its relative path.")
        return path

    def write(self, member: PurePosixPath, content: IO[bytes]) -> None:
        """Copy one member, block by block, counting what really comes out."""
        path = self.target / member
        where = self._where(str(member))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("xb") as file:
                while block := content.read(_BLOCK):
                    self.allowance.take(where, len(block))
                    file.write(block)
        except (FileExistsError, NotADirectoryError) as clash:
            raise ReadError(where, expected="a file or a folder", found="both of one name", remedy="Pack the logs again.") from clash

    def _where(self, name: str) -> str:
        return f"{self.archive}, member {name[:200]!r}"


def is_tar(path: Path) -> bool:
    """Whether a file is a tar archive, packed with gzip or not: by the mark that its first header has, in 512 bytes."""
    try:
        with _plain(path) as file:
            return bool(file.read(512)[257:262] == b"ustar")
    except (OSError, EOFError, zlib.error):
        return False


def unpack(archive: Path, target: Path, allowance: Allowance) -> Unpacked:
    """Take the files of logs out of an archive.

    Args:
        archive: a zip or tar file, the latter perhaps packed with gzip.
        target: an empty folder.
        allowance: what may come out.

    Raises:
        ReadError: it is damaged or encrypted, or a name leads out of it; TooLargeError where a bound is passed.
    """
    found = Unpacked(archive=archive, target=target, allowance=allowance)
    take: Callable[[Unpacked], None] = _unpack_zip if zipfile.is_zipfile(archive) and not is_tar(archive) else _unpack_tar
    try:
        take(found)
    except _DAMAGED as broken:
        why = " ".join(str(broken).split())[:200]
        found_there = f"one that cannot be unpacked ({why})"
        raise ReadError(
            str(archive), expected="a whole archive", found=found_there, remedy="Was it copied whole? Pack it again."
        ) from broken
    return found


def _unpack_zip(found: Unpacked) -> None:
    with zipfile.ZipFile(found.archive) as file:
        for member in file.infolist():
            found.allowance.count(str(found.archive))
            if member.is_dir():
                continue
            if stat.S_ISLNK(member.external_attr >> 16):
                found.links.append(member.filename)
            elif (path := found.wanted(member.filename)) is not None:
                _check_readable(member, found.archive)
                with file.open(member) as content:
                    found.write(path, content)


def _check_readable(member: zipfile.ZipInfo, archive: Path) -> None:
    if member.flag_bits & 1 or member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        expected = "members without a password, stored or deflated as zip does it by default"
        raise ReadError(str(archive), expected=expected, found=f"another ({member.filename[:200]!r})", remedy="Pack the logs again.")


def _unpack_tar(found: Unpacked) -> None:
    with _plain(found.archive) as packed, tarfile.open(fileobj=_Careful(packed, found), mode="r:") as file:  # type: ignore[call-overload]
        for member in file:
            found.allowance.count(str(found.archive))
            if member.issym() or member.islnk():
                found.links.append(member.name)
            elif member.isfile() and not member.issparse():
                content = file.extractfile(member) if (path := found.wanted(member.name)) is not None else None
                if path is not None and content is not None:
                    found.write(path, content)
            elif not member.isdir():
                raise ReadError(
                    f"{found.archive}, member {member.name[:200]!r}",
                    expected="plain files",
                    found="a device, a pipe or a sparse file",
                    remedy="Pack only the logs.",
                )


def _plain(path: Path) -> Any:  # noqa: ANN401 - a file, or one that unpacks gzip
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    return gzip.open(path, "rb") if packed else path.open("rb")


@dataclass
class _Careful:
    """A tar file that is read in small pieces, and whose unpacked bytes are counted, also those that are only passed over."""

    file: Any
    found: Unpacked
    seen: int = 0

    def read(self, size: int) -> bytes:
        """Read what the tar reader asks for; a header that claims to be huge asks for too much."""
        if not 0 <= size <= _MAX_READ:
            _refuse(str(self.found.archive), f"headers of at most {_MAX_READ // 2**20} MiB", f"{size:,} bytes", "Pack the logs again.")
        return bytes(self.file.read(size))

    def seek(self, offset: int) -> int:
        """Go to an offset, block by block, so that passing over a large member is bounded like unpacking it."""
        if offset < self.file.tell():
            return int(self.file.seek(offset))
        for part in _steps(self.file.tell(), offset):
            self.found.allowance.take(str(self.found.archive), max(0, part - max(self.seen, self.file.tell())))
            self.seen = max(self.seen, part)
            self.file.seek(part)
        return int(self.file.tell())

    def tell(self) -> int:
        """Where the next byte is read."""
        return int(self.file.tell())


def _steps(start: int, end: int) -> Iterator[int]:
    yield from range(start + _BLOCK * 16, end, _BLOCK * 16)
    yield end


def _refuse(where: str, expected: str, found: str, remedy: str) -> None:
    raise TooLargeError(where, expected=expected, found=found, remedy=remedy)
