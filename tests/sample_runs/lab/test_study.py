"""The study from runs to a document: finished runs are found again, references are measured without themselves, the command does it all."""

import json
from dataclasses import replace

import pytest
import torch

from sample_runs.lab import study as module
from sample_runs.lab.__main__ import main
from sample_runs.lab.study_extras import collected, tasks
from sample_runs.lab.study_measure import distance, policy
from sample_runs.lab.study_results import results
from sample_runs.lab.study_run import checkpoints, evaluated, made
from sample_runs.lab.study_settings import StudyRun, Sync
from tests.sample_runs.lab.tiny_study import TINY

pytestmark = pytest.mark.usefixtures("easy")
ON = [StudyRun(method="none", sync=Sync.ALWAYS, engine="float32", seed=seed) for seed in (0, 1)]
STALE = StudyRun(method="dlc_sequence", sync=Sync.NEVER, engine="int4", seed=10)


@pytest.fixture
def cache(begun, tmp_path):
    for run in (*ON, STALE):
        made(run, TINY, begun, tmp_path, lambda _line: None)
    for run in (*ON, STALE):
        evaluated(run, ON, begun, TINY, tmp_path)
    return tmp_path


def test_a_finished_run_is_not_made_again_unless_its_settings_changed(begun, cache):
    log = cache / f"{STALE.key}.json"
    log.write_text(log.read_text().replace('"cpu_s": ', '"cpu_s": 1', 1))
    touched = log.read_text()
    assert made(STALE, TINY, begun, cache, print).read_text() == touched
    made(STALE, replace(TINY, learning_rate=1e-3), begun, cache, print)
    assert json.loads(log.read_text())["settings"]["scale"]["learning_rate"] == 1e-3


def test_checkpoints_hold_the_policy_and_its_generators_texts(begun, cache):
    found = checkpoints(STALE, cache)
    assert list(found) == [0, 1, 3]
    assert torch.equal(found[0].weights["head"], begun["head"])
    assert not torch.equal(found[1].weights["head"], found[3].weights["head"])
    assert len(found[3].stale_texts) == len(found[3].stale_mask) == 8


def test_a_reference_is_measured_against_the_others(cache):
    first, second = (json.loads((cache / f"{run.key}.measured.json").read_text())["3"] for run in ON)
    assert first["on_policy"] > 0
    assert first["on_policy"] == pytest.approx(second["reverse"], rel=2e-3)  # KL(second || first) on the second's texts, both times
    checkpoint, other = (checkpoints(run, cache)[3] for run in ON)
    alone = distance(policy(checkpoint.weights, TINY.prompts), checkpoint, [policy(other.weights, TINY.prompts)])
    assert first["on_policy"] == pytest.approx(alone.on_policy, rel=1e-3)


def test_all_runs_are_one_at_the_start(cache):
    for run in (*ON, STALE):
        start = json.loads((cache / f"{run.key}.measured.json").read_text())["0"]
        assert start["on_policy"] == start["own"] == start["moved"] == 0


def test_the_document_has_rows_of_seeds_with_series_and_windows(begun, cache):
    for function, *arguments in tasks([STALE], TINY, begun, cache, print):
        function(*arguments)
    found = json.loads(json.dumps(results([*ON, STALE], TINY, cache)))
    assert list(found["rows"]) == ["none-always-float32", "dlc_sequence-never-int4"]
    assert list(found["rows"]["none-always-float32"]["seeds"]) == ["0", "1"]
    run = found["rows"][STALE.row]["seeds"]["10"]
    lag = run["series"]["kl.lag"]
    assert len(lag) == 3
    assert run["at"]["3"]["step.kl.lag"] == pytest.approx(sum(lag) / 3, rel=1e-3)
    assert run["at"]["0"]["step.kl.lag"] == lag[0]
    assert run["ess.lag.sequence.min"] == min(run["series"]["ess.lag.sequence"])
    assert run["at"]["3"]["movement"] != 1  # a coarse engine's figures are there
    assert found["cost"]["cpu_s"] == pytest.approx(sum(seed["cpu_s"] for row in found["rows"].values() for seed in row["seeds"].values()))
    assert found["settings"]["fixed_before_the_runs"]["variant"] == "dlc_sequence"
    assert collected([STALE], cache)["fidelity"] == {}


def test_the_command_makes_measures_and_writes(begun, tmp_path, monkeypatch):
    """In this process, so that the easy reward reaches the runs."""
    monkeypatch.setattr(module, "warm_start", lambda _seed, **_more: begun)
    monkeypatch.setattr(module, "ProcessPoolExecutor", InTurn)
    monkeypatch.setattr(module, "page", lambda document: " ".join(document["rows"]))
    monkeypatch.setattr(module, "figures", lambda _document: {"one.svg": "<svg/>"})
    monkeypatch.setattr(module, "SCALE", TINY)
    monkeypatch.setattr(module, "RUNS", (*ON, STALE))
    monkeypatch.setattr(module, "REFERENCES", (0, 1))
    main(["study", "--out", str(tmp_path), "--runs", str(tmp_path / "runs")])
    assert (tmp_path / "dlc-study.md").read_text() == "none-always-float32 dlc_sequence-never-int4"
    assert (tmp_path / "one.svg").exists()
    first = (tmp_path / "dlc-study.json").read_bytes()
    main(["study", "--out", str(tmp_path), "--runs", str(tmp_path / "runs")])
    assert (tmp_path / "dlc-study.json").read_bytes() == first


class InTurn:
    """Stands for a pool of processes."""

    def __init__(self, _processes, **_more):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        pass

    def submit(self, function, *arguments):
        from concurrent.futures import Future

        future = Future()
        future.set_result(function(*arguments))
        return future
