"""One destination's own thread: one that hangs holds up nothing but itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from monitor.alerts.notification import Notification
from monitor.alerts.sink import SinkError

MOST_HANGING = 3  # tries that never came back, before the destination is left alone until one does

Tell = Callable[[Notification], None]


@dataclass(frozen=True, kw_only=True)
class Result:
    """What came of a try. One that came back after it had been given up is `late`."""

    id: int
    error: SinkError | None
    late: bool = False


@dataclass(frozen=True, kw_only=True)
class _Try:
    id: int
    began: float  # on the monotonic clock


class Worker:
    """Tells one destination one thing at a time; what waits for its turn waits in the store, where it is safe.

    Python cannot end a thread that waits for a network. A try that takes longer than `timeout_s` is therefore given up: it counts as
    failed, its thread is left to end by itself, and another one takes the next.

    Args:
        tell: tells the destination one thing; raises `SinkError`.
        timeout_s: how long a try may take.
        done: told the result of every try, on the thread of the try; of one that is given up on the thread that gives it up.
        name: of the threads.
    """

    def __init__(self, tell: Tell, timeout_s: float, done: Callable[[Result], None], name: str = "") -> None:
        self.timeout_s, self._tell, self._done, self._name = timeout_s, tell, done, name
        self._lock = threading.Lock()
        self._current: _Try | None = None
        self._back = False  # the current try has come back, and is about to be free
        self._hanging = 0

    @property
    def free(self) -> bool:
        """Whether it can be given something now."""
        with self._lock:
            return self._current is None and self._hanging < MOST_HANGING

    @property
    def busy(self) -> bool:
        """Whether it was given something that is neither told nor given up."""
        with self._lock:
            return self._current is not None

    @property
    def stuck(self) -> bool:
        """Whether so many tries hang that it is left alone until one of them comes back."""
        with self._lock:
            return self._hanging >= MOST_HANGING

    def give(self, number: int, notification: Notification) -> None:
        """Have something told; only while it is free."""
        with self._lock:
            self._current, self._back = trying, _ = _Try(id=number, began=time.monotonic()), False
        threading.Thread(target=self._run, args=(trying, notification), name=f"alert to {self._name}", daemon=True).start()

    def give_up(self) -> None:
        """Give the current try up if it takes too long; to be called now and then."""
        with self._lock:
            overdue = self._current
            if overdue is None or self._back or time.monotonic() - overdue.began <= self.timeout_s:
                return
            self._current, self._hanging = None, self._hanging + 1
        self._done(Result(id=overdue.id, error=SinkError(f"no answer within {self.timeout_s:g} s")))

    def _run(self, trying: _Try, notification: Notification) -> None:
        error: SinkError | None = None
        try:
            self._tell(notification)
        except SinkError as failed:
            error = failed
        except BaseException as unforeseen:  # noqa: BLE001 - for instance SystemExit out of a library; its text is not cleared of secrets
            error = SinkError(type(unforeseen).__name__)
        with self._lock:
            late = self._current is not trying
            self._back = self._back or not late
        try:
            self._done(Result(id=trying.id, error=error, late=late))  # before it is free: whoever waits for that finds it recorded
        finally:
            with self._lock:
                if late:
                    self._hanging -= 1
                else:
                    self._current = None
