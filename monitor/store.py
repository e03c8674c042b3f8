"""The run store on disk: where uploads are kept, under which names, and how much of them.

An upload is the set of files that came in together (the chart exports of the same runs, the parts of one token log). It is a folder
named by the hash of its content, so that the same files twice are one upload; plain files inside, so that anyone can read, copy or
delete them.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ingest.errors import ReadError, TooLargeError

HOME_VARIABLE = "RATIOMETER_HOME"
MAX_FILE_BYTES = 200 * 2**20  # what the upload widget takes as well, see .streamlit/config.toml
MAX_STORE_BYTES = 2 * 2**30
MAX_FILES = 256  # files in one upload
MAX_NAME = 80  # characters of a stored file name; far below every file system's limit
UPLOAD_ID = re.compile(r"[0-9a-f]{16}")
UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, kw_only=True)
class Upload:
    """Files that came in together."""

    id: str  # 16 hexadecimal digits of the hash of names and bytes
    folder: Path
    paths: tuple[Path, ...]  # sorted by name
    size: int  # bytes

    @property
    def title(self) -> str:
        """The first file's name, and how many more there are."""
        more = len(self.paths) - 1
        return self.paths[0].name + (f" and {more} more" if more else "")

    @property
    def files(self) -> Path:
        """The folder the files lie in; a reader that names a run after its folder finds a name there, not a hash."""
        return self.paths[0].parent


def home() -> Path:
    """The data directory: `RATIOMETER_HOME`, or `.ratiometer` in the working directory."""
    return Path(os.environ.get(HOME_VARIABLE) or ".ratiometer")


def safe_name(name: str) -> str:
    """A file name that can neither leave its folder nor hide in it; the suffix is kept, because readers look at it."""
    base = name.replace("\\", "/").rsplit("/", 1)[-1]
    plain = unicodedata.normalize("NFKD", base).encode("ascii", "ignore").decode()
    stem, dot, suffix = UNSAFE.sub("_", plain).strip("._-").rpartition(".")
    if not dot:
        stem, suffix = suffix, ""
    return f"{stem[:MAX_NAME] or 'file'}{dot}{suffix[:16]}"


def save(files: Sequence[tuple[str, bytes]], root: Path | None = None) -> Upload:
    """Keep files (name as the user has it, content) as one upload, and return it; the same files again change nothing.

    Raises:
        ReadError: there is nothing in it.
        TooLargeError: a file, the number of files, or the store would pass its bound.
    """
    folder = _uploads(root)
    _check(files, used=sum(upload.size for upload in uploads(root)))
    named = _distinct(files)
    digest = _digest(named)
    if not (folder / digest).is_dir():
        _write(named, folder, digest)
    return _upload(folder / digest)


def uploads(root: Path | None = None) -> tuple[Upload, ...]:
    """All uploads, the oldest first."""
    folder = _uploads(root)
    if not folder.is_dir():
        return ()
    found = [_upload(path) for path in folder.iterdir() if UPLOAD_ID.fullmatch(path.name) and any(path.glob("*/*"))]
    return tuple(sorted(found, key=lambda upload: (upload.folder.stat().st_mtime_ns, upload.id)))


def remove(upload_id: str, root: Path | None = None) -> None:
    """Delete an upload; one that is gone already is no error.

    Raises:
        ValueError: the id is not one that `save` gave out.
    """
    if not UPLOAD_ID.fullmatch(upload_id):
        raise ValueError(f"{upload_id!r} is not the id of an upload")
    shutil.rmtree(_uploads(root) / upload_id, ignore_errors=True)


def _uploads(root: Path | None) -> Path:
    return (home() if root is None else root) / "uploads"


def _upload(folder: Path) -> Upload:
    paths = tuple(sorted(path for path in folder.glob("*/*") if path.is_file()))
    return Upload(id=folder.name, folder=folder, paths=paths, size=sum(path.stat().st_size for path in paths))


def _check(files: Sequence[tuple[str, bytes]], used: int) -> None:
    if not files or not any(content for _, content in files):
        where = files[0][0] if files else "the upload"
        raise ReadError(where, expected="a file with content", found="nothing in it", remedy="Export it again and upload that file.")
    if len(files) > MAX_FILES:
        raise _too_large("the upload", f"at most {MAX_FILES} files at once", f"{len(files)} files")
    for name, content in files:
        if len(content) > MAX_FILE_BYTES:
            raise _too_large(name, f"at most {MAX_FILE_BYTES >> 20} MB in a file", f"{len(content) >> 20} MB")
    if used + sum(len(content) for _, content in files) > MAX_STORE_BYTES:
        raise _too_large("the run store", f"at most {MAX_STORE_BYTES >> 20} MB of uploads", f"{used >> 20} MB and this upload")


def _too_large(where: str, expected: str, found: str) -> TooLargeError:
    remedy = "Leave large logs where they lie and open them with `streamlit run app.py -- PATH`, or remove uploads you no longer need."
    return TooLargeError(where, expected=expected, found=found, remedy=remedy)


def _distinct(files: Sequence[tuple[str, bytes]]) -> dict[str, bytes]:
    named: dict[str, bytes] = {}
    for name, content in files:
        safe = candidate = safe_name(name)
        count = 1
        while candidate in named and named[candidate] != content:
            count += 1
            stem, dot, suffix = safe.rpartition(".")
            candidate = f"{stem}-{count}{dot}{suffix}" if dot else f"{safe}-{count}"
        named[candidate] = content
    return named


def _digest(named: Mapping[str, bytes]) -> str:
    total = hashlib.sha256()
    for name in sorted(named):
        total.update(f"{name}\0{len(named[name])}\0".encode())
        total.update(named[name])
    return total.hexdigest()[:16]


def _write(named: Mapping[str, bytes], folder: Path, digest: str) -> None:
    """Write beside, flush to disk, then rename the whole folder: a reader sees all files of an upload or none."""
    folder.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=".incoming-", dir=folder))
    inside = beside / min(named).partition(".")[0]
    try:
        inside.mkdir()
        for name, content in named.items():
            with (inside / name).open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        beside.chmod(0o755)  # mkdtemp makes it private to one user
        if not (folder / digest).is_dir():  # another session may have saved the same files meanwhile
            beside.rename(folder / digest)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
