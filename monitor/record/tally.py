"""How many steps a recorder wrote, dropped and failed at, and the note that says so in the run's folder."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import replace
from operator import index
from pathlib import Path
from typing import Any

from ingest.recorder_note import RecorderNote, Steps, note_path, read_note
from monitor.record import files

_MOST_TEXT = 2000  # of one message; it names each array with its shape


class Tally:
    """Counted from two threads, the training's and the recorder's own; only the second touches the disk, and neither waits for it."""

    def __init__(self, run_dir: Path, rank: int) -> None:
        self.path = note_path(run_dir, rank)
        self.recorded = 0
        self._lock = threading.Lock()
        self._rank = rank
        self._here, self._earlier = RecorderNote(rank=rank), RecorderNote(rank=rank)
        self._unsaid = self._taken_over = False

    @property
    def dropped(self) -> Steps:
        """Steps that were not taken, because too many waited."""
        return self._here.dropped

    @property
    def failed(self) -> Steps:
        """Steps that were refused or could not be written."""
        return self._here.failed

    def add_recorded(self) -> None:
        """A step is on the disk."""
        with self._lock:
            self.recorded += 1

    def add_dropped(self, step: Any) -> None:  # noqa: ANN401 - whatever the trainer calls a step
        """A step was not taken."""
        with self._lock:
            self._here, self._unsaid = replace(self._here, dropped=self._here.dropped.and_one(_number(step))), True

    def add_failed(self, step: Any, error: BaseException) -> str:  # noqa: ANN401
        """A step could not be recorded; gives the message that is kept."""
        said = f"{type(error).__name__}: {error}"[:_MOST_TEXT]
        with self._lock:
            first = self._here.first_failure or said
            failed = self._here.failed.and_one(_number(step))
            self._here, self._unsaid = replace(self._here, failed=failed, first_failure=first, last_failure=said), True
        return said

    def take_over(self, resume_from: int | None) -> None:
        """Go on with the note of an earlier process, once, as far as its steps are not trained again."""
        if self._taken_over:
            return
        self._taken_over = True
        with suppress(OSError, ValueError):  # there is none, or it is no note; what is said now is more important
            before = read_note(self.path)
            left = before.before(resume_from) if resume_from is not None else before
            with self._lock:
                self._earlier, self._unsaid = replace(left, rank=self._rank), True

    def write(self) -> None:
        """Write the note if there is something new to say.

        Raises:
            OSError: it cannot be written; the next call tries again.
        """
        with self._lock:
            note, unsaid, self._unsaid = self._earlier.and_that(self._here), self._unsaid, False
        if not unsaid:
            return
        try:
            self._put(note)
        except OSError:
            self._unsaid = True
            raise

    def _put(self, note: RecorderNote) -> None:
        if note.is_empty:
            self.path.unlink(missing_ok=True)
            return
        files.write_text(self.path, note.written())


def _number(step: Any) -> int | None:  # noqa: ANN401
    try:
        return index(step)
    except TypeError:
        return None
