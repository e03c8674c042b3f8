"""The run store on disk: where uploads are kept, under which names, and how much of them.

An upload is the set of files that came in together (the chart exports of the same runs, the parts of one token log). It is a folder
named by the hash of its content, so that the same files twice are one upload; plain files inside, so that anyone can read, copy or
delete them. Beside them may lie `mapping.toml`, the user's word on the keys, and `upload.toml`, what the upload is called.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import tempfile
import tomllib
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath
from typing import BinaryIO

from ingest.errors import ReadError, TooLargeError
from ingest.user_mapping import UserMapping, quoted, read_mapping, written

HOME_VARIABLE = "RATIOMETER_HOME"
MAX_FILE_BYTES = 200 * 2**20  # what the upload widget takes as well, see .streamlit/config.toml
MAX_STORE_BYTES = 2 * 2**30
MAX_FILES = 4096  # files in one upload; a run of 1,000 recorded steps has a part for each
MAX_NAME = 80  # characters of a stored file name; far below every file system's limit
MAX_OWN_NAME = 255  # characters of the name that a file has where it comes from; what file systems take
UPLOAD_ID = re.compile(r"[0-9a-f]{16}")
UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
MAPPING, NOTE = "mapping.toml", "upload.toml"
_PIECE = 2**20  # bytes read at once

Content = bytes | Path  # a file's bytes, or where it lies


@dataclass(frozen=True, kw_only=True)
class Upload:
    """Files that came in together."""

    id: str  # 16 hexadecimal digits of the hash of names and bytes
    folder: Path
    paths: tuple[Path, ...]  # sorted by name
    size: int  # bytes
    name: str = ""  # what the user calls it
    whole: bool = False  # it came as a folder and is read as one
    names: tuple[tuple[str, str], ...] = ()  # stored name and the user's own, of files where the two differ

    @property
    def title(self) -> str:
        """What the user calls it; else the first file's name, and how many more there are."""
        more = len(self.paths) - 1
        return self.name or self.own(self.paths[0].name) + (f" and {more} more" if more else "")

    def own(self, stored: str) -> str:
        """The name that a file has where it comes from, by its stored name; text of anybody's, to be escaped."""
        return dict(self.names).get(stored, stored)

    @property
    def files(self) -> Path:
        """The folder the files lie in; a reader that names a run after its folder finds a name there, not a hash."""
        return self.folder / self.paths[0].relative_to(self.folder).parts[0]

    @property
    def mapping_path(self) -> Path:
        """Where the user's word on the keys lies, if anywhere."""
        return self.folder / MAPPING


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
    stored = _distinct([(safe_name(name), content) for name, content in files])
    named = dict(zip(stored, (content for _, content in files), strict=True))
    own = [PureWindowsPath(name).name[:MAX_OWN_NAME] for name, _ in files]  # without folders of either system
    names = {kept: name for kept, name in zip(stored, own, strict=True) if name not in ("", kept)}
    upload = _save(named, root, where=files[0][0] if files else "the upload")
    if names and not upload.names:
        _replace(upload.folder / NOTE, _note(upload.name, whole=upload.whole, names=names))
    return _upload(upload.folder)


def save_paths(paths: Sequence[Path], root: Path | None = None, name: str = "") -> Upload:
    """Keep files, and folders with all that lies in them, as one upload; links that lead out of a folder are not followed.

    Raises:
        ReadError, TooLargeError: as `save`.
    """
    whole = len(paths) == 1 and paths[0].is_dir()
    found = [(safe_path(path.relative_to(base)), path) for base, path in _files_of(paths, whole=whole)]
    inside = safe_name(paths[0].resolve().name) if whole else ""
    note = _note(name, whole=whole) if name or whole else ""
    return _save(dict(zip(_distinct(found), (path for _, path in found), strict=True)), root, where=str(paths[0]), inside=inside, note=note)


def _save(named: Mapping[str, Content], root: Path | None, *, where: str, inside: str = "", note: str = "") -> Upload:
    folder = _uploads(root)
    _check(named, where, used=sum(upload.size for upload in uploads(root)))
    digest = _digest(named)
    if not (folder / digest).is_dir():
        _write(named, folder, digest, inside or min(named).partition("/")[0].partition(".")[0])
    if note:
        _replace(folder / digest / NOTE, note)
    return _upload(folder / digest)


def save_mapping(upload_id: str, mapping: UserMapping, root: Path | None = None) -> Path:
    """Keep the user's word on the keys of an upload beside its files; an earlier one is replaced.

    Raises:
        ValueError: the id is not one that `save` gave out.
    """
    path = _known(upload_id, root) / MAPPING
    _replace(path, written(mapping))
    return path


def rename(upload_id: str, name: str, root: Path | None = None) -> None:
    """Call an upload something else; "" for what its files say.

    Raises:
        ValueError: the id is not one that `save` gave out.
    """
    upload = _upload(_known(upload_id, root))
    _replace(upload.folder / NOTE, _note(name, whole=upload.whole, names=dict(upload.names)))


def mapping_of(upload: Upload) -> UserMapping | None:
    """The user's word on the keys of an upload, if there is any.

    Raises:
        ReadError: somebody has written it by hand, and wrongly.
    """
    return read_mapping(upload.mapping_path) if upload.mapping_path.is_file() else None


def uploads(root: Path | None = None) -> tuple[Upload, ...]:
    """All uploads, the oldest first."""
    folder = _uploads(root)
    if not folder.is_dir():
        return ()
    found = [_upload(path) for path in folder.iterdir() if UPLOAD_ID.fullmatch(path.name) and any(path.glob("*/*"))]
    return tuple(sorted(found, key=lambda upload: (upload.files.stat().st_mtime_ns, upload.id)))


