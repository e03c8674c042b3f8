"""What a Trainer saved: all of log_history, by its true step, from a file, a checkpoint or a training's folder."""

import json
from pathlib import Path

import pytest

from ingest.errors import ReadError
from ingest.identify import identify_reader
from ingest.readers.trainer_state import READER

DATA = Path(__file__).parents[2] / "data" / "trainer_state" / "output"


def write(tmp_path, **state):
    path = tmp_path / "trainer_state.json"
    path.write_text(json.dumps({"global_step": 1, **state}, indent=2, sort_keys=True))
    return path


def rows(raw):
    return [(row["key"], row["step"], row["value"]) for row in raw.scalars.to_pylist()]


@pytest.mark.parametrize(("path", "steps"), [("checkpoint-20", 20), ("checkpoint-30/trainer_state.json", 30), ("", 30)])
def test_file_checkpoint_and_output_folder(path, steps):
    assert identify_reader(DATA / path) is READER
    (raw,) = READER.read(DATA / path)
    assert [step for key, step, _ in rows(raw) if key == "entropy"] == list(range(1, steps + 1))
    assert (raw.config["max_steps"], raw.axis) == (30, "step")


def test_what_is_no_number_or_has_no_step_is_counted(tmp_path):
    log = [{"step": 1, "a": 1, "b": "word", "c": None, "d": {"e": "NaN"}}, {"a": 2}, "x"]
    (raw,) = READER.read(write(tmp_path, log_history=log))
    assert [row[:2] for row in rows(raw)] == [("a", 1), ("d/e", 1)]
    assert sorted(problem.rows for problem in raw.problems) == [0, 1, 1, 1]


@pytest.mark.parametrize("state", [{"log_history": 5}, {}])
def test_without_a_history(tmp_path, state):
    with pytest.raises(ReadError, match="a list log_history"):
        READER.read(write(tmp_path, **state))


def test_a_cut_file_is_refused_with_a_remedy(tmp_path):
    path = write(tmp_path, log_history=[{"step": 1, "a": 1}])
    path.write_text(path.read_text()[:-20])
    with pytest.raises(ReadError, match="another checkpoint"):
        READER.read(path)


def test_one_line_is_a_state_too(tmp_path):
    path = tmp_path / "state.json"
    path.write_text(json.dumps({"global_step": 1, "log_history": [{"step": 1, "a": 2}]}))
    assert identify_reader(path) is READER


def test_event_files_beside_it_are_said(tmp_path):
    write(tmp_path, log_history=[{"step": 1, "a": 1}])
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "events.out.tfevents.1").write_bytes(b"")
    assert "float32" in READER.read(tmp_path)[0].problems[0].what
