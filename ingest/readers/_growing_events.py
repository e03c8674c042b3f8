"""TensorBoard event files that are being written: each look takes the records that were finished since the one before.

The end of a growing file is not judged: a record that does not fit its checksum, and bytes that are none, may be half written as long as no
whole record follows them. They are looked at again until one does, and are not called damaged before.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from ingest.readers._appended import Appended, Change
from ingest.readers._event_file import EventFile, decode, faults, gaps, is_event_file, no_events, not_numbers, whole
from ingest.readers._tfrecord import FOOT, HEAD, Records, framed, looks_framed
from ingest.run import ReadProblem

_AT_ONCE = 64 * 2**20  # bytes; more of them where one record is longer


class GrowingEventFile:
    """One event file, as far as it is whole."""

    def __init__(self, path: Path) -> None:
        self._file = Appended(path)
        self._begin()

    def _begin(self) -> None:
        """Forget what was read."""
        self._file.forget()
        self.read = EventFile(path=self._file.path)
        self.firsts = np.zeros(0, np.int64)  # of each tag the smallest step
        self.highest = -1  # step of all
        self._gaps: list[ReadProblem] = []
        self._rest: list[ReadProblem] = []  # that the file ends within a record, which is no damage

    def more(self) -> bool:
        """Read on; says whether the file is still the one that it was.

        Raises:
            ReadError: it is no event file.
        """
        change = self._file.look()
        if change is Change.ANEW:
            self._begin()
        if change in {Change.MORE, Change.ANEW}:
            try:
                self._read_on()
            except BaseException:
                self._begin()
                raise
        return change is not Change.ANEW

    def closed(self) -> EventFile:
        """What has been read, with what is wrong so far."""
        return replace(self.read, problems=[*self.unread, *self._rest, *not_numbers(self.read.path, self.read.others)])

    @property
    def unread(self) -> tuple[ReadProblem, ...]:
        """What could not be read before the last whole record."""
        return (*faults(self.read), *self._gaps)

    def _read_on(self) -> None:
        offset, size = self._file.offset, _AT_ONCE
        with self._file.path.open("rb") as file:
            if not offset and not _begun(self._file.path, file.read(HEAD)):
                return
            while True:
                file.seek(offset)
                data = np.frombuffer(file.read(size), np.uint8)
                taken = self._take(data, offset)
                offset += taken
                if len(data) < size:
                    break
                size = size if taken else 2 * size
        self._file.reached(offset)

    def _take(self, data: np.ndarray, base: int) -> int:
        """Decode up to the last record that fits its checksum; says how many bytes these are."""
        records = framed(data)
        good = whole(data, records)
        upto = int(np.flatnonzero(good)[-1]) + 1 if good.any() else 0
        end = int(records.starts[upto - 1] + records.lengths[upto - 1]) + FOOT if upto else 0
        before = tuple(gap for gap in records.damaged if gap[0] < end)
        known = Records(starts=records.starts[:upto], lengths=records.lengths[:upto], damaged=before, cut_at=None)
        held = len(self.read.blocks)
        decode(self.read, data, known, good[:upto], base)
        self._note_firsts(held)
        self._gaps += gaps(self.read.path, known, base)
        self._rest = list(gaps(self.read.path, replace(known, damaged=(), cut_at=records.cut_at), base))
        return end

    def _note_firsts(self, held: int) -> None:
        fresh = len(self.read.tags) - len(self.firsts)
        self.firsts = np.concatenate([self.firsts, np.full(fresh, np.iinfo(np.int64).max)])
        for codes, steps, _, _ in self.read.blocks[held:]:
            np.minimum.at(self.firsts, codes, steps)
            self.highest = max(self.highest, int(steps.max()))


def _begun(path: Path, head: bytes) -> bool:
    """Whether the first record is there.

    Raises:
        ReadError: it is not that of an event file.
    """
    if is_event_file(path):
        return True
    if len(head) < HEAD or (looks_framed(head) and path.stat().st_size < int.from_bytes(head[:8], "little") + HEAD + FOOT):
        return False
    raise no_events(path)
