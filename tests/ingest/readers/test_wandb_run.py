"""Record files of wandb: what its own logger wrote is read to the last value, and whatever is lost is counted with its place."""

import json
import math
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingest.errors import ReadError, TooLargeError
from ingest.identify import identify_reader
from ingest.load import load
from ingest.readers import _wandb_frames, _wandb_yaml
from ingest.readers.wandb_run import READER
from ingest.run import ProblemKind
from tests import wandb_files as files

DATA = Path(__file__).parents[2] / "data" / "wandb_run"
NORMAL = DATA / "normal" / "offline-run-20261129_120000-a1b2c3d4"
FILE = NORMAL / "run-a1b2c3d4.wandb"
LOST = ProblemKind.LOST


@pytest.fixture
def write(tmp_path):
    def _write(content, name="run-abc.wandb"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    return _write


def read(path):
    assert identify_reader(path) is READER
    return READER.read(path)[0]


def rows(raw):
    return [(row["key"], row["step"], row["value"]) for row in raw.scalars.to_pylist()]


def said(raw, kind=ProblemKind.NOTE):
    return " | ".join(f"{problem.place}: {problem.what}" for problem in raw.problems if problem.kind is kind)


def lost(raw):
    return [(problem.place, problem.rows) for problem in raw.problems if problem.kind is LOST]


def oracle(path):
    """The history by wandb's own classes."""
    pb2 = pytest.importorskip("wandb.proto.wandb_internal_pb2")
    found = []
    for _, data in _wandb_frames.records(path, 0, _wandb_frames.Losses()):
        record = pb2.Record()
        record.ParseFromString(data)
        found.append([(".".join(item.nested_key), json.loads(item.value_json)) for item in record.history.item])
    return [row for row in found if row]


def test_every_value_that_wandb_wrote():
    raw = read(FILE)
    wanted = []
    for row in oracle(FILE):
        axes = dict(row)
        wanted += [
            (key, axes["_step"], repr(float(value)), axes["_timestamp"])
            for key, value in row
            if not key.startswith(("_", "lengths")) and not isinstance(value, str)
        ]
    scalars = [row for row in raw.scalars.to_pylist() if not row["key"].startswith("lengths")]
    got = [(row["key"], row["step"], repr(row["value"]), row["wall_time"]) for row in scalars]
    assert len(got) == 481
    assert sorted(got) == sorted(wanted)


def test_what_is_not_finite():
    values = {(key, step): value for key, step, value in rows(read(FILE))}
    assert math.isnan(values["rl/kl_new_old", 5])
    assert math.isnan(values["rl/reward", 9])
    assert values["rl/ratio_new_old", 6] == math.inf
    assert values["stats/grad_norm", 7] == -math.inf
    assert values["flag", 8] == 1.0


def test_nested_keys_are_joined_as_wandb_does():
    assert ("nested.deep.x", 3, 3.0) in rows(read(FILE))


def test_a_text_is_lost_and_a_histogram_is_its_moments():
    raw = read(FILE)
    assert [(place.split(", ")[1], count) for place, count in lost(raw)] == [("key remark", 1)]
    assert [problem for problem in raw.problems if problem.kind is ProblemKind.UNMAPPED] == []
    found = {key: value for key, _, value in rows(raw) if key.startswith("lengths.")}
    assert found == {"lengths.mean": pytest.approx(24.5), "lengths.mean_square": pytest.approx(793.830625)}


def test_settings_and_what_the_run_is_called():
    raw = read(FILE)
    assert raw.name == "v1 fixed - seed 3"
    assert dict(raw.config) == {
        "finetune.rl.policy_loss": "ppo",
        "finetune.rl.epsilon_low": 0.2,
        "finetune.rl.epsilon_high": 0.28,
        "finetune.learning_rate": 1e-6,
        "vllm_config.vllm_kwargs.logprobs-mode": "processed_logprobs",
        "vllm_config.vllm_kwargs.enable-prefix-caching": False,
        "seed": 3,
        "datasets": '["math", "code"]',
        "config.role": "finetune",
        "late.setting": 5,
        "group": "v1",
        "wandb.id": "a1b2c3d4",
        "wandb.project": "grpo-math",
        "wandb.job_type": "finetune",
        "wandb.version": "0.31.0",
    }


def test_metrics_drawn_over_another_axis_are_said_where_there_are_any(write):
    drawn = [files.field(12, files.field(2, pattern) + files.field(4, "train/step")) for pattern in ("rl/*", "other/*")]
    assert said(read(write(files.file([files.run(), *drawn, *files.steps(1), files.END])))) == (
        "metric rl/*: wandb draws it over train/step; the steps here are of its counter _step"
    )
    assert said(read(FILE)) == ""


def test_the_whole_way_to_a_run():
    (run,) = load(NORMAL)
    assert (run.dialect, run.group) == ("pipelinerl", "v1")
    assert run.config["engine.logprobs_mode"] == "processed_logprobs"
    assert {"ess.total.token", "kl.total.k3"} <= set(run.scalars.column("quantity").to_pylist())


def test_a_file_that_is_being_written():
    raw = read(DATA / "open.wandb")
    assert "the run has not ended" in said(raw)
    assert {step for _, step, _ in rows(raw)} == set(range(1, 30))
    assert "the run has not ended" not in said(read(FILE))


def test_a_cut_file():
    raw = read(DATA / "cut.wandb")
    last = max(step for _, step, _ in rows(raw))
    assert 30 < last < 60
    assert [repr(row) for row in rows(raw)] == [repr(row) for row in rows(read(FILE)) if row[1] <= last]
    assert lost(raw)[0] == ("byte 28270", 1)


def test_a_damaged_block_costs_the_block():
    raw = read(DATA / "damaged.wandb")
    whole = rows(read(FILE))
    assert set(map(str, rows(raw))) < set(map(str, whole))
    steps = {step for _, step, _ in rows(raw)}
    assert {1, 2, 3, 59, 60} <= steps
    (place, count), *_ = lost(raw)
    assert place == "byte 16166"
    assert count == 71  # by the numbers of the records: about 24 steps, each with two summaries
    assert len({step for _, step, _ in whole} - steps) == 24


@pytest.mark.parametrize("length", [7, 8, 20, 500, 32_760, 32_768, 32_775, 40_000])
def test_cut_anywhere_gives_what_is_whole(write, length):
    raw = read(write(FILE.read_bytes()[:length]))
    everything = {str(row) for row in rows(read(FILE))}
    assert {str(row) for row in rows(raw)} <= everything
    assert "the run has not ended" in said(raw)
    assert not any("damage" in problem.what or "checksum" in problem.what for problem in raw.problems)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(7, 42_000), mask=st.integers(1, 255))
