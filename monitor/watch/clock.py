"""What time it is for a watch: the time of its start, and what has passed since on a clock that nobody can set."""

from __future__ import annotations

import time


class SteadyClock:
    """Seconds since the epoch that never jump; a machine whose clock is set while it watches keeps the time it had."""

    def __init__(self) -> None:
        self._wall, self._steady = time.time(), time.monotonic()

    def __call__(self) -> float:
        """Now."""
        return self._wall + time.monotonic() - self._steady
