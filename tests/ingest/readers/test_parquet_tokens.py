"""A folder of closed parts is one token log; what is no part, damaged, or outside the folder is not read."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.errors import ReadError
from ingest.identify import identify_reader
from ingest.load import load
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
    for step, name in enumerate("abc"):
        part(tmp_path / f"{name}.parquet", step, prompt=["x"])
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


def log(path, steps, ids, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"step": steps, "sample_id": ids, "rollout_logprob": [-1.0] * len(steps)}), path, **options)


def test_loose_files_of_other_steps_or_other_responses_are_one_log(tmp_path):
    log(tmp_path / "a.parquet", [1, 2], [0, 1])
    log(tmp_path / "b.parquet", [3, 4], [0, 1])
    log(tmp_path / "deep" / "c.parquet", [3, 4], [2, 3])
    raws = READER.read(tmp_path)
    assert [(raw.name, len(raw.tokens.pieces), raw.problems) for raw in raws] == [(tmp_path.name, 3, ())]


def test_row_groups_tell_apart_what_whole_files_do_not(tmp_path):
    log(tmp_path / "a.parquet", [1, 2], [0, 1], row_group_size=1)
    log(tmp_path / "b.parquet", [1, 2], [1, 0], row_group_size=1)
    assert len(READER.read(tmp_path)) == 1


def test_loose_files_that_may_hold_the_same_tokens_are_a_run_each(tmp_path):
    log(tmp_path / "a.parquet", [1, 2], [0, 1])
    log(tmp_path / "b.parquet", [2, 3], [1, 2])
    log(tmp_path / "c.parquet", [9], [0])
    runs = load(tmp_path)
    assert [(run.name, len(run.tokens.pieces)) for run in runs] == [("a", 1), ("b", 1), ("c", 1)]
    for run in runs:
        (note,) = run.problems
        assert note.kind is ProblemKind.NOTE
        assert "not parts of one log (a.parquet and b.parquet have steps and sample_ids in common)" in note.what


def test_without_statistics_files_are_not_taken_as_one_log(tmp_path):
    log(tmp_path / "a.parquet", [1], [0])
    log(tmp_path / "b.parquet", [2], [0], write_statistics=False)
    raws = READER.read(tmp_path)
    assert [raw.name for raw in raws] == ["a", "b"]
    assert "b.parquet has no statistics" in raws[0].problems[0].what


def test_names_and_numbers_of_responses_say_nothing_about_each_other(tmp_path):
    log(tmp_path / "a.parquet", [1], [0])
    log(tmp_path / "b.parquet", [1], ["x"])
    assert len(READER.read(tmp_path)) == 2


def test_recorded_folders_beside_each_other_are_a_run_each_and_loose_files_another(tmp_path):
    for name in ("one", "two"):
        log(tmp_path / name / "step=000001" / "rank=000.parquet", [1], [0])
    log(tmp_path / "three.parquet", [1], [0])
    raws = READER.read(tmp_path)
    assert [(raw.name, len(raw.tokens.pieces)) for raw in raws] == [("one", 1), ("two", 1), (tmp_path.name, 1)]


def test_what_was_superseded_is_not_read(tmp_path):
    log(tmp_path / "step=000001" / "rank=000.parquet", [1], [0])
    log(tmp_path / "superseded" / "old.parquet", [2], [0])
    (raw,) = READER.read(tmp_path)
    assert len(raw.tokens.pieces) == 1


@pytest.mark.parametrize("mark", ["a/run.toml", "x/a/steps.jsonl", "x/a/tokens.parquet", "x/a/tokens/step=000001/rank=000.parquet"])
def test_runs_further_down_are_named_and_not_mixed(tmp_path, mark):
    log(tmp_path / mark, [1], [0])
    log(tmp_path / "loose.parquet", [1], [0])
    run = mark.split("/a/")[0] + "/a" if mark.startswith("x") else "a"
    assert READER.objection(tmp_path) == f"there are runs further down ({run}); name one of them, or the folder they lie in"


def test_two_levels_above_several_runs_each_run_stays_its_own(tmp_path):
    for run in ("a", "b"):
        log(tmp_path / "x" / run / "tokens.parquet", [1], [0])
    assert [run.name for run in load(tmp_path)] == ["a", "b"]
    assert "there are runs further down (x/a, x/b)" in str(READER.objection(tmp_path))


def test_a_log_without_rows_is_refused(tmp_path):
    log(tmp_path / "a.parquet", pa.array([], pa.int64()), pa.array([], pa.int64()))
    for path in (tmp_path, tmp_path / "a.parquet"):
        with pytest.raises(ReadError, match="expected at least one token, found a token log without rows"):
            load(path)


def test_a_step_that_a_rank_left_out_is_said(tmp_path):
    for step, ranks in ((1, 3), (2, 2), (3, 3), (4, 1)):
        for rank in range(ranks):
            log(tmp_path / f"step={step:06d}" / f"rank={rank:03d}.parquet", [step], [rank])
    (note,) = read(tmp_path).problems
    assert (note.place, note.kind) == ("step 2: 2 of 3 ranks, step 4: 1 of 3 ranks", ProblemKind.NOTE)
