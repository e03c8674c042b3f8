"""Recording from inside a training loop: a call copies the arrays and returns, and whatever goes wrong is counted, not raised."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from multiprocessing.util import Finalize
from pathlib import Path
from types import TracebackType
from typing import Any, Self, Unpack

import numpy as np
from numpy.typing import NDArray

from monitor.metrics.bounds import ClipBounds
from monitor.metrics.kernel import partials
from monitor.record.arrays import REQUIRED, TokenColumns, as_array, table
from monitor.record.backlog import Backlog
from monitor.record.recorder import Recorder, whole_number
from monitor.record.tally import Tally

WAITING = 4  # steps; of 1M tokens in 11 columns they hold 210 MB
EXIT_S = 30.0
_EARLY = 100  # before multiprocessing ends the children that the training has left
_REMEDY = "Record fewer columns, or to a faster disk, or let more steps wait (waiting=)."

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Step:
    """What one call handed over: copies of the arrays, or why there are none."""

    step: Any
    columns: Mapping[str, NDArray[Any]] | Exception


class BackgroundRecorder:
    """A `Recorder` that a training loop need not wait for, and that never raises into it.

    `record` copies the arrays and returns; a thread writes them. At most `waiting` steps are held; while that many are, further ones are
    dropped. What was dropped and what failed is counted here, logged once, and kept in `recorder.rank=000.json` in the run's folder,
    which readers show with the run. Making one takes a second or two, which the first step would take else. Close it, or use it in a
    `with`; an interpreter that ends waits for the rest by itself.

    Args:
        run_dir, rank, bounds, resume_from: as for `Recorder`. Nothing is read or written before the first step.
        waiting: how many steps are held in memory at most, the one that is being written included.
        exit_timeout_s: how long the end of the process waits for what is not written yet.

    Raises:
        ValueError, TypeError: of this constructor only, for a rank, step or number of steps that is none.
    """

    def __init__(  # noqa: PLR0913 - those of Recorder and two more
        self,
        run_dir: Path | str,
        *,
        rank: int | str = 0,
        bounds: ClipBounds | None = None,
        resume_from: int | None = None,
        waiting: int = WAITING,
        exit_timeout_s: float = EXIT_S,
    ) -> None:
        plain = Recorder(run_dir, rank=rank, bounds=bounds)  # which touches no disk
        self.run_dir, self.rank = plain.run_dir, plain.rank
        self._bounds, self._exit_timeout_s = bounds, exit_timeout_s
        self._resume_from = None if resume_from is None else whole_number("resume_from", resume_from)
        self._limit = max(1, whole_number("waiting", waiting))
        _prepare()
        self._begin()

    @property
    def recorded(self) -> int:
        """Steps that are on the disk."""
        return self._tally.recorded

    @property
    def dropped(self) -> int:
        """Steps that were not taken, because too many waited to be written."""
        return self._tally.dropped.count

    @property
    def failures(self) -> int:
        """Steps that were refused or could not be written."""
        return self._tally.failed.count

    @property
    def waiting(self) -> int:
        """Steps that are not written yet."""
        return self._backlog.waiting

    def record(self, step: int, **columns: Unpack[TokenColumns]) -> bool:
        """Hand over the tokens of one optimizer step; columns and their meaning are those of `Recorder.record`.

        The arrays are copied, so they may be changed as soon as this returns. Tensors on a device are refused: `.cpu()` first.

        Returns:
            Whether the step was taken; False where it was dropped. What turns out to be wrong with it later is counted as a failure.
        """
        try:
            taken = self._own_line().offer(lambda: _Step(step=step, columns=_copied(columns)))
            if not taken:
                self._drop(step)
        except Exception as error:  # noqa: BLE001 - whatever it is, the training goes on
            with suppress(Exception):
                self._fail(step, error)
            return False
        return taken

    def flush(self, timeout_s: float = EXIT_S) -> bool:
        """Wait until everything that was taken is written; False where it was not in time."""
        return self._backlog.flush(timeout_s)

    def close(self, timeout_s: float | None = None) -> bool:
        """Wait for the rest, say what is missing, and end the thread; a step recorded after this starts another.

        Returns:
            Whether everything that was taken is written.
        """
        if self._at_exit is None or self._backlog.pid != os.getpid():
            return True
        written = self._backlog.flush(self._exit_timeout_s if timeout_s is None else timeout_s)
        if not written:
            self._warn("%d steps are not written yet and will be lost if the process ends now", self._backlog.waiting)
        if self.dropped or self.failures:
            counts = (self.recorded, self.dropped, self.failures)
            self._warn("%d steps recorded, %d dropped, %d failed; see %s", *counts, self._tally.path)
        self._backlog.close()
        self._at_exit.cancel()
        self._new_line()
        return written

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def _begin(self) -> None:
        self._tally, self._complained = Tally(self.run_dir, self.rank), set[str]()
        self._recorder: Recorder | None = None
        self._new_line()

    def _new_line(self) -> None:
        self._backlog = Backlog(self._limit, self._write, self._settle)
        self._at_exit: Finalize | None = None

    def _own_line(self) -> Backlog[_Step]:
        """The line of this process. A forked one has neither the thread nor what waits, which its parent writes."""
        if self._backlog.pid != os.getpid():
            if self._at_exit is not None or self._recorder is not None:
                self._resume_from = None  # the parent has seen to it; what was recorded since is not to be set aside
            self._begin()
        if self._at_exit is None:
            self._at_exit = Finalize(None, self.close, exitpriority=_EARLY)
        return self._backlog

    def _write(self, step: _Step) -> None:
        """Write one step; on the recorder's own thread."""
        try:
            if isinstance(step.columns, Exception):
                self._fail(step.step, step.columns)
                return
            self._opened().record(step.step, **step.columns)
            self._tally.add_recorded()
        except Exception as error:  # noqa: BLE001 - the next step may fare better
            self._fail(step.step, error)

    def _opened(self) -> Recorder:
        """The plain recorder; setting aside what is trained again is tried once more with the next step if it fails."""
        if self._recorder is None:
            self._tally.take_over(self._resume_from)
            self._recorder = Recorder(self.run_dir, rank=self.rank, bounds=self._bounds, resume_from=self._resume_from)
        return self._recorder

    def _settle(self) -> None:
        try:
            self._tally.write()
        except Exception as error:  # noqa: BLE001 - on a full disk there is no room for a note either
            self._warn_once("note", "%s cannot be written (%s)", self._tally.path.name, error)

    def _drop(self, step: object) -> None:
        self._tally.add_dropped(step)
        text = "step %s is not recorded, because %d steps wait to be written already; further ones are only counted. " + _REMEDY
        self._warn_once("drop", text, step, self._limit)

    def _fail(self, step: object, error: Exception) -> None:
        said = self._tally.add_failed(step, error)
        kind = f"{type(error).__name__} {getattr(error, 'errno', '')}"
        self._warn_once(kind, "step %s is not recorded. %s. Further failures of this kind are only counted.", step, said.rstrip("."))

    def _warn_once(self, kind: str, text: str, *values: object) -> None:
        """Once for each kind: a line each step would bury the training's own."""
        if kind not in self._complained:
            self._complained.add(kind)
            self._warn(text, *values)

    def _warn(self, text: str, *values: object) -> None:
        with suppress(Exception):  # a handler of the trainer's may raise
            log.warning("recorder of rank %d in %s: %s", self.rank, self.run_dir, text % values)


@cache
def _prepare() -> None:
    """Do once what takes seconds the first time: pyarrow imports pandas, numba loads its code.

    Done before the training begins it disturbs no step; and at the end of a process Python refuses some imports.
    """
    with suppress(Exception):  # what is wrong will be said with the first step
        partials(table(0, dict.fromkeys(REQUIRED, np.zeros(1, np.int64))), ClipBounds())


def _copied(columns: Mapping[str, object]) -> Mapping[str, NDArray[Any]] | Exception:
    """Arrays that are nobody else's; the error where they cannot be had, to be counted in its turn."""
    try:
        return {name: as_array(name, value).copy() for name, value in columns.items() if value is not None}
    except Exception as error:  # noqa: BLE001 - it is not raised into the training
        return error
