"""Compacting a run: one file, a row group per step, the same numbers; parts go last."""

import sys

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from ingest.errors import ReadError
from ingest.tokens import open_piece, token_log
from monitor.engines import local
from monitor.metrics import stored
from monitor.metrics.bounds import ClipBounds
from monitor.record import Recorder, compact, files, set_aside

BOUNDS = ClipBounds(eps_low=0.1)


def record(folder, step, rank=0, seed=None, **extra):
    rng = np.random.default_rng(step if seed is None else seed)
    columns = {"sample_id": np.repeat([4, 2], 3), "position": np.tile(np.arange(3), 2) + 3 * rank}
    logprobs = {name: -rng.exponential(size=6) for name in ("rollout_logprob", "same_weights_logprob", "current_logprob")}
    return Recorder(folder, rank=rank, bounds=BOUNDS).record(step, **columns, **logprobs, **extra)


def test_one_row_group_per_step_and_only_then_no_parts(tmp_path):
    for step in (1, 10, 2):
        record(tmp_path, step)
    whole = compact(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tokens.parquet", "tokens.sums.parquet"]
    file = pq.ParquetFile(whole)
    assert file.num_row_groups == 3
    assert [file.read_row_group(index)["step"][0].as_py() for index in range(3)] == [1, 2, 10]


def test_steps_are_ordered_as_numbers(tmp_path):
    for step in (1_000_000, 999_999):
        record(tmp_path, step)
    file = pq.ParquetFile(compact(tmp_path))
    assert [file.read_row_group(index)["step"][0].as_py() for index in range(2)] == [999_999, 1_000_000]


def test_ranks_of_a_step_become_one_sorted_row_group(tmp_path):
    for rank in (1, 0):
        record(tmp_path, 3, rank=rank, seed=rank)
    table = pq.ParquetFile(compact(tmp_path)).read()
    keys = list(zip(table["sample_id"].to_pylist(), table["position"].to_pylist(), strict=True))
    assert keys == sorted(keys)
    assert len(keys) == 12


def test_parts_one_file_and_stored_sums_give_the_same_numbers(tmp_path):
    parts = [record(tmp_path, step, rank=rank, seed=step + rank) for step in (1, 2) for rank in (0, 1)]
    before, _ = local.partials(token_log([open_piece(part)[0] for part in parts]), BOUNDS)
    whole = compact(tmp_path)
    log = token_log([open_piece(whole)[0]])
    from_sums, _ = local.partials(log, BOUNDS)
    assert stored.read(whole, BOUNDS) is not None
    stored.beside(whole).unlink()
    from_tokens, _ = local.partials(log, BOUNDS)
    for step in (1, 2):
        np.testing.assert_array_equal(from_sums[step].ratio_sums, from_tokens[step].ratio_sums)
        np.testing.assert_allclose(before[step].ratio_sums, from_tokens[step].ratio_sums, rtol=1e-12, atol=1e-14)
        np.testing.assert_array_equal(before[step].histograms, from_tokens[step].histograms)
        assert from_tokens[step].sequences["length"].tolist() == [6, 6]


def test_when_writing_fails_every_part_is_still_there(tmp_path, monkeypatch):
    parts = [record(tmp_path, step) for step in (1, 2)]

    def full(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr(files, "_sync", full)
    with pytest.raises(OSError, match="no space left"):
        compact(tmp_path)
    assert all(part.is_file() for part in parts)
    assert [path.name for path in tmp_path.iterdir()] == ["tokens"]


def test_parts_whose_columns_differ_are_left_alone(tmp_path):
    record(tmp_path, 1)
    record(tmp_path, 2, entropy=np.ones(6))
    with pytest.raises(ReadError, match=r"expected the columns of rank=000\.parquet in step=000001"):
        compact(tmp_path)
    assert (tmp_path / "tokens").is_dir()


def test_a_run_without_parts_is_refused(tmp_path):
    with pytest.raises(ReadError, match="expected parts under"):
        compact(tmp_path)


def steps_in(path):
    file = pq.ParquetFile(path)
    return [file.read_row_group(index)["step"][0].as_py() for index in range(file.num_row_groups)]


def test_parts_recorded_later_join_the_compacted_file(tmp_path):
    for step in (1, 5, 3):
        record(tmp_path, step)
    compact(tmp_path)
    before = pq.read_table(tmp_path / "tokens.parquet")
    for step in (6, 4):
        record(tmp_path, step)
    whole = compact(tmp_path)
    assert steps_in(whole) == [1, 3, 4, 5, 6]
    after = pq.read_table(whole)
    assert after.filter(pc.is_in(after["step"], value_set=pa.array([1, 3, 5]))).equals(before)
    assert list(stored.read(whole, BOUNDS)) == [1, 3, 4, 5, 6]
    assert not (tmp_path / "tokens").exists()


def test_a_call_that_was_cut_short_is_finished_by_the_next(tmp_path, monkeypatch):
    record(tmp_path, 1, entropy=np.full(6, np.nan))
    record(tmp_path, 1, rank=1, entropy=np.full(6, np.nan))
    with monkeypatch.context() as cut:
        cut.setattr(sys.modules[compact.__module__], "_remove", lambda *_: None)
        compact(tmp_path)
    assert (tmp_path / "tokens").exists()
    record(tmp_path, 2, entropy=np.full(6, np.nan))
    assert steps_in(compact(tmp_path)) == [1, 2]
    assert not (tmp_path / "tokens").exists()


def test_other_tokens_of_a_compacted_step_are_refused_and_both_stay(tmp_path):
    record(tmp_path, 1)
    whole = compact(tmp_path)
    before = whole.read_bytes()
    part = record(tmp_path / "other", 1, seed=9)
    (tmp_path / "tokens").mkdir()
    part.parent.rename(tmp_path / "tokens" / "step=000001")
    with pytest.raises(ReadError, match="step 1 in both, with other tokens"):
        compact(tmp_path)
    assert whole.read_bytes() == before
    assert (tmp_path / "tokens" / "step=000001" / "rank=000.parquet").is_file()


def test_a_file_that_compact_did_not_write_is_left_alone(tmp_path):
    two = pa.concat_tables([pq.ParquetFile(record(tmp_path / "b", step)).read() for step in (1, 2)])
    pq.write_table(two, tmp_path / "tokens.parquet")
    (tmp_path / "b" / "tokens").rename(tmp_path / "tokens")
    with pytest.raises(ReadError, match="expected a row group per step, found row groups of several steps"):
        compact(tmp_path)


def test_compacted_steps_are_set_aside_whole_and_taken_out(tmp_path):
    for step in (1, 2, 3):
        record(tmp_path, step)
    whole = compact(tmp_path)
    before = whole.read_bytes()
    Recorder(tmp_path, rank=1, resume_from=3)
    assert whole.read_bytes() == before  # another rank's business
    record(tmp_path, 4)
    assert set_aside(tmp_path, 3) == tmp_path / "tokens" / "superseded" / "001"
    aside = tmp_path / "tokens" / "superseded" / "001"
    assert sorted(path.name for path in aside.iterdir()) == ["step=000004", "tokens.parquet"]
    assert (aside / "tokens.parquet").read_bytes() == before
    assert steps_in(whole) == [1, 2]
    assert list(stored.read(whole, BOUNDS)) == [1, 2]
    assert set_aside(tmp_path, 3) is None
    assert set_aside(tmp_path, 0) == tmp_path / "tokens" / "superseded" / "002"
    assert [path.name for path in tmp_path.iterdir()] == ["tokens"]


def test_files_that_are_not_ours_stay(tmp_path):
    part = record(tmp_path, 1)
    (part.parent / "notes.txt").write_text("keep", encoding="utf-8")
    compact(tmp_path)
    assert (part.parent / "notes.txt").read_text(encoding="utf-8") == "keep"


def test_a_part_without_a_number_in_its_name_is_refused_and_nothing_is_changed(tmp_path):
    part = record(tmp_path, 1)
    stray = tmp_path / "tokens" / "step=abc" / part.name
    stray.parent.mkdir()
    stray.write_bytes(part.read_bytes())
    with pytest.raises(ReadError, match=r"step=abc.*no number there"):
        compact(tmp_path)
    assert part.exists()
    assert set_aside(tmp_path, 1) is not None  # a trainer that resumes is not held up by it
    assert stray.exists()
    assert not (tmp_path / "tokens.parquet").exists()
