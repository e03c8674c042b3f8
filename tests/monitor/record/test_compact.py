"""Compacting a run: one file, a row group per step, the same numbers; parts go last."""

import numpy as np
import pyarrow.parquet as pq
import pytest

from ingest.errors import ReadError
from ingest.tokens import open_piece, token_log
from monitor.engines import local
from monitor.metrics import stored
from monitor.metrics.bounds import ClipBounds
from monitor.record import Recorder, compact, files

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


def test_a_run_without_parts_or_with_both_is_refused(tmp_path):
    with pytest.raises(ReadError, match="expected parts under"):
        compact(tmp_path)
    record(tmp_path, 1)
    (tmp_path / "tokens.parquet").write_bytes(b"")
    with pytest.raises(ReadError, match=r"either parts or tokens\.parquet"):
        compact(tmp_path)


def test_files_that_are_not_ours_stay(tmp_path):
    part = record(tmp_path, 1)
    (part.parent / "notes.txt").write_text("keep", encoding="utf-8")
    compact(tmp_path)
    assert (part.parent / "notes.txt").read_text(encoding="utf-8") == "keep"