def remove(upload_id: str, root: Path | None = None) -> None:
    """Delete an upload; one that is gone already is no error.

    Raises:
        ValueError: the id is not one that `save` gave out.
    """
    shutil.rmtree(_known(upload_id, root), ignore_errors=True)


def _known(upload_id: str, root: Path | None) -> Path:
    if not UPLOAD_ID.fullmatch(upload_id):
        raise ValueError(f"{upload_id!r} is not the id of an upload")
    return _uploads(root) / upload_id


def _uploads(root: Path | None) -> Path:
    return (home() if root is None else root) / "uploads"


def _upload(folder: Path) -> Upload:
    paths = tuple(sorted(path for inside in folder.glob("*/") for path in inside.rglob("*") if path.is_file()))
    note = folder / NOTE
    said = tomllib.loads(note.read_text(encoding="utf-8")) if note.is_file() else {}
    name, whole, size = str(said.get("name", "")), said.get("whole") is True, sum(path.stat().st_size for path in paths)
    names = tuple(said.get("names", {}).items())
    return Upload(id=folder.name, folder=folder, paths=paths, size=size, name=name, whole=whole, names=names)


def _note(name: str, *, whole: bool, names: Mapping[str, str] | None = None) -> str:
    files = "".join(f"{quoted(stored)} = {quoted(own)}\n" for stored, own in (names or {}).items())
    return f"name = {quoted(name)}\nwhole = {str(whole).lower()}\n" + (f"\n[names]\n{files}" if files else "")


def _files_of(paths: Sequence[Path], *, whole: bool) -> list[tuple[Path, Path]]:
    """Each file with the folder that its stored name begins below."""
    found: list[tuple[Path, Path]] = []
    for path in paths:
        below = sorted(path.rglob("*")) if path.is_dir() else [path]
        home = path.resolve() if path.is_dir() else path.resolve().parent
        base = path if whole else path.parent
        found += [(base, each) for each in below if each.is_file() and each.resolve().is_relative_to(home)]
        if len(found) > MAX_FILES:
            break
    return found


def safe_path(path: Path) -> str:
    """A relative path whose every part is a safe name."""
    return "/".join(safe_name(part) for part in path.parts)


def _check(named: Mapping[str, Content], where: str, used: int) -> None:
    sizes = {name: _size(content) for name, content in named.items()}
    if not sum(sizes.values()):
        raise ReadError(where, expected="a file with content", found="nothing in it", remedy="Export it again and upload that file.")
    if len(named) > MAX_FILES:
        raise _too_large("the upload", f"at most {MAX_FILES} files at once", f"{len(named)} files")
    for name, size in sizes.items():
        if size > MAX_FILE_BYTES:
            raise _too_large(name, f"at most {MAX_FILE_BYTES >> 20} MB in a file", f"{size >> 20} MB")
    if used + sum(sizes.values()) > MAX_STORE_BYTES:
        raise _too_large("the run store", f"at most {MAX_STORE_BYTES >> 20} MB of uploads", f"{used >> 20} MB and this upload")


def _too_large(where: str, expected: str, found: str) -> TooLargeError:
    remedy = "Leave large logs where they lie and open them with `streamlit run app.py -- PATH`, or remove uploads you no longer need."
    return TooLargeError(where, expected=expected, found=found, remedy=remedy)


def _size(content: Content) -> int:
    return len(content) if isinstance(content, bytes) else content.stat().st_size


def _open(content: Content) -> BinaryIO:
    return io.BytesIO(content) if isinstance(content, bytes) else content.open("rb")


def _distinct(files: Sequence[tuple[str, Content]]) -> list[str]:
    """The name of each file, with a number where other content has it already."""
    named: dict[str, Content] = {}
    names: list[str] = []
    for safe, content in files:
        candidate, count = safe, 1
        while candidate in named and named[candidate] != content:
            count += 1
            stem, dot, suffix = safe.rpartition(".")
            candidate = f"{stem}-{count}{dot}{suffix}" if dot else f"{safe}-{count}"
        named[candidate] = content
        names.append(candidate)
    return names


def _digest(named: Mapping[str, Content]) -> str:
    total = hashlib.sha256()
    for name in sorted(named):
        total.update(f"{name}\0{_size(named[name])}\0".encode())
        with _open(named[name]) as file:
            for piece in iter(lambda: file.read(_PIECE), b""):
                total.update(piece)
    return total.hexdigest()[:16]


def _write(named: Mapping[str, Content], folder: Path, digest: str, inside: str) -> None:
    """Write beside, flush to disk, then rename the whole folder: a reader sees all files of an upload or none."""
    folder.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=".incoming-", dir=folder))
    try:
        for name, content in named.items():
            path = beside / inside / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with _open(content) as source, path.open("wb") as file:
                shutil.copyfileobj(source, file, _PIECE)
                file.flush()
                os.fsync(file.fileno())
        beside.chmod(0o755)  # mkdtemp makes it private to one user
        if not (folder / digest).is_dir():  # another session may have saved the same files meanwhile
            beside.rename(folder / digest)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _replace(path: Path, text: str) -> None:
    """Write beside, flush to disk, then rename: a reader sees the old text or the new."""
    descriptor, beside = tempfile.mkstemp(prefix=".incoming-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(beside).replace(path)
    finally:
        Path(beside).unlink(missing_ok=True)
