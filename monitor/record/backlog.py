"""A short line of work for one thread, which whoever hands the work over never waits for."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")
_SETTLE_S = 1.0  # so often what is to be settled is settled, where the line is never empty


class Backlog(Generic[T]):
    """Items on their way to a thread that does them one after the other. No more than `limit` wait or are being done.

    The thread is a daemon, because the interpreter would wait for any other without end; whoever ends calls `flush` before. It is started
    with the first item, so that a process may be forked before that.
    """

    def __init__(self, limit: int, work: Callable[[T], None], settle: Callable[[], None]) -> None:
        """Take what does an item and what is called when the line is empty, or now and then; neither may raise."""
        self.pid = os.getpid()
        self._limit, self._work, self._settle = limit, work, settle
        self._lock, self._held = threading.Lock(), 0
        self._queue: SimpleQueue[tuple[T] | threading.Event | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    @property
    def waiting(self) -> int:
        """How many items wait or are being done."""
        return self._held

    def offer(self, make: Callable[[], T]) -> bool:
        """Make an item and put it in line; False, and nothing is made, where the line is full. What `make` raises goes through."""
        if not self._took_place():
            return False
        try:
            self._queue.put((make(),))
        except BaseException:
            self._give_place()
            raise
        return True

    def flush(self, timeout_s: float) -> bool:
        """Wait until what is in line by now is done; says whether it is."""
        if self._thread is None or self.pid != os.getpid():
            return True
        reached = threading.Event()
        self._queue.put(reached)
        return reached.wait(timeout_s)

    def close(self) -> None:
        """Let the thread end when it comes to the end of the line."""
        if self._thread is not None:
            self._queue.put(None)

    def _took_place(self) -> bool:
        with self._lock:
            if self._held >= self._limit:
                return False
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="ratiometer recorder", daemon=True)
                thread.start()
                self._thread = thread
            self._held += 1
            return True

    def _give_place(self) -> None:
        with self._lock:
            self._held -= 1

    def _run(self) -> None:
        settled = time.monotonic()
        while (item := self._queue.get()) is not None:
            if isinstance(item, threading.Event):
                self._settle()
                item.set()
                continue
            self._work(item[0])
            del item  # its arrays are large, and the next item may be long in coming
            self._give_place()
            if self._queue.empty() or time.monotonic() - settled > _SETTLE_S:
                self._settle()
                settled = time.monotonic()
