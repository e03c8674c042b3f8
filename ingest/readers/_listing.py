"""Which files lie under a folder, asked again and again: a look costs what is new, however many files are known by then.

A folder is listed when its modification time says that a name came or went, and known names are not looked at one by one. What the time
does not tell is looked at a little at a time: the newest files and folders at every look, and a few of the others in turn.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from ingest.readers._files import is_inside

NEWEST = 32  # files and folders that are looked at every time
IN_TURN = 8  # of the others
FEW = 256  # files of one folder that are all looked at when it is listed
LISTED_AGAIN = 64  # looks after which a folder is listed whatever else is known about it
Key = tuple[int, int, int]  # inode, size, modification time in ns


@dataclass(eq=False)
class _Folder:
    """One folder as it was when it was listed."""

    path: Path
    depth: int
    files: dict[str, Key] = field(default_factory=dict)
    folders: dict[str, _Folder] = field(default_factory=dict)
    mtime_ns: int = -1
    again: bool = False  # it changed at the last look, so its time may not have moved on for what came right after
    links: int = 0
    looks: int = 0


@dataclass(frozen=True, kw_only=True)
class Listed:
    """What came and went since the last look; a file that is another one under its name did both."""

    new: tuple[Path, ...] = ()
    gone: tuple[Path, ...] = ()


class Listing:
    """The files of a folder and of some levels below it."""

    def __init__(self, root: Path, *, wanted: Callable[[str], bool], levels: int, passed_over: tuple[str, ...] = ()) -> None:
        """Take which names count, how deep to look, and names of folders in which nothing does."""
        self.root, self._wanted, self._levels, self._passed_over = root, wanted, levels, passed_over
        self._top = _Folder(root, 0)
        self._folders: dict[Path, _Folder] = {root: self._top}
        self._newest: deque[tuple[_Folder, str]] = deque(maxlen=NEWEST)
        self._turn = self._turns()
        self._new: dict[Path, None] = {}
        self._gone: dict[Path, None] = {}

    def look(self) -> Listed:
        """What came and went; nothing where the folder itself is gone, which may come again."""
        if not self.root.is_dir():
            return Listed()
        self._new, self._gone = {}, {}
        self._visit(self._top)
        recent = list(islice(reversed(self._folders.values()), NEWEST))
        for folder in (*recent, *islice(self._turn, IN_TURN)):
            if folder.path in self._folders and folder is not self._top:
                self._visit(folder)
        for folder, name in list(self._newest):
            self._check(folder, name)
        return Listed(new=tuple(self._new), gone=tuple(self._gone))

    def _turns(self) -> Iterator[_Folder]:
        """All folders in turn, without end; of each that is reached some files are looked at as well."""
        while True:
            for folder in list(self._folders.values()):
                names = list(folder.files)
                for place in range(0, max(1, len(names)), IN_TURN):
                    for name in names[place : place + IN_TURN]:
                        self._check(folder, name)
                    yield folder

    def _visit(self, folder: _Folder) -> None:
        """List a folder if its time has moved since it was listed."""
        try:
            stat = folder.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            if folder is not self._top:
                self._drop(folder)
            return
        folder.looks += 1
        moved, again = stat.st_mtime_ns != folder.mtime_ns, folder.again
        seldom = folder.looks % LISTED_AGAIN == 0
        folder.again, folder.mtime_ns = moved, stat.st_mtime_ns
        same = bool(folder.links) and stat.st_nlink == folder.links  # as many folders as there were
        if seldom or (moved and not self._foreseen(folder, stat.st_nlink)) or (again and not moved and not same):
            self._list(folder)
            folder.links = stat.st_nlink if not folder.files and stat.st_nlink == len(folder.folders) + 2 else 0

    def _foreseen(self, folder: _Folder, links: int) -> bool:
        """Whether the folders that came are just those whose names follow; then the others need not be listed.

        A folder has a link for itself, one for its name, and one for each folder in it, where the file system counts them.
        """
        if not folder.links or links <= folder.links:
            return False
        for name in _following(folder.folders, links - folder.links):
            if not (folder.path / name).is_dir():
                return False
            self._enter(folder, name)
        folder.links = len(folder.folders) + 2
        return links == folder.links

    def _list(self, folder: _Folder) -> None:
        files, folders = dict[str, int](), set[str]()
        with os.scandir(folder.path) as entries:
            for entry in entries:
                if entry.is_symlink() and not is_inside(folder.path / entry.name, self.root):
                    continue
                if entry.is_dir():
                    folders.add(entry.name)
                elif self._wanted(entry.name):
                    files[entry.name] = entry.inode()
        self._compare_files(folder, files)
        went = sorted(folder.folders.keys() - folders)
        for name in went:
            self._drop(folder.folders[name])
        for name in sorted(folders - folder.folders.keys()):
            self._enter(folder, name)
        for below in list(folder.folders.values()) if went else ():  # a run that goes back makes some of them again under their names
            if below.path in self._folders:
                self._visit(below)

    def _compare_files(self, folder: _Folder, inodes: dict[str, int]) -> None:
        for name in sorted(folder.files.keys() - inodes.keys()):
            self._lose(folder, name)
        for name in sorted(inodes.keys() & folder.files.keys()):
            if len(inodes) <= FEW or inodes[name] != folder.files[name][0]:
                self._check(folder, name)
        for name in sorted(inodes.keys() - folder.files.keys()):
            self._find(folder, name)

    def _enter(self, folder: _Folder, name: str) -> None:
        """Take a folder that came, with what is in it."""
        below = folder.folders[name] = _Folder(folder.path / name, folder.depth + 1)
        if below.depth <= self._levels and name not in self._passed_over:
            self._folders[below.path] = below
            self._visit(below)

    def _drop(self, folder: _Folder) -> None:
        """A folder went, with all that was in it."""
        for below in list(folder.folders.values()):
            self._drop(below)
        for name in list(folder.files):
            self._lose(folder, name)
        self._folders.pop(folder.path, None)
        if (above := self._folders.get(folder.path.parent)) is not None:
            above.folders.pop(folder.path.name, None)

    def _find(self, folder: _Folder, name: str) -> None:
        path = folder.path / name
        try:
            stat = path.stat()
        except FileNotFoundError:
            return
        folder.files[name] = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
        self._newest.append((folder, name))
        self._new[path] = None

    def _lose(self, folder: _Folder, name: str) -> None:
        del folder.files[name]
        path = folder.path / name
        if path in self._new:
            del self._new[path]
        else:
            self._gone[path] = None

    def _check(self, folder: _Folder, name: str) -> None:
        """Look at one known file: whether it is there, and the same."""
        if name not in folder.files or folder.path not in self._folders:
            return
        try:
            stat = (folder.path / name).stat()
        except (FileNotFoundError, NotADirectoryError):
            self._lose(folder, name)
            return
        if (stat.st_ino, stat.st_size, stat.st_mtime_ns) != folder.files[name]:
            self._lose(folder, name)
            self._find(folder, name)


def _following(known: dict[str, _Folder], count: int) -> Iterator[str]:
    """Names that follow the last of some numbered ones, in its distance from the one before: step=000014 after 000010 and 000012."""
    numbered = (name for name in reversed(known) if name.rpartition("=")[2].isdecimal())
    last, before = (*islice(numbered, 2), "", "")[:2]
    head, _, digits = last.rpartition("=")
    if before.startswith(f"{head}=") and (distance := int(digits) - int(before.rpartition("=")[2])) > 0:
        for nth in range(1, count + 1):
            yield f"{head}={int(digits) + nth * distance:0{len(digits)}d}"
