"""The recorder: closed parts in the promised layout, clear refusals, nothing half-written under a final name."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.errors import RatiometerError, ShapeError
from ingest.load import load
from ingest.schema import TOKENS
from monitor.metrics import kernel, stored
from monitor.metrics.bounds import ClipBounds
from monitor.metrics.frame import metric_frame
from monitor.record import Recorder, compact, files

BASE = {"sample_id": [1, 1, 0], "position": [0, 1, 0], "rollout_logprob": [-1.0, -2.0, -3.0]}


class Tensor:
    """What a CPU tensor of another library looks like to numpy."""

    def __init__(self, values):
        self.values = np.asarray(values, np.float32)

    def __array__(self, dtype=None, copy=None):
        return self.values


@pytest.fixture
def recorder(tmp_path):
    return Recorder(tmp_path)


def test_a_part_lies_where_it_should_with_its_sums_beside_it(recorder, tmp_path):
    part = recorder.record(123, **BASE)
    assert part == tmp_path / "tokens" / "step=000123" / "rank=000.parquet"
    assert sorted(path.name for path in part.parent.iterdir()) == ["rank=000.parquet", "rank=000.sums.parquet"]


def test_columns_are_canonical_required_and_sorted(recorder):
    part = recorder.record(5, **BASE, current_logprob=Tensor([-1.5, -2.5, -3.5]), loss_mask=[1, 0, 1], trainer_version=7, old_version=6)
    table = pq.ParquetFile(part).read()
    assert all(column.equals(TOKENS.field(column.name)) and not column.nullable for column in table.schema)
    assert table["sample_id"].to_pylist() == [0, 1, 1]
    assert table["position"].to_pylist() == [0, 0, 1]
    assert table["current_logprob"].to_pylist() == [-3.5, -1.5, -2.5]
    assert table["loss_mask"].to_pylist() == [True, True, False]
    assert table["trainer_version"].to_pylist() == [7] * 3
    assert table["old_version"].to_pylist() == [6] * 3
    assert table["step"].to_pylist() == [5] * 3
    assert "old_logprob" not in table.column_names


def test_floats_are_split_by_byte_integers_have_dictionaries_and_a_page_holds_the_part(recorder):
    tokens = 100_000
    rng = np.random.default_rng(0)
    part = recorder.record(0, sample_id=np.arange(tokens), position=np.zeros(tokens, int), rollout_logprob=-rng.random(tokens))
    group = pq.ParquetFile(part).metadata.row_group(0)
    columns = {group.column(index).path_in_schema: group.column(index) for index in range(group.num_columns)}
    assert "BYTE_STREAM_SPLIT" in columns["rollout_logprob"].encodings
    assert not columns["rollout_logprob"].has_dictionary_page
    assert columns["sample_id"].has_dictionary_page
    assert "DELTA_BINARY_PACKED" in columns["position"].encodings
    assert {column.compression for column in columns.values()} == {"ZSTD"}
    assert files.ROWS_PER_PAGE == 10**7


def test_the_sums_are_those_of_the_tokens(recorder):
    part = recorder.record(4, **BASE, current_logprob=[-1.1, -2.2, -3.3])
    found = stored.read(part, ClipBounds())[4]
    wanted = kernel.partials(pq.ParquetFile(part).read(), ClipBounds())[4]
    np.testing.assert_array_equal(found.ratio_sums, wanted.ratio_sums)
    np.testing.assert_array_equal(found.histograms, wanted.histograms)


def test_a_step_is_recorded_once(recorder):
    part = recorder.record(1, **BASE)
    before = part.read_bytes()
    with pytest.raises(RatiometerError, match="step 1 of rank 0 is recorded already"):
        recorder.record(1, **BASE)
    assert part.read_bytes() == before


def test_ranks_have_parts_of_their_own(tmp_path):
    parts = [Recorder(tmp_path, rank=rank).record(1, **BASE) for rank in (0, 11)]
    assert [part.name for part in parts] == ["rank=000.parquet", "rank=011.parquet"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (
            {"position": [0, 1]},
            r"position: not one row per token. Shapes: sample_id \(3,\) int64, position \(2,\) int64, rollout_logprob \(3,\)",
        ),
        ({"rollout_logprob": [[-1.0, -2.0, -3.0]]}, r"rollout_logprob: not one row per token.*rollout_logprob \(1, 3\) float64"),
        ({"current_logprob": -1.0}, r"current_logprob: not one row per token.*current_logprob \(\) float64"),
        ({"trainer_version": [1, 2]}, r"trainer_version: not one row per token"),
        ({"sample_id": [0.0, 1.0, 1.0]}, "sample_id: expected whole numbers, found float64"),
        ({"rollout_version": [True, False, True]}, "rollout_version: expected whole numbers, found bool"),
        ({"token_id": [0, 1, 2**40]}, "token_id: expected whole numbers that fit int32"),
        ({"loss_mask": [0.0, 0.5, 1.0]}, "loss_mask: expected a mask of true and false"),
        ({"reward": ["a", "b", "c"]}, "reward: expected numbers, found <U1"),
        ({"entropy": [True, False, True]}, "entropy: expected floats, found a mask"),
        ({"reward": [[1.0], [1.0, 2.0], [3.0]]}, "reward cannot be read as an array"),
        ({"reward": [1.0, 2.0]}, r"reward: not one row per token.*Repeat the value of a response on each of its tokens"),
        ({"position": [0, -1, 0]}, "position: expected places from 0, found a negative one"),
        ({"sample_id": None, "position": None}, r"sample_id, position: missing\. Shapes: rollout_logprob \(3,\)"),
        ({"advantage": [1.0, -1e300, 2.0]}, "advantage: expected numbers that fit float32"),
        ({"sample_id": [], "position": [], "rollout_logprob": []}, "no tokens at all"),
    ],
)
def test_what_does_not_fit_is_refused_with_every_shape_and_nothing_is_written(recorder, tmp_path, wrong, said):
    with pytest.raises(ShapeError, match=said):
        recorder.record(0, **{**BASE, **wrong})
    assert list(tmp_path.iterdir()) == []


def test_a_step_that_is_no_whole_number_is_refused(recorder):
    with pytest.raises(TypeError):
        recorder.record(1.5, **BASE)
    assert recorder.record(np.int64(2), **BASE).parent.name == "step=000002"


def test_a_write_that_fails_leaves_nothing_behind(recorder, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError("no space left on device")

    monkeypatch.setattr(files.pq.ParquetWriter, "write_table", full)
    with pytest.raises(OSError, match="no space left"):
        recorder.record(0, **BASE)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_the_final_name_appears_by_rename_after_the_data_are_on_the_disk(recorder, tmp_path, monkeypatch):
    synced = []
    final = tmp_path / "tokens" / "step=000000" / "rank=000.parquet"
    real = files._sync

    def watch(path):
        synced.append((path.name, path.stat().st_ino, final.exists()))
        real(path)

    monkeypatch.setattr(files, "_sync", watch)
    part = recorder.record(0, **BASE)
    name, inode, visible = synced[0]
    assert name.startswith(".")
    assert not visible
    assert part.stat().st_ino == inode
    assert synced[1][0] == "step=000000"


def test_non_finite_values_are_recorded_as_they_are(recorder):
    part = recorder.record(0, **BASE | {"rollout_logprob": [np.nan, -np.inf, -1.0]})
    assert str(pq.ParquetFile(part).read()["rollout_logprob"].to_pylist()) == "[-1.0, nan, -inf]"


def test_a_given_schema_is_kept(tmp_path):
    schema = pa.schema([TOKENS.field("step")])
    files.write_tokens(tmp_path / "a.parquet", schema, [pa.table({"step": pa.array([1], pa.int64())}, schema=schema)])
    assert pq.read_schema(tmp_path / "a.parquet").field("step").metadata == TOKENS.field("step").metadata


class Bf16:
    """What a bf16 tensor says to numpy."""

    def __array__(self, dtype=None, copy=None):
        raise TypeError("Got unsupported ScalarType BFloat16")


def test_a_bf16_tensor_is_refused_with_what_to_call(recorder):
    with pytest.raises(ShapeError, match=r"rollout_logprob cannot be read as an array: .*BFloat16.*\.detach\(\)\.float\(\)\.cpu\(\)"):
        recorder.record(0, **BASE | {"rollout_logprob": Bf16()})


def test_infinite_values_are_no_overflow(recorder):
    assert recorder.record(0, **BASE, advantage=np.array([np.inf, np.nan, 1.0])).is_file()


def test_home_is_expanded_and_a_rank_may_be_text(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Recorder("~/run", rank="3").record(0, **BASE) == tmp_path / "run" / "tokens" / "step=000000" / "rank=003.parquet"


@pytest.mark.parametrize(("rank", "error"), [(-1, ValueError), ("-1", TypeError), (True, TypeError), ("one", TypeError), (1.0, TypeError)])
def test_a_rank_that_is_none_is_refused(tmp_path, rank, error):
    with pytest.raises(error):
        Recorder(tmp_path, rank=rank)


@pytest.mark.parametrize(("step", "error"), [(-1, ValueError), (True, TypeError), (np.True_, TypeError)])
def test_a_step_that_is_none_is_refused(recorder, step, error):
    with pytest.raises(error):
        recorder.record(step, **BASE)


def test_versions_may_be_one_number_each(recorder):
    table = pq.ParquetFile(recorder.record(0, **BASE, rollout_version=4)).read()
    assert table["rollout_version"].to_pylist() == [4, 4, 4]


def test_a_flipped_bit_is_noticed(recorder):
    part = recorder.record(0, **BASE)
    chunk = pq.read_metadata(part).row_group(0).column(3)
    content = bytearray(part.read_bytes())
    content[chunk.data_page_offset + chunk.total_compressed_size - 5] ^= 1
    part.write_bytes(bytes(content))
    with pytest.raises(OSError, match="CRC"):
        pq.ParquetFile(part, page_checksum_verification=True).read()


def outside(folder):
    (run,) = load(folder)
    return {row["step"]: row["value"] for row in metric_frame(run).to_pylist() if row["metric"] == "clip_rate.total.outside"}


def test_bounds_given_to_the_recorder_are_those_of_the_numbers(tmp_path):
    logprobs = BASE | {"rollout_logprob": [-1.0] * 3, "current_logprob": [-1.1, -1.0, -1.0]}
    Recorder(tmp_path, bounds=ClipBounds(eps_low=0.05)).record(0, **logprobs)
    assert outside(tmp_path) == {0: pytest.approx(1 / 3)}
    compact(tmp_path)
    assert outside(tmp_path) == {0: pytest.approx(1 / 3)}
    (tmp_path / "run.toml").write_text("[objective]\neps_low = 0.2\n", encoding="utf-8")
    assert outside(tmp_path) == {0: 0.0}


def test_bounds_that_change_are_said(tmp_path):
    for step, low in enumerate((0.05, 0.1)):
        Recorder(tmp_path, bounds=ClipBounds(eps_low=low)).record(step, **BASE)
    (run,) = load(tmp_path)
    assert run.config["objective.eps_low"] == 0.05
    assert ["other clip bounds" in problem.what for problem in run.problems] == [True]


def test_without_bounds_none_are_written(recorder, tmp_path):
    recorder.record(0, **BASE)
    assert load(tmp_path)[0].config == {}


def test_a_resumed_trainer_records_its_steps_again_and_nothing_is_deleted(tmp_path, caplog):
    first = [Recorder(tmp_path, rank=rank) for rank in (0, 1)]
    kept = {step: min(one.record(step, **BASE) for one in first).read_bytes() for step in (1, 2, 3)}
    with caplog.at_level("WARNING"):
        again = Recorder(tmp_path, resume_from=2)
    assert "steps from 2 on are recorded again; 2 parts of them are set aside" in caplog.text
    aside = tmp_path / "tokens" / "superseded" / "001"
    assert (aside / "step=000003" / "rank=000.parquet").read_bytes() == kept[3]
    assert (aside / "step=000003" / "rank=000.sums.parquet").is_file()
    assert (tmp_path / "tokens" / "step=000002" / "rank=001.parquet").is_file()
    again.record(2, **BASE)
    with pytest.raises(RatiometerError, match="step 1 of rank 0 is recorded already"):
        again.record(1, **BASE)
    pieces = load(tmp_path)[0].tokens.pieces
    assert [piece.path.parent.name for piece in pieces] == ["step=000001"] * 2 + ["step=000002"] * 2 + ["step=000003"]


def test_resuming_where_nothing_was_recorded_makes_nothing(tmp_path):
    Recorder(tmp_path / "run", resume_from=5)
    assert not (tmp_path / "run").exists()


def test_a_step_of_the_compacted_file_is_refused(recorder, tmp_path):
    for step in (1, 2):
        recorder.record(step, **BASE)
    compact(tmp_path)
    with pytest.raises(RatiometerError, match=r"tokens\.parquet: step 2 of rank 0 is recorded already.*resume_from=2"):
        recorder.record(2, **BASE)
    assert recorder.record(3, **BASE).is_file()
