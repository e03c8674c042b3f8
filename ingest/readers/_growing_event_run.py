"""The event files of one run that is being written: each restart begins a file, which stands from where it takes up again."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from ingest.errors import ReadError
from ingest.readers._files import is_inside
from ingest.readers._growing_events import GrowingEventFile
from ingest.readers._grown import NOTHING, Grown
from ingest.readers._restarts import joined
from ingest.readers._rows import Rows
from ingest.readers.tensorboard import READER
from ingest.run import RawLog, ReadProblem

_NAMED = "tfevents"
_SELDOM = 16  # looks between two at the folders below
_Shape = tuple[tuple[object, ...], ...]


class GrowingEvents:
    """One event file, or the files of one folder; settings that stand in folders right below it are its own too."""

    ended = False  # an event file does not say so

    def __init__(self, path: Path, name: str = "") -> None:
        """Take the name that the run has among others of one tree, where it has one."""
        self.path, self.name = path, name
        self._files: dict[Path, GrowingEventFile] = {}
        self._below: dict[Path, GrowingEventFile] = {}  # files of which only the settings are taken
        self._unread: dict[Path, ReadProblem] = {}
        self._handed: dict[Path, int] = {}  # of each file its blocks that were handed out
        self._shape: _Shape = ()
        self._lost: tuple[ReadProblem, ...] = ()  # that was told
        self._config: dict[str, str | int | float | bool] = {}
        self._looks = 0

    @property
    def troubles(self) -> tuple[ReadProblem, ...]:
        """Files that are none of events."""
        return tuple(self._unread.values())

    def more(self) -> Grown:
        """Read what came to each file since the last look."""
        if not (found := self._look()):
            return NOTHING
        stood = [self._more(path) for path in found]
        self._files = {path: file for path, file in self._files.items() if path in found}
        held = {path: len(file.read.blocks) for path, file in self._files.items() if file.read.blocks}
        new = [path for path, blocks in held.items() if blocks > self._handed.get(path, 0)]
        settings, unread = self._look_below(now=bool(new)), self._unread_now()
        if held == self._handed and all(stood):
            return Grown(settings=settings, unread=unread if held else ())
        shape, order = self._shaped(), self._ordered()
        anew = not self._handed or not all(stood) or not self._handed.keys() <= held.keys() or shape != self._shape or new != order[-1:]
        fresh = NOTHING.fresh if anew else self._fresh(new[0])
        begun = bool(self._handed) and order[-1:] != [] and order[-1] not in self._handed
        self._handed, self._shape = held, shape
        first, come_to = self._taken_up(order)
        return Grown(anew=anew, fresh=fresh, settings=settings, restarted_from=first if begun else None, come_to=come_to, unread=unread)

    def _unread_now(self) -> tuple[ReadProblem, ...]:
        """What could not be read of the files, if that is other than it was."""
        before, self._lost = self._lost, tuple(problem for file in self._files.values() for problem in file.unread)
        return self._lost if self._lost != before else ()

    def _taken_up(self, order: list[Path]) -> tuple[int | None, int | None]:
        """The step at which the last file took up again, and how far it has come as long as the files before it were further."""
        before = max((self._files[path].highest for path in order[:-1]), default=-1)
        last = self._files[order[-1]] if order else None
        if last is None or (first := int(last.firsts.min())) > before:
            return None, None
        return first, last.highest if last.highest < before else None

    def logs(self) -> tuple[RawLog, ...]:
        """What has been read so far."""
        if not self._handed:
            return ()
        name = self.name or (self.path.stem if self.path.is_file() else self.path.resolve().name)
        log = joined([file.closed() for file in self._files.values()], name, self.path, READER.id)
        return (replace(log, config={**self._config, **log.config}, problems=(*self._unread.values(), *log.problems)),)

    def _look(self) -> list[Path]:
        """The files that are there now; none where everything is gone, and what was read is kept."""
        try:
            return [self.path] if self.path.is_file() else sorted(_event_files(self.path))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _more(self, path: Path) -> bool:
        """Read on in one file; says whether what was handed out of it still stands."""
        file = self._files.setdefault(path, GrowingEventFile(path))
        self._unread.pop(path, None)
        try:
            stands = file.more()
        except ReadError as broken:
            if self.path == path:
                raise
            self._unread[path] = ReadProblem(path=str(path), place="", what=f"found {broken.found}", rows=1)
            return not self._handed.get(path)
        return stands and len(file.read.blocks) >= self._handed.get(path, 0)

    def _ordered(self) -> list[Path]:
        """Files with values, by when they were begun."""
        held = [file.read for file in self._files.values() if file.read.blocks]
        return [file.path for file in sorted(held, key=lambda file: (file.started, file.path.name))]

    def _shaped(self) -> _Shape:
        """What decides which values of the files stand: from where on each file replaces those before it; nothing for one file."""
        order = [self._files[path] for path in self._ordered()]
        told = order[1:]
        return tuple((file.read.path, *file.read.tags, *file.firsts.tolist(), *file.read.restarts_at) for file in told)

    def _fresh(self, path: Path) -> pa.Table:
        rows, file = Rows(), self._files[path].read
        for codes, steps, walls, values in file.blocks[self._handed.get(path, 0) :]:
            rows.extend_many(list(file.tags), codes, steps, values, walls)
        return rows.table()

    def _look_below(self, *, now: bool) -> bool:
        """Look at settings that came, in folders below only with other news or now and then; says whether there are any."""
        self._looks += 1
        if (now or self._looks % _SELDOM == 1) and self.path.is_dir():
            folders = sorted(entry.name for entry in os.scandir(self.path) if entry.is_dir(follow_symlinks=False))
            for path in (found for folder in folders for found in sorted(_event_files(self.path / folder))):
                with contextlib.suppress(ReadError):
                    self._below.setdefault(path, GrowingEventFile(path)).more()
        before, self._config = self._config, {}
        for file in (*reversed(self._below.values()), *self._files.values()):  # of folders below the first says it
            self._config |= file.read.config
        return self._config != before


def _event_files(folder: Path) -> Iterator[Path]:
    for entry in os.scandir(folder):
        if _NAMED in entry.name and not entry.name.startswith((".", "_")) and entry.is_file():
            path = folder / entry.name
            if not entry.is_symlink() or is_inside(path, folder):
                yield path
