"""A `.wandb` record file that is being written: each look takes the records that were finished since the one before.

wandb writes the file when it starts and then in blocks, or every so many seconds; between two writes there is nothing to be seen. What
follows the last whole record is not judged, and never called damaged: it may be half written, and is looked at again until another follows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from ingest.errors import ReadError
from ingest.readers import _wandb_frames as frames
from ingest.readers._appended import Appended, Change
from ingest.readers._grown import NOTHING, Grown
from ingest.readers._wandb_records import WandbFile, count_lost, take
from ingest.readers.wandb_run import log_of
from ingest.run import RawLog, ReadProblem


@dataclass(frozen=True, kw_only=True)
class _Told:
    """What was handed out."""

    held: tuple[int, int] = (0, 0)
    media: int = 0
    described: int = 0
    lost: int = 0


class GrowingRecords:
    """One record file."""

    troubles: tuple[ReadProblem, ...] = ()

    def __init__(self, path: Path, shown_as: Path | None = None) -> None:
        """Take the path that the run is known by, where it is not the file's: the folder around it."""
        self._file, self._shown_as = Appended(path), shown_as or path
        self._origin, self._told_any = 0, False
        self._begin(0)

    def _begin(self, origin: int) -> None:
        """Forget what was read."""
        self._file.forget()
        self._origin, self._judged = origin, 0
        self._read, self._rest, self._told = WandbFile(path=self._file.path), frames.Losses(), _Told()

    @property
    def ended(self) -> bool:
        """Whether the record is there with which a run ends."""
        return self._read.ended

    def more(self) -> Grown:
        """Read the records that were finished since the last look.

        Raises:
            ReadError: it is no `.wandb` file; TooLargeError where it is too large.
        """
        change = self._file.look()
        if change in {Change.NONE, Change.GONE}:
            return NOTHING
        if change is Change.ANEW:
            self._begin(0)
        try:
            self._read_on()
            if self._damage > self._judged:
                self._judge()
        except BaseException:
            self._begin(0)
            raise
        return self._grown()

    def logs(self) -> tuple[RawLog, ...]:
        """What has been read so far."""
        if not any(self._told.held):
            return ()
        losses = replace(self._rest, damaged=list(self._read.losses.damaged), cut_at=None)
        closed = replace(self._read, losses=losses, lost=list(self._read.lost))
        count_lost(closed, None)
        return (replace(log_of(closed), path=str(self._shown_as)),)

    def _read_on(self) -> None:
        path = self._file.path
        if path.stat().st_size < frames.HEADER:
            return
        self._read.version = frames.version_of(path)
        if self._read.version is None:
            found = "a file that begins otherwise"
            raise ReadError(str(path), expected="a .wandb file", found=found, remedy="Was it copied as text?")
        frames.check_size(path)
        offset, rest, known = max(self._file.offset, frames.HEADER), frames.Losses(), 0
        with path.open("rb") as file:
            for begun, end, data in frames.whole_records(file, self._origin, rest, offset):
                self._read.losses.damaged += rest.damaged[known:]
                known = len(rest.damaged)
                take(self._read, begun, data)
                offset = end
        self._rest = replace(rest, damaged=rest.damaged[known:])
        self._file.reached(offset)

    @property
    def _damage(self) -> int:
        """Places of damage, at the end of the file too."""
        return len(self._read.losses.damaged) + len(self._rest.damaged)

    def _judge(self) -> None:
        """Where there is damage, blocks may be counted from another place; then all is read again."""
        self._judged = self._damage
        origin = frames.origin_of(self._file.path)
        if origin != self._origin:
            self._begin(origin)
            self._read_on()
            self._judged = self._damage

    def _grown(self) -> Grown:
        read, told = self._read, self._told
        self._told = _Told(held=read.history.held, media=len(read.history.values.media), described=read.described, lost=len(read.lost))
        if not any(told.held):
            told_before, self._told_any = self._told_any, self._told_any or any(self._told.held)
            return Grown(anew=any(self._told.held) or told_before)
        if self._told.media != told.media:
            return Grown(anew=True, settings=True)
        unread = tuple(problem for problem in read.problems() if problem.rows) if self._told.lost > told.lost else ()
        return Grown(fresh=read.history.since(told.held), settings=self._told.described != told.described, unread=unread)
