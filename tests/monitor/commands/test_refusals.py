"""What the command line must never do: clear a run it cannot judge, lose a seed, or end with a code that means something else."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from monitor.__main__ import main
from monitor.commands import _command
from monitor.record import Recorder, compact

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def run(capsys):
    def call(*arguments):
        code = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return code, out, err

    return call


def _record(folder, *, seed, steps=40, broken_from=None, mask=None, shift=0.0):
    """A token log of 8 sequences of 10 tokens a step; from `broken_from` on the trainer's log-probabilities are NaN."""
    rng = np.random.default_rng(seed)
    recorder = Recorder(folder)
    for step in range(1, steps + 1):
        rollout = rng.normal(-2, 0.3, 80)
        current = rollout + rng.normal(0, 0.02, 80) + shift * rng.random()
        if broken_from is not None and step >= broken_from:
            current[:] = np.nan
        columns = {} if mask is None else {"loss_mask": np.full(80, mask)}
        recorder.record(
            step=step,
            sample_id=np.repeat(np.arange(8), 10),
            position=np.tile(np.arange(10), 8),
            rollout_logprob=rollout,
            same_weights_logprob=rollout,
            current_logprob=current,
            **columns,
        )
    return folder


@pytest.fixture
def seeds(tmp_path):
    return [_record(tmp_path / f"seed{seed}", seed=seed) for seed in range(3)]


def test_a_run_that_dies_has_left_and_says_since_when(tmp_path, seeds, run):
    dead = _record(tmp_path / "dead", seed=9, broken_from=11)
    code, out, _ = run("compare", *seeds, dead, "--json")
    (candidate,) = json.loads(out)["candidates"]
    assert code == 1
    assert candidate["not_finite"] == [{"what": "the trainer's log-probabilities are", "steps": 30, "of": 40, "first_step": 11}]
    assert "not finite at 30 of 40 steps, first at step 11" in candidate["headline"]
    assert "stays" not in candidate["headline"]


def test_a_run_without_a_single_number_is_never_near_its_reference(tmp_path, seeds, run):
    code, out, _ = run("compare", *seeds, _record(tmp_path / "nan", seed=9, broken_from=1))
    assert code == 1
    assert "not finite at 40 of 40 steps" in out
    code, _, err = run("compare", *seeds, _record(tmp_path / "masked", seed=9, mask=False))
    assert code == 2
    assert "none of the candidate's 40 values is a number" in err


def test_all_nan_is_not_no_crossing(tmp_path, run):
    code, _, err = run("check", _record(tmp_path / "nan", seed=9, broken_from=1))
    assert code == 2
    assert "no value: NaN or empty at all of its 40 steps" in err


def test_summarize_does_not_call_a_step_of_nan_empty(tmp_path, run):
    _, out, _ = run("summarize", _record(tmp_path / "nan", seed=9, steps=2, broken_from=2), "--json")
    states = {row["step"]: row.get("state") for row in json.loads(out)["metrics"] if row["metric"] == "kl.total.k3"}
    assert states == {1: None, 2: "nan"}


def test_seeds_that_are_named_alike_stay_apart(tmp_path, seeds, run):
    candidate = _record(tmp_path / "other", seed=9)
    files = [compact(folder) for folder in (*seeds, candidate)]
    code, out, _ = run("compare", *files, "--json")
    document = json.loads(out)
    assert len(document["references"]) == 3
    assert code == 0
    assert document["candidates"][0]["noise"].startswith("seed to seed (3 seeds)")


def test_a_seed_given_twice_is_refused(seeds, run):
    code, _, err = run("compare", seeds[0], seeds[0], seeds[1])
    assert code == 2
    assert "given twice" in err


def test_too_few_steps_tell_nothing(tmp_path, seeds, run):
    code, _, err = run("compare", *seeds, _record(tmp_path / "short", seed=9, steps=3))
    assert code == 2
    assert "too few steps in common (3, at least 5 are needed)" in err


def test_logs_without_a_step_in_common_say_so(tmp_path, run):
    early, late = tmp_path / "early.csv", tmp_path / "late.csv"
    for path, first in ((early, 0), (late, 100)):
        rows = "".join(f'"{step}","{0.1 * (step % 3)}"\n' for step in range(first, first + 10))
        path.write_text('"Step","a - reward.mean"\n' + rows)
    code, _, err = run("compare", early, late)
    assert code == 2
    assert "no step in common" in err


def test_beyond_parity_without_a_divergence_is_not_called_staying(seeds, run, tmp_path):
    code, out, _ = run("compare", seeds[0], seeds[1], _record(tmp_path / "near", seed=9, shift=0.06), "--json")
    (candidate,) = json.loads(out)["candidates"]
    assert candidate["parity"]["at_parity"] is False
    assert ("stays" in candidate["headline"]) is False
    assert code == int(any(metric["first_divergence"] for metric in candidate["metrics"]))


def test_one_seed_is_named_as_the_estimate_it_is(tmp_path, seeds, run):
    _, out, _ = run("compare", seeds[0], _record(tmp_path / "other", seed=9))
    assert "two reference seeds" not in out
    assert "the one reference's own noise, estimated" in out


@pytest.mark.parametrize("error", [PermissionError(13, "Permission denied"), ValueError("clip bounds must be numbers")])
def test_the_systems_own_errors_are_exit_code_two(tmp_path, run, monkeypatch, error):
    def refuse(_path, **_given):
        raise error

    monkeypatch.setattr(_command, "load", refuse)
    for json_wanted in (["--json"], []):
        code, out, err = run("check", tmp_path, *json_wanted)
        assert code == 2
        assert "Traceback" not in err
        assert (json.loads(out)["error"]["message"] if json_wanted else err).strip()


def test_settings_that_are_no_numbers_are_exit_code_two(tmp_path, run):
    folder = _record(tmp_path / "run", seed=1, steps=2)
    (folder / "run.toml").write_text('[objective]\neps_low = "a"\n')
    assert run("check", folder)[0] == 2


@pytest.mark.parametrize("words", [["check", "--json"], ["summarize", "a", "b", "--json"], ["--json"]])
def test_a_usage_error_is_one_document_as_well(run, words):
    code, out, _ = run(*words)
    assert code == 2
    assert "usage" in json.loads(out)["error"]["message"]


def test_a_pipe_is_refused_and_not_waited_for(tmp_path, run):
    os.mkfifo(tmp_path / "pipe")
    code, _, err = run("summarize", tmp_path / "pipe")
    assert code == 2
    assert "a file or a folder" in err


def test_a_reader_that_has_seen_enough_changes_no_exit_code():
    command = f"{sys.executable} -m monitor check sample_runs/v1_broken --json | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "1"
    assert done.stderr == ""
