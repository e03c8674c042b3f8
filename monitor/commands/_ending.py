"""How Ctrl-C and SIGTERM end a watch: soon, without a traceback, and whatever it is computing at that moment.

A signal raises KeyboardInterrupt in the main thread. That alone is not enough: raised within a callback of a C library it is swallowed;
on its way out it waits for threads that compile or sum (`with ThreadPoolExecutor`), and so does Python at its end; a main thread within C
hears of it only afterwards. So it is noted as well, raised again until the loop is left, and where that does not help, the process is ended
as `kill` would. Nothing is lost by that: a watch keeps all in transactions.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import FrameType
from typing import NoReturn

AGAIN_S = 0.3  # after which it is raised again
LEAVE_S = 1.5  # within which the loop is to be left
CLOSE_S = 3.0  # within which what is being sent may end
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass
class Ending:
    """Whether somebody asked for the end, and how far that is."""

    asked: bool = False
    left: threading.Event = field(default_factory=threading.Event)  # the loop was left: nothing is to be interrupted any more
    closed: threading.Event = field(default_factory=threading.Event)
    by: int = signal.SIGINT

    def interrupt(self, number: int, _frame: FrameType | None) -> None:
        """Note it, and break off what is being done."""
        self.asked, self.by = True, number
        if not self.left.is_set():
            raise KeyboardInterrupt


_ending = Ending()  # of the watch that runs, or ran last


@contextmanager
def ended_by_signals(code: int) -> Iterator[Ending]:
    """Let SIGINT and SIGTERM end what is done within; nothing of them comes out of it.

    Args:
        code: exit code of a process that has to be ended the hard way.
    """
    global _ending  # noqa: PLW0603 - signals are of the process
    _ending = ending = Ending()
    if threading.current_thread() is not threading.main_thread():
        yield ending
        return
    with _insisting(ending, code), suppress(KeyboardInterrupt):
        yield ending


@contextmanager
def _insisting(ending: Ending, code: int) -> Iterator[None]:
    """Handlers of the signals, and a thread that hears of them at once, also while the main thread is within C."""
    heard, told = socket.socketpair()
    told.setblocking(False)
    insisting = threading.Thread(target=_insist, args=(heard, ending, code), name="end", daemon=True)
    insisting.start()
    awake = signal.set_wakeup_fd(told.fileno(), warn_on_full_buffer=False)
    before = {number: signal.signal(number, ending.interrupt) for number in _SIGNALS}
    try:
        yield
    finally:
        ending.left.set()
        ending.closed.set()
        signal.set_wakeup_fd(awake)
        told.close()
        insisting.join()  # it may be about to raise the signal again
        heard.close()
        for number, handler in before.items():
            signal.signal(number, handler)


def leave(code: int) -> NoReturn:
    """End the process. After a watch that was ended, threads that still compile are not waited for: all that is to be kept is kept."""
    if _ending.asked:
        _end(code)
    sys.exit(code)


def _insist(heard: socket.socket, ending: Ending, code: int) -> None:
    """Wait for a signal, and see to it that it has an effect; on a thread of its own."""
    if not heard.recv(1):  # closed: it ended by itself
        return
    end = time.monotonic() + LEAVE_S
    while not ending.left.wait(AGAIN_S) and time.monotonic() < end:
        os.kill(os.getpid(), ending.by)
    if not ending.closed.wait(CLOSE_S if ending.left.is_set() else 0):
        _end(code)


def _end(code: int) -> NoReturn:
    """End at once."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)
