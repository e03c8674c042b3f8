"""Are the bytes of many records what was written? CRC-32C of all of them at once, masked as TFRecord files store it."""

from __future__ import annotations

from functools import cache

import numpy as np

_POLYNOMIAL = 0x82F63B78  # Castagnoli, bits reversed
_MASK = 0xA282EAD8  # of the TFRecord format, so that a checksum over checksums is not degenerate
_PIECE = 1024  # bytes checked in one go; longer records are cut into pieces
_ROUND = 8  # lengths are rounded up to this, so that few groups cover all records
_REGISTER = 4  # bytes of the checksum's register: its start value flips as many bytes of the record


def masked(data: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Compute the masked checksum of each record.

    Args:
        data: uint8, the whole file.
        starts: int64, where each record's bytes begin; at least 8, which a frame's header guarantees.
        lengths: int64, how many bytes each has; none is empty.

    Returns:
        uint32, as long as `starts`.
    """
    crc = np.zeros(len(starts), np.uint32)
    rounded = -(-lengths // _ROUND) * _ROUND
    for width in np.unique(rounded).tolist():
        there = np.flatnonzero(rounded == width)
        if width <= _PIECE:
            crc[there] = _rows(data, starts[there] + lengths[there], lengths[there], width)
        else:
            crc[there] = [_long(data[start : start + length]) for start, length in zip(starts[there], lengths[there], strict=True)]
    crc ^= np.uint32(0xFFFFFFFF)
    return ((crc >> np.uint32(15)) | (crc << np.uint32(17))) + np.uint32(_MASK)


def masked_headers(data: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Compute the masked checksum of the 8 bytes at each offset, which may be 0."""
    rows = np.lib.stride_tricks.sliding_window_view(data, _ROUND)[offsets]
    rows[:, :_REGISTER] ^= 0xFF
    crc = _plain(rows) ^ np.uint32(0xFFFFFFFF)
    return ((crc >> np.uint32(15)) | (crc << np.uint32(17))) + np.uint32(_MASK)


def _rows(data: np.ndarray, ends: np.ndarray, lengths: np.ndarray, width: int) -> np.ndarray:
    """Checksums of records that fit one width: aligned at their ends, zeros before, which a register of zero ignores."""
    short = lengths < _REGISTER
    if short.any():
        return np.array([_bytewise(data[end - length : end]) for end, length in zip(ends, lengths, strict=True)], np.uint32)
    rows = np.lib.stride_tricks.sliding_window_view(data, width)[ends - width]
    before = width - lengths
    for column in range(int(before.max())):
        rows[column < before, column] = 0
    places = np.arange(len(rows))
    for column in range(_REGISTER):
        rows[places, before + column] ^= 0xFF
    return _plain(rows)


def _plain(rows: np.ndarray) -> np.ndarray:
    """Checksums with start value zero: each byte's share depends only on its distance from the end, and shares are XORed."""
    columns = np.ascontiguousarray(rows.T)
    shares = _shares()
    crc = np.zeros(len(rows), np.uint32)
    for column, share in zip(columns, shares[len(columns) - 1 :: -1] if len(columns) < _PIECE else shares[::-1], strict=False):
        crc ^= share.take(column)
    return crc


def _long(record: np.ndarray) -> int:
    """The checksum of one long record: its pieces side by side, then joined by moving the register over each."""
    padded = np.zeros(-(-len(record) // _PIECE) * _PIECE, np.uint8)
    padded[len(padded) - len(record) :] = record
    padded[len(padded) - len(record) :][:_REGISTER] ^= 0xFF
    first, second, third, fourth = (share.tolist() for share in _shares()[_PIECE - 1 : _PIECE - 1 - _REGISTER : -1])
    crc = 0
    for piece in _plain(padded.reshape(-1, _PIECE)).tolist():
        crc = first[crc & 255] ^ second[crc >> 8 & 255] ^ third[crc >> 16 & 255] ^ fourth[crc >> 24] ^ piece
    return crc


def _bytewise(record: np.ndarray) -> int:
    table, crc = _shares()[0].tolist(), 0xFFFFFFFF
    for byte in record.tolist():
        crc = table[(crc ^ byte) & 255] ^ (crc >> 8)
    return crc


@cache
def _shares() -> np.ndarray:
    """What a byte of each value adds to the checksum, by its distance from the end: 1024 x 256."""
    shares = np.zeros((_PIECE, 256), np.uint32)
    first = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        first = np.where(first & 1, (first >> np.uint32(1)) ^ np.uint32(_POLYNOMIAL), first >> np.uint32(1))
    shares[0] = first
    for distance in range(1, _PIECE):
        shares[distance] = first[shares[distance - 1] & 255] ^ (shares[distance - 1] >> np.uint32(8))
    return shares
