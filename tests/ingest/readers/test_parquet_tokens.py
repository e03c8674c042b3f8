"""A folder of closed parts is one token log; what is no part, damaged, or outside the folder is not read."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.errors import ReadError
from ingest.identify import identify_reader
from ingest.readers.parquet_tokens import READER
from ingest.run import ProblemKind


def part(path, step=1, **columns):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"step": [step], "sample_id": [1], "rollout_logprob": [-1.0], **columns}), path)


def read(path):
    assert identify_reader(path) is READER
    return READER.read(path)[0]


def test_one_file_whatever_its_name(tmp_path):
    part(tmp_path / "log.bin")
    raw = read(tmp_path / "log.bin")
    assert (raw.name, len(raw.tokens.pieces)) == ("log", 1)


def test_a_folder_of_parts(tmp_path):
    for step in (10, 2):
        part(tmp_path / f"step={step:06d}" / "rank=000.parquet", step)
        part(tmp_path / f"step={step:06d}" / "rank=000.sums.parquet", step)
    (tmp_path / "_delta_log.parquet").write_bytes(b"notes of another tool")
    part(tmp_path / "a" / "b" / "c" / "far_below.parquet")
    (tmp_path / "step=000002" / "rank=001.parquet.tmp").write_bytes(b"half")
    (tmp_path / "step=000002" / ".rank=001.parquet.7.writing").write_bytes(b"half")
    raw = read(tmp_path)
    assert [piece.path.parent.name for piece in raw.tokens.pieces] == ["step=000002", "step=000010"]
    assert raw.problems == ()


def test_a_damaged_part_is_listed_and_the_others_read(tmp_path):
    part(tmp_path / "a.parquet")
    (tmp_path / "b.parquet").write_bytes(b"PAR1 nothing")
    raw = read(tmp_path)
    assert len(raw.tokens.pieces) == 1
    (problem,) = raw.problems
    assert problem.kind is ProblemKind.LOST
    assert problem.path.endswith("b.parquet")


def test_no_part_that_can_be_read_is_an_error(tmp_path):
    (tmp_path / "b.parquet").write_bytes(b"PAR1 nothing")
    with pytest.raises(ReadError, match="whole Parquet file"):
        read(tmp_path)


def test_the_same_note_about_many_parts_is_one(tmp_path):
    for name in "abc":
        part(tmp_path / f"{name}.parquet", prompt=["x"])
    assert len(read(tmp_path).problems) == 1


def test_links_out_of_the_folder_are_not_followed(tmp_path):
    part(tmp_path / "elsewhere.parquet")
    part(tmp_path / "log" / "a.parquet")
    (tmp_path / "log" / "b.parquet").symlink_to(tmp_path / "elsewhere.parquet")
    raw = read(tmp_path / "log")
    assert len(raw.tokens.pieces) == 1
    assert raw.problems[0].place == "b.parquet"
    assert "not followed" in raw.problems[0].what


def test_a_run_folder_is_not_a_folder_of_parts(tmp_path):
    part(tmp_path / "tokens.parquet")
    assert READER.objection(tmp_path) == "it is a run folder, not a folder of Parquet parts"
