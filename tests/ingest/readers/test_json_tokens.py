"""Dumps are read in ranges of bytes: every line once, whatever the ranges, and never more than a line beyond one."""

import json
import tracemalloc

import pytest

from ingest.readers import _json_tokens as ranges
from ingest.readers.nemo_rl_tokens import READER
from ingest.tokens import read_row_group
from tests.ingest.readers.test_nemo_rl_tokens import row, write


def all_of(path):
    (raw,) = READER.read(path)
    (piece,) = raw.tokens.pieces
    parts = [read_row_group(piece, index) for index in range(piece.row_groups)]
    return [value for table, _ in parts for value in table["sample_id"].to_pylist()[::2]], [p for _, problems in parts for p in problems]


@pytest.mark.parametrize("size", [1, 7, 100, 440, 1000, 10**6])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_every_line_belongs_to_one_range(tmp_path, monkeypatch, size, end):
    monkeypatch.setattr(ranges, "RANGE_BYTES", size)
    path = tmp_path / "train_data_step1.jsonl"
    path.write_bytes(b"".join((json.dumps(row(idx=index)) + end).encode() for index in range(9)))
    assert all_of(path) == (list(range(9)), [])


@pytest.mark.parametrize("size", [1, 50, 500, 10**6])
def test_a_problem_names_the_line_of_the_file_not_of_the_range(tmp_path, monkeypatch, size):
    monkeypatch.setattr(ranges, "RANGE_BYTES", size)
    path = write(tmp_path / "train_data_step1.jsonl", *(row(idx=index) for index in range(6)), row(input_lengths=[99]), row(idx=7))
    found, (problem,) = all_of(path)
    assert found == [0, 1, 2, 3, 4, 5, 7]
    assert problem.place == "line 7"


def test_a_line_that_is_too_long_is_passed_over_and_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(ranges, "MAX_TOKEN_LINE", 2000)
    path = write(tmp_path / "train_data_step1.jsonl", row(), row(content=["x" * 5000], idx=1), row(idx=2))
    found, (problem,) = all_of(path)
    assert (found, problem.place, problem.rows) == ([0, 2], "line 2", 1)


def test_a_first_line_without_end_is_no_dump(tmp_path, monkeypatch):
    monkeypatch.setattr(ranges, "MAX_TOKEN_LINE", 2000)
    path = tmp_path / "train_data_step1.jsonl"
    path.write_bytes(b"{" + b" " * 5000)
    assert READER.objection(path) is not None


def test_a_byte_order_mark_and_blank_lines_are_passed_over(tmp_path):
    path = tmp_path / "train_data_step1.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(row()).encode() + b"\n\n  \n" + json.dumps(row(idx=1)).encode())
    assert all_of(path) == ([0, 1], [])


def test_a_number_that_some_responses_lack_is_nan_there_and_a_whole_number_is_left_out(tmp_path):
    path = write(tmp_path / "train_data_step1.jsonl", row(), row(token_ids=None, advantages=None, idx=1))
    (raw,) = READER.read(path)
    table, problems = read_row_group(raw.tokens.pieces[0], 0)
    assert "token_id" not in table.column_names
    assert str(table["advantage"].to_pylist()) == "[0.5, 0.5, nan, nan]"
    assert [problem.what for problem in problems] == [
        "not recorded for 2 tokens: the column is left out",
        "not recorded for 2 tokens: NaN there",
    ]


def test_only_the_wanted_columns_are_handed_over(tmp_path):
    (raw,) = READER.read(write(tmp_path / "train_data_step1.jsonl", row()))
    table, _ = read_row_group(raw.tokens.pieces[0], 0, frozenset({"step", "rollout_logprob"}))
    assert table.column_names == ["step", "rollout_logprob"]


def test_a_step_of_any_size_needs_the_memory_of_a_range(tmp_path, monkeypatch):
    monkeypatch.setattr(ranges, "RANGE_BYTES", 150_000)
    path = write(tmp_path / "train_data_step1.jsonl", *(row(idx=index) for index in range(20_000)))
    assert path.stat().st_size > 40 * ranges.RANGE_BYTES
    (raw,) = READER.read(path)
    (piece,) = raw.tokens.pieces
    tracemalloc.start()
    rows = sum(read_row_group(piece, index)[0].num_rows for index in range(piece.row_groups))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert rows == 40_000
    assert peak < path.stat().st_size  # one range holds a fortieth of the file; its Python objects are some ten times that


def test_every_prefix_of_a_dump_is_read_or_refused(tmp_path):
    whole = write(tmp_path / "train_data_step1.jsonl", row(), row(idx=1)).read_bytes()
    for end in range(0, len(whole), 11):
        path = tmp_path / "train_data_step1.jsonl"
        path.write_bytes(whole[:end])
        if READER.objection(path) is None:
            found, problems = all_of(path)
            assert found == [0]
            assert all(problem.rows == 0 for problem in problems)
