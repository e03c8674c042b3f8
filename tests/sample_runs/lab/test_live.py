"""The run to be watched: its generator keeps its weights until a resync is asked for, and then gets the newest, once."""

import json
import tomllib
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

from monitor.record import files
from monitor.record.resync import ASKED, TAKEN, write_whole
from sample_runs.lab.__main__ import main
from sample_runs.lab.figures import step_figures
from sample_runs.lab.live import FROZEN, Start, live
from sample_runs.lab.pipeline import train


def versions(batch):
    return np.unique(batch.columns["rollout_version"]).tolist()


@pytest.fixture
def frozen(tiny):
    return tiny(steps=12, weight_sync="never")


def test_nobody_asks_and_the_generator_keeps_its_weights(frozen, weights):
    assert {tuple(versions(batch)) for batch in train(frozen, weights)} == {(0,)}


def test_who_asks_gets_the_newest_weights_and_the_ess_is_back(frozen, weights):
    batches = list(train(frozen, weights, lambda step: step == 6))
    assert [versions(batch) for batch in batches[:6]] == [[0]] * 6
    assert versions(batches[-1]) == [6]
    ess = [step_figures(batch.columns)["ess.lag.token"] for batch in batches]
    new = next(place for place, batch in enumerate(batches) if versions(batch) == [6])
    assert ess[new] > ess[5]


def test_a_deferred_sync_is_overruled_as_well(tiny, weights):
    late = tiny(steps=8, weight_sync="deferred", deferred_steps=4)
    assert max(max(versions(batch)) for batch in train(late, weights)) == 3
    assert max(max(versions(batch)) for batch in train(late, weights, lambda step: step == 5)) == 5


def test_it_asks_once_a_step(frozen, weights):
    asked = []
    list(train(frozen, weights, asked.append))
    assert asked == list(range(1, 13))


def test_a_live_run_records_takes_the_signal_and_ends_some_steps_later(frozen, weights, tmp_path):
    lines = []

    def progress(line):
        lines.append(line)
        if "step 10 of" in line:
            write_whole(tmp_path / "tiny" / ASKED, {"episode": "low:tiny:9", "step": 9, "reason": "ESS", "asked_at": 0.0})

    start = Start(settings=replace(frozen, steps=40), weights=weights)
    folder = live(start, tmp_path, after=5, progress=progress)
    taken = json.loads((folder / TAKEN).read_text(encoding="utf-8"))["step"]
    assert 10 <= taken <= 11
    assert lines == ["tiny: step 10 of 40", f"tiny: resynchronised after step {taken}"]
    parts = files.parts(folder)
    assert [files.place(part)[0] for part in parts] == list(range(1, taken + 6))
    found = [np.unique(pq.read_table(part, partitioning=None)["rollout_version"]).tolist() for part in parts]
    assert found[taken - 1] == [0]
    assert found[-1] == [taken]


def test_a_live_run_that_nobody_tells_anything_ends_by_itself_and_writes_its_folder_anew(frozen, weights, tmp_path):
    (tmp_path / "tiny" / "tokens" / "step=000099").mkdir(parents=True)
    folder = live(Start(settings=frozen, weights=weights), tmp_path, after=5, signal=str(tmp_path), progress=lambda _: None)
    assert [files.place(part)[0] for part in files.parts(folder)] == list(range(1, 13))
    assert sorted(path.name for path in folder.iterdir()) == ["run.toml", "tokens"]
    assert tomllib.loads((folder / "run.toml").read_text(encoding="utf-8"))["engine"]["weight_sync"] == "never"


def test_the_run_of_the_command_line_is_frozen_and_corrects_nothing():
    described = FROZEN.tables()
    assert described["engine"]["weight_sync"] == "never"
    assert described["objective"]["anchor"] == "recomputed"


def test_the_command_line_says_what_it_takes(capsys):
    with pytest.raises(SystemExit):
        main(["live"])
    assert "--out" in capsys.readouterr().err