def test_any_changed_byte_is_found_and_costs_a_block_at_most(write, place, mask):
    content = bytearray(FILE.read_bytes())
    content[place] ^= mask
    raw = read(write(bytes(content)))
    everything = {str(row) for row in rows(read(FILE))}
    assert {str(row) for row in rows(raw)} <= everything
    assert any(problem.kind is LOST and problem.place.startswith("byte") and "remark" not in problem.place for problem in raw.problems)


def test_a_record_over_several_blocks(write):
    keys = [f"train/{'x' * 90}{number:04d}" for number in range(1000)]
    raw = read(write(files.file([files.run(), *files.steps(2, keys), files.END])))
    assert raw.scalars.num_rows == 2000
    assert said(raw) == ""


def test_a_record_whose_end_is_not_written_yet_is_no_loss(write):
    keys = [f"train/{number:05d}" for number in range(6000)]
    content = files.file([files.run(), *files.steps(1), *files.steps(1, keys, start=1)])
    raw = read(write(content[: 2 * files.BLOCK]))
    assert rows(raw) == [("rl/ess", 0, 0.5)]
    assert lost(raw) == []
    assert "not written to its end yet" in said(raw)


def test_blocks_counted_from_behind_the_header(write):
    keys = [f"train/{number:03d}" for number in range(100)]
    raw = read(write(files.file([files.run(), *files.steps(40, keys), files.END], origin=7)))
    assert (raw.scalars.num_rows, lost(raw)) == (4000, [])


