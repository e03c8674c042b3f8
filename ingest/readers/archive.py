"""Archives: .zip, .tar and .tar.gz of anything that can be read, of one run or many, with one archive inside another at most."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ingest._places import parts
from ingest.errors import RatiometerError, ReadError
from ingest.identify import identify_reader
from ingest.reader import Reader
from ingest.readers._unpack import Allowance, Unpacked, is_tar, unpack
from ingest.readers.torch_file import is_torch_zip
from ingest.run import ProblemKind, RawLog, ReadProblem
from ingest.tokens import TokenLog

_HOME = "RATIOMETER_HOME"  # the run store's; nothing is written outside it
_FOLDER = "unpacked"
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_DEEPEST = 1  # archives in archives in the archive
_KEPT = 16  # archives that stay unpacked, because token logs are read from them as long as their runs are looked at
_LISTED = 5

_open: dict[tuple[str, int, int], tuple[Path, tuple[ReadProblem, ...]]] = {}  # archive -> where it lies unpacked, and what was said


@dataclass(frozen=True)
class _Names:
    """The names of members as the user knows them, in place of those of temporary files."""

    folder: Path
    archive: Path

    def of(self, text: str) -> str:
        """Replace the temporary folder in a text."""
        return text.replace(f"{self.folder}{os.sep}", f"{self.archive}/").replace(str(self.folder), str(self.archive))

    def log(self, raw: RawLog) -> RawLog:
        """Name a log by its member."""
        problems = tuple(replace(problem, path=self.of(problem.path), what=self.of(problem.what)) for problem in raw.problems)
        name = self.archive.name.split(".")[0] if raw.name == self.folder.name else raw.name
        return replace(raw, name=name, path=self.of(raw.path), tokens=self.tokens(raw.tokens), problems=problems)

    def tokens(self, log: TokenLog | None) -> TokenLog | None:
        """Name the pieces of a token log by their members."""
        return log and replace(log, pieces=tuple(replace(piece, shown_as=self.of(str(piece.path))) for piece in log.pieces))


def _objection(path: Path) -> str | None:
    if path.is_dir():
        return "it is a folder"
    with path.open("rb") as file:
        head = file.read(4)
    if head in _ZIP:
        return "it is a zip file of torch.save" if is_torch_zip(path) else None
    return None if is_tar(path) else "it is neither a zip nor a tar archive"


def _read(path: Path) -> tuple[RawLog, ...]:
    folder, said = _unpacked(path)
    names = _Names(folder, path)
    logs, failed = _logs(folder, names)
    if not any(log.tokens for log in logs):
        _forget(folder)
    if not logs:
        raise failed[0]
    lost = tuple(ReadProblem(path=str(path), place="", what=f"not read: {error}") for error in failed)
    return (replace(logs[0], problems=(*logs[0].problems, *said, *lost)), *logs[1:])


def _logs(folder: Path, names: _Names) -> tuple[list[RawLog], list[ReadError]]:
    """Read whatever in the folder can be read, and what went wrong with the rest."""
    logs: list[RawLog] = []
    failed: list[ReadError] = []
    for part in parts(folder):
        try:
            logs += [names.log(raw) for raw in identify_reader(part).read(part)]
        except RatiometerError as error:
            failed.append(_renamed(error, names))
    return logs, failed


def _renamed(error: RatiometerError, names: _Names) -> ReadError:
    """The same error, about the member."""
    if isinstance(error, ReadError):
        said = (names.of(text) for text in (error.where, error.expected, error.found, error.remedy))
        where, expected, found, remedy = said
        return type(error)(where, expected=expected, found=found, remedy=remedy)
    found = f"something else: {names.of(str(error))}"
    return ReadError(str(names.archive), expected="logs in it", found=found, remedy="Pack the logs alone.")


def _unpacked(path: Path) -> tuple[Path, tuple[ReadProblem, ...]]:
    """Unpack an archive, once as long as it does not change."""
    stat = path.stat()
    key = (str(path.resolve()), stat.st_size, stat.st_mtime_ns)
    if key in _open and _open[key][0].is_dir():
        return _open[key]
    folder = _temporary()
    try:
        _open[key] = folder, tuple(_said(path, list(_all(path, folder, Allowance(packed=stat.st_size), 0))))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return _open[key]


def _all(archive: Path, target: Path, allowance: Allowance, depth: int) -> Iterator[Unpacked]:
    """Unpack an archive, and those in it, each into a folder of its own name."""
    found = unpack(archive, target, allowance)
    yield found
    for inner in sorted(path for path in (target / name for name in found.names) if _is_archive(path)):
        if depth >= _DEEPEST:
            where = f"{found.archive.name}, member {inner.relative_to(target)}"
            raise ReadError(where, expected="no archive here", found="one inside another inside another", remedy="Unpack the outer one.")
        below = inner.with_name(f"{inner.name}.d")
        below.mkdir()
        yield from _all(inner, below, allowance, depth + 1)
        inner.unlink()
        below.rename(inner)  # so that what is in it is named by the archive that holds it


def _is_archive(path: Path) -> bool:
    return path.is_file() and _objection(path) is None


def _said(archive: Path, all_found: list[Unpacked]) -> Iterator[ReadProblem]:
    links = [name for found in all_found for name in found.links]
    others = [name for found in all_found for name in found.others]
    for names, what in ((links, "links are not followed"), (others, "files are not of a kind that a log has, and were not unpacked")):
        if names:
            place = ", ".join(name[:80] for name in names[:_LISTED]) + (f" and {len(names) - _LISTED} more" if len(names) > _LISTED else "")
            yield ReadProblem(path=str(archive), place=place, what=f"{len(names)} {what}", kind=ProblemKind.NOTE)


def _temporary() -> Path:
    """A new folder in the run store, removed when the process ends."""
    home = Path(os.environ.get(_HOME) or ".ratiometer") / _FOLDER
    home.mkdir(parents=True, exist_ok=True)
    _sweep(home)
    folder = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=home)).resolve()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    while len(_open) >= _KEPT:
        _forget(next(iter(_open.values()))[0])
    return folder


def _sweep(home: Path) -> None:
    """Remove what processes left that did not end in good order."""
    for folder in home.iterdir():
        pid = folder.name.split("-")[0]
        if pid.isdigit() and not _lives(int(pid)):
            shutil.rmtree(folder, ignore_errors=True)


def _forget(folder: Path) -> None:
    for key in [key for key, (kept, _) in _open.items() if kept == folder]:
        del _open[key]
    shutil.rmtree(folder, ignore_errors=True)


def _lives(pid: int) -> bool:
    """Whether a process lives; one of another user does."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


READER = Reader(id="archive", title="zip or tar archive", objection=_objection, read=_read)
