"""Rows as a table: equal stretches of text are held once, whatever repeats and whatever does not."""

import numpy as np
import pyarrow as pa
import pytest

from ingest.readers._rows import Rows, blank, coded, spelled


def held(column):
    """Bytes of the different buffers of a column."""
    return sum({buffer.address: buffer.size for chunk in column.chunks for buffer in chunk.buffers() if buffer}.values())


def log(steps, *, seldom=0):
    rows = Rows()
    for step in range(steps):
        for key in ("a", "b", "c", *(("seldom",) if seldom and step % seldom == 0 else ())):
            rows.add(key, step, 0.0)
    return rows.table().column("key")


@pytest.mark.parametrize("seldom", [0, 100])
def test_a_longer_log_takes_no_more_room_for_its_keys(seldom):
    column = log(60_000, seldom=seldom)
    assert column.to_pylist()[:4] == ["a", "b", "c", "seldom" if seldom else "a"]
    assert held(log(120_000, seldom=seldom)) < 1.1 * held(column)


@pytest.mark.parametrize("length", [0, 1, 4095, 4096, 4097, 20_000])
@pytest.mark.parametrize("kinds", [1, 3, 5000])
def test_text_goes_there_and_back(length, kinds):
    codes = np.random.default_rng(length).integers(0, kinds, length, np.int32)
    texts = [f"text {code}" for code in range(kinds)]
    (column, other) = spelled(codes, texts, texts[::-1])
    assert column.to_pylist() == [texts[code] for code in codes]
    assert other.to_pylist() == [texts[-1 - code] for code in codes]
    names, found = coded(column)
    assert [names[code] for code in found] == column.to_pylist()
    assert names == list(dict.fromkeys(column.to_pylist()))


def test_pieces_of_one_buffer_are_told_apart():
    whole = pa.array(["a", "b", "a", "c"])
    names, codes = coded(pa.chunked_array([whole.slice(0, 2), whole.slice(2), whole.slice(0, 2), whole.slice(0, 0)]))
    assert [names[code] for code in codes] == ["a", "b", "a", "c", "a", "b"]


@pytest.mark.parametrize("length", [0, 1, 4096, 10_000])
def test_blank_is_as_long_as_asked(length):
    assert (len(blank(length)), blank(length).null_count) == (length, length)