def test_chunks_without_the_others_of_their_record(write):
    """As where a file was put together from pieces: every checksum fits."""
    row = files.steps(1)[0]
    content = files.HEADER + files.chunk(3, b"x") + files.chunk(4, b"x") + files.chunk(2, row[:9]) + files.chunk(1, row)
    raw = read(write(content))
    assert rows(raw) == [("rl/ess", 0, 0.5)]
    assert [problem.what.split(";")[0] for problem in raw.problems if problem.kind is LOST] == [
        "the beginning of this record is missing",
        "the end of this record is missing",
    ]
    assert lost(raw) == [("byte 7", 1), ("byte 23", 1)]


def test_pieces_of_two_records_are_no_record(write):
    keys = [f"train/{number:05d}" for number in range(3000)]
    content = files.file([files.run(), *files.steps(3, keys), files.END])
    without_a_block = content[: files.BLOCK] + content[2 * files.BLOCK :]
    raw = read(write(without_a_block))
    assert raw.scalars.num_rows < 9000
    assert lost(raw)


def test_the_python_backend_of_old(write):
    """One key a item, nested values as JSON, no `_step` item needed."""
    old = files.history(
        [files.item("a", "1.0"), files.item("n", '{"y": NaN, "z": {"w": 2}}'), files.item("t", '{"_type": "table-file"}')], 4
    )
    telemetry = files.field(11, files.field(4, "3.9.1") + files.field(5, "0.16.6"))
    raw = read(write(files.file([files.run(), telemetry, old, files.END])))
    assert raw.config["wandb.version"] == "0.16.6"
    found = {key: value for key, step, value in rows(raw) if step == 4}
    assert math.isnan(found.pop("n.y"))
    assert found == {"a": 1.0, "n.z.w": 2.0}
    assert [(problem.place, problem.rows) for problem in raw.problems if problem.kind is ProblemKind.UNMAPPED] == [("key t", 1)]


TYPED = {
    "none": (files.field(3, 0), None),
    "true": (files.field(4, 1), 1.0),
    "integer": (files.field(5, 5), -3.0),
    "number": (b"\x31\x00\x00\x00\x00\x00\x00\xe0\x3f", 0.5),
    "text": (files.field(7, "NaN"), math.nan),
    "json": (files.field(8, "2.5"), 2.5),
}


@pytest.mark.parametrize("kind", TYPED)
def test_typed_values(write, kind):
    typed, wanted = TYPED[kind]
    row = files.history([files.item(("a",), typed=typed), files.item(("_step",), typed=files.field(5, 14))])
    raw = read(write(files.file([files.run(), row, files.END])))
    assert [repr(found) for found in rows(raw)] == ([] if wanted is None else [repr(("a", 7, wanted))])


def test_null_is_not_logged(write):
    raw = read(write(files.file([files.run(), files.history([files.item(("a",), "null"), files.item(("b",), "1")], 1), files.END])))
    assert rows(raw) == [("b", 1, 1.0)]
    assert "1 values are null" in said(raw)


@pytest.mark.parametrize("value", ["1" + "0" * 400, '"word"', "[1, 2]", "{bad", "[" * 100_000, "1" * 5000])
def test_what_is_no_number_is_counted(write, value):
    raw = read(write(files.file([files.run(), files.history([files.item(("a",), value), files.item(("b",), "1")], 1), files.END])))
    assert rows(raw) == [("b", 1, 1.0)]
    assert [count for _, count in lost(raw)] == [1]


def test_a_row_without_a_step_is_counted(write):
    bad = files.history([files.item(("a",), "1"), files.item(("_step",), "1.5")])
    assert [count for _, count in lost(read(write(files.file([files.run(), bad, *files.steps(1), files.END]))))] == [1]


