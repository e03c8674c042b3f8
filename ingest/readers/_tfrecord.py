"""Where the records of a TFRecord file lie: length, checksum of the length, bytes, checksum of the bytes, one after the other.

A damaged length breaks the chain; it is taken up again at the next place where a length and its checksum fit.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ingest.readers._crc32c import masked, masked_headers

HEAD, FOOT = 12, 4  # bytes before and after a record's own
_LENGTH = struct.Struct("<Q")
_MOST_FAULTS = 1000  # a file with more damaged places than this is not an event file any more
_FIRST_STRETCH, _STRETCH = 256, 1 << 17  # records looked at between two checks of their lengths; few where damage was near
_WINDOW = 1 << 20  # bytes searched at once for the next whole record


@dataclass(frozen=True, kw_only=True)
class Records:
    """The records of one file, and the places where it is damaged."""

    starts: np.ndarray  # int64: where the bytes begin
    lengths: np.ndarray  # int64
    damaged: tuple[tuple[int, int], ...]  # from, to: bytes that belong to no record
    cut_at: int | None  # where a record begins that the file does not hold whole


def opened(path: Path) -> np.ndarray:
    """The bytes of a file, not read before they are looked at."""
    with path.open("rb") as file:
        if not path.stat().st_size:
            return np.zeros(0, np.uint8)
        return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)


def looks_framed(head: bytes) -> bool:
    """Whether a file begins with a length whose checksum fits."""
    if len(head) < HEAD or not any(head[:8]):
        return False
    found = masked_headers(np.frombuffer(head[:8], np.uint8), np.zeros(1, np.int64))
    return int(found[0]) == int.from_bytes(head[8:HEAD], "little")


def framed(data: np.ndarray) -> Records:
    """Find all records of a file."""
    found: list[np.ndarray] = [np.zeros(0, np.int64)]
    damaged: list[tuple[int, int]] = []
    cut_at: int | None = None
    offset, stretch = 0, _FIRST_STRETCH
    while offset < len(data):
        offsets, end = _chain(data, offset, stretch)
        fitting = _fitting(data, offsets)
        found.append(offsets[:fitting])
        if fitting == len(offsets) and (end == len(data) or len(offsets) == stretch):
            offset, stretch = end, min(2 * stretch, _STRETCH)
            continue
        broken_at = int(offsets[fitting]) if fitting < len(offsets) else end
        if _is_cut(data, broken_at):
            cut_at = broken_at
            break
        offset, stretch = _next(data, broken_at + 1) if len(damaged) < _MOST_FAULTS else len(data), _FIRST_STRETCH
        damaged.append((broken_at, offset))
    starts = np.concatenate(found)
    return Records(starts=starts + HEAD, lengths=_lengths(data, starts), damaged=tuple(damaged), cut_at=cut_at)


def intact(data: np.ndarray, records: Records) -> np.ndarray:
    """Whether each record's bytes are what its checksum says."""
    if not len(records.starts):
        return np.zeros(0, bool)
    stored = np.lib.stride_tricks.sliding_window_view(data, FOOT)[records.starts + records.lengths].view("<u4")[:, 0]
    fits: np.ndarray = masked(data, records.starts, records.lengths) == stored
    return fits


def _chain(data: np.ndarray, offset: int, most: int) -> tuple[np.ndarray, int]:
    """Follow lengths from one record to the next, unchecked; ends where a record would not lie in the file."""
    offsets: list[int] = []
    last, unpack = len(data) - HEAD - FOOT, _LENGTH.unpack_from
    buffer = data.data
    while offset < last and len(offsets) < most:
        (length,) = unpack(buffer, offset)
        if not length or length > last - offset:
            break
        offsets.append(offset)
        offset += length + HEAD + FOOT
    return np.array(offsets, np.int64), offset


def _fitting(data: np.ndarray, offsets: np.ndarray) -> int:
    """How many of the lengths, from the first on, fit their checksums."""
    if not len(offsets):
        return 0
    bad = np.flatnonzero(masked_headers(data, offsets) != _stored(data, offsets))
    return int(bad[0]) if bad.size else len(offsets)


def _is_cut(data: np.ndarray, offset: int) -> bool:
    """Whether the file ends within a record that begins well."""
    if len(data) - offset < HEAD:
        return True
    at = np.array([offset])
    return bool(_lengths(data, at)[0]) and bool((masked_headers(data, at) == _stored(data, at))[0])


def _next(data: np.ndarray, offset: int) -> int:
    """The next place at which a record may begin; the end of the file where there is none."""
    for low in range(offset, len(data) - HEAD + 1, _WINDOW):
        places = np.arange(low, min(low + _WINDOW, len(data) - HEAD + 1))
        places = places[(data[places + 4] == 0) & (data[places + 5] == 0) & (data[places + 6] == 0) & (data[places + 7] == 0)]
        lengths = _lengths(data, places)
        places = places[(lengths > 0) & (lengths <= len(data) - places - HEAD - FOOT)]
        fitting = places[masked_headers(data, places) == _stored(data, places)] if places.size else places
        if fitting.size:
            return int(fitting[0])
    return len(data)


def _lengths(data: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    if not len(offsets):
        return np.zeros(0, np.int64)
    found: np.ndarray = np.lib.stride_tricks.sliding_window_view(data, _LENGTH.size)[offsets].view("<u8")[:, 0].astype(np.int64)
    return found


def _stored(data: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """The checksums that stand behind the lengths."""
    found: np.ndarray = np.lib.stride_tricks.sliding_window_view(data, FOOT)[offsets + _LENGTH.size].view("<u4")[:, 0]
    return found
