"""When a destination that failed is tried again."""

from __future__ import annotations

from zlib import crc32

FIRST_S = 1.0
MOST_S = 900.0  # a destination that is dead for a day is then asked a hundred times
_SPREAD = 0.5  # up to half as much again, so that many watchers do not come back at the same moment
_STEEPEST = 60  # doublings, so that a large number of tries is no overflow


def wait_s(tries: int, key: str = "", *, first_s: float = FIRST_S, most_s: float = MOST_S) -> float:
    """Seconds from a failed try to the next: doubled with each, never more than `most_s`, spread by `key`; the same for the same arguments.

    Args:
        tries: how many tries have failed, from 1.
        key: what the spread depends on; different keys come back at different moments.
        first_s: least wait after the first failure.
        most_s: the cap, spread included.
    """
    doubled = first_s * 2.0 ** min(max(tries, 1) - 1, _STEEPEST)
    spread = crc32(f"{key}:{tries}".encode()) / 2**32
    return float(min(doubled * (1 + _SPREAD * spread), most_s))