@pytest.mark.parametrize("junk", [b"\x12\xff", b"\x12\x05\x0a\x50abc", b"\xff" * 12, b"\x12\x03\x0a\x01", b"\x13\x00"])
def test_a_record_that_is_no_message_is_counted(write, junk):
    raw = read(write(files.file([files.run(), junk, *files.steps(2), files.END])))
    assert [step for _, step, _ in rows(raw)] == [0, 1]
    assert len(lost(raw)) == 1
    assert lost(raw)[0][0].startswith("byte ")


def test_steps_logged_twice_are_said(write):
    raw = read(write(files.file([files.run(), *files.steps(3), *files.steps(1, start=1), files.END])))
    assert len(rows(raw)) == 4
    assert "step 1: logged more than once" in said(raw)


def test_settings_change_and_go(write):
    first = files.config({"a": '{"b": 1}', "gone": "1", "nan": "Infinity", "none": "null", "name": '"x"', "big": "1" + "0" * 30})
    change = files.field(5, files.field(1, files.item(("a", "c"), "2")) + files.config({"gone": ""}, number=2))
    config = dict(read(write(files.file([files.run(config=first), change, *files.steps(1), files.END]))).config)
    assert {key: value for key, value in config.items() if not key.startswith("wandb.")} == {
        "a.b": 1,
        "a.c": 2,
        "nan": "inf",
        "config.name": "x",
        "big": hex(10**30),
    }


@pytest.mark.parametrize("key", ["api_key", "openai.apiKey", "hf_token", "db_password", "wandb_api_keys"])
def test_secrets_are_left_out(write, key):
    raw = read(write(files.file([files.run(config=files.config({key: '"hush"', "pad_token_id": "5"})), *files.steps(1), files.END])))
    assert "hush" not in str(raw.config)
    assert raw.config["pad_token_id"] == 5
    assert "look like secrets" in said(raw)


def test_an_unknown_version_is_tried(write):
    raw = read(write(files.file([files.run(), *files.steps(1), files.END], header=b":W&B\xe1\xbe\x07")))
    assert rows(raw) == [("rl/ess", 0, 0.5)]
    assert "version 7 of the file format is not known" in said(raw)


def test_other_files_are_not_taken(write):
    for content in (b":W&B", b"", b":SWL\xd6\xe1\x02", b"Step,a - m\n"):
        assert READER.objection(write(content, "x.wandb")) == "it does not begin with :W&B"
    with pytest.raises(ReadError, match=r"expected a \.wandb file"):
        READER.read(write(b"", "x.wandb"))


def test_a_file_beyond_the_bound_is_refused(monkeypatch):
    monkeypatch.setattr(_wandb_frames, "MAX_BYTES", 1000)
    with pytest.raises(TooLargeError, match=r"a \.wandb file of at most"):
        READER.read(FILE)


def test_a_record_beyond_the_bound_is_lost_alone(write, monkeypatch):
    monkeypatch.setattr(_wandb_frames, "MAX_RECORD_BYTES", 50_000)
    keys = [f"train/{number:05d}" for number in range(6000)]
    raw = read(write(files.file([files.run(), *files.steps(1, keys), *files.steps(1, start=1), files.END])))
    assert [step for _, step, _ in rows(raw)] == [1]
    assert len(lost(raw)) == 1


class TestFolders:
    """A run's folder, and one of many runs."""

    def test_a_wandb_folder_holds_many_runs(self, write, tmp_path):
        write(files.file([files.run("one", "first"), *files.steps(2), files.END]), "offline-run-20260101_000000-one/run-one.wandb")
        write(files.file([files.run("two", "second"), *files.steps(3), files.END]), "run-20260102_000000-two/run-two.wandb")
        (tmp_path / "latest-run").symlink_to("run-20260102_000000-two")
        assert [(log.name, log.scalars.num_rows) for log in READER.read(tmp_path)] == [("first", 2), ("second", 3)]
        assert [run.name for run in load(tmp_path)] == ["first", "second"]

    def test_a_run_that_was_resumed_is_one(self, write, tmp_path):
        write(files.file([files.run("one"), *files.steps(6)]), "run-20260101_000000-one/run-one.wandb")
        write(files.file([files.run("one"), *files.steps(5, start=4), files.END]), "run-20260102_000000-one/run-one.wandb")
        (raw,) = READER.read(tmp_path)
        assert [step for _, step, _ in rows(raw)] == [0, 1, 2, 3, 4, 5, 4, 5, 6, 7, 8]
        assert "step 4: the run was started again" in said(raw)
        (run,) = load(tmp_path)
        assert run.scalars.column("step").to_pylist() == list(range(9))

    def test_a_start_that_counts_anew_stays_apart(self, write, tmp_path):
        for day in (1, 2):
            write(files.file([files.run("one", "x"), *files.steps(3), files.END]), f"offline-run-2026010{day}_000000-one/run-one.wandb")
        assert [log.name for log in READER.read(tmp_path)] == ["x", "x (2)"]
        assert [run.name for run in load(tmp_path)] == ["x", "x (2)"]

    def test_a_file_that_cannot_be_read_stops_none_of_its_neighbours(self, write, tmp_path, monkeypatch):
        write(files.file([files.run("one"), *files.steps(900), files.END]), "run-20260101_000000-one/run-one.wandb")
        write(files.file([files.run("two"), *files.steps(3), files.END]), "run-20260102_000000-two/run-two.wandb")
        monkeypatch.setattr(_wandb_frames, "MAX_BYTES", 1000)
        logs = READER.read(tmp_path)
        assert [log.scalars.num_rows for log in logs] == [0, 3]
        assert "not read: " in logs[0].problems[0].what

    def test_settings_beside_the_records_are_not_needed(self, write, tmp_path):
        write(b"lr: {value: 5}\n", "files/config.yaml")
        write(b"{}", "files/wandb-summary.json")
        write(files.file([files.run(config=files.config({"lr": "1"})), *files.steps(1), files.END]))
        assert read(tmp_path).config["lr"] == 1
        (run,) = load(tmp_path)
        assert (run.config["lr"], run.scalars.num_rows) == (1, 1)

    def test_links_out_of_the_folder_are_not_followed(self, write, tmp_path):
        outside = write(files.file([files.run(), *files.steps(1)]), "elsewhere.wandb")
        folder = tmp_path / "run-1"
        folder.mkdir()
        (folder / "run-abc.wandb").symlink_to(outside)
        assert READER.objection(folder) is not None


class TestSettingsOnly:
    """A folder that has lost its record file."""

    def test_what_the_client_wrote_online(self):
        raw = read(DATA / "settings_only")
        assert raw.scalars.num_rows == 0
        assert dict(raw.config) == {
            "lr": 1e-6,
            "optimizer.name": "adamw",
            "optimizer.betas": "[0.9, 0.95]",
            "seed": 3,
            "wandb.version": "0.25.1",
        }
        assert "settings but no curves" in said(raw)

    @pytest.mark.parametrize("text", ["a: [", "- 1", "word", "\x00", "a: &a [*a]", "!!python/object:os.system {}"])
    def test_what_is_no_configuration_is_refused(self, write, tmp_path, text):
        write(text.encode(), "files/config.yaml")
        with pytest.raises(ReadError, match=r"config\.yaml: expected"):
            READER.read(tmp_path)

    def test_aliases_do_not_multiply(self, write, tmp_path):
        lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
        lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
        write("\n".join(lines).encode(), "files/config.yaml")
        with pytest.raises(TooLargeError, match="at most 500,000 values"):
            READER.read(tmp_path)

    def test_a_large_file_is_refused(self, write, tmp_path, monkeypatch):
        monkeypatch.setattr(_wandb_yaml, "MAX_BYTES", 3)
        write(b"a: 1\n", "files/config.yaml")
        with pytest.raises(TooLargeError, match="settings of at most"):
            READER.read(tmp_path)
