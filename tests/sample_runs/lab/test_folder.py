import json
import tomllib

import numpy as np
import pyarrow.parquet as pq
import pytest

from sample_runs.lab.figures import step_figures, window_means
from sample_runs.lab.folder import make_run, run_toml
from sample_runs.lab.runs import RUNS


@pytest.fixture
def folder(tiny, weights, tmp_path):
    return make_run(tiny(steps=20), weights, tmp_path, progress=lambda _line: None)


def test_a_run_folder_holds_the_four_files_and_nothing_else(folder):
    assert sorted(path.name for path in folder.iterdir()) == ["expected.json", "run.toml", "steps.jsonl", "tokens.parquet"]
    lines = [json.loads(line) for line in (folder / "steps.jsonl").read_text().splitlines()]
    assert [line["stats/completed_steps"] for line in lines] == list(range(1, 21))


def test_the_expected_figures_are_those_of_the_written_tokens(folder):
    table = pq.read_table(folder / "tokens.parquet").to_pydict()
    columns = {name: np.array(values) for name, values in table.items()}
    figures = step_figures({name: values[columns["step"] == 20] for name, values in columns.items()})
    expected = json.loads((folder / "expected.json").read_text())
    assert expected["steps"]["20"] == pytest.approx(figures, rel=1e-12)
    assert sorted(expected["steps"]) == ["1", "10", "20"]
    assert set(expected["windows"]) == {"6-20", "1-20"}
    assert set(expected["made_with"]) == {"python", "torch", "numpy", "machine"}


def test_a_second_making_replaces_the_first(tiny, weights, folder):
    before = (folder / "steps.jsonl").read_bytes()
    make_run(tiny(steps=20), weights, folder.parent, progress=lambda _line: None)
    assert (folder / "steps.jsonl").read_bytes() == before


def test_window_means_include_both_ends():
    assert window_means({step: {"m": float(step)} for step in range(1, 6)}, 2, 4) == {"m": 3.0}


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_run_toml_reads_back_as_what_was_switched(run):
    read = tomllib.loads(run_toml(run))
    assert (read["name"], read["role"], read["group"], read["seed"], read["fault"]) == (
        run.name,
        run.role,
        run.group,
        run.seed,
        list(run.fault),
    )
    assert read["engine"]["logprobs_mode"] == run.engine.logprobs_mode
    assert read["engine"]["enable_prefix_caching"] is run.engine.enable_prefix_caching
    assert read["trainer"]["samples_per_step"] == 64
    assert read["tokens"] == {"sampled": True, "filtered": False}


def test_figures_agree_with_the_plainest_arithmetic():
    columns = {
        "position": np.array([0, 1, 0], np.int32),
        "rollout_logprob": np.array([-1.0, -2.0, -0.5], np.float32),
        "same_weights_logprob": np.array([-1.25, -2.0, -0.5], np.float32),
        "current_logprob": np.array([-1.25, -1.0, -0.75], np.float32),
        "entropy": np.array([1.0, 2.0, 3.0], np.float32),
        "reward": np.array([1.0, 1.0, 0.0], np.float32),
        "trainer_version": np.array([3, 3, 3]),
        "rollout_version": np.array([3, 2, 1]),
    }
    figures = step_figures(columns)
    e = np.exp
    assert figures["ratio.total.mean"] == pytest.approx((e(-0.25) + e(1.0) + e(-0.25)) / 3)
    assert figures["clip_rate.total.outside"] == 1.0
    assert figures["kl.total.k3"] == pytest.approx((2 * (e(-0.25) - 1 + 0.25) + e(1.0) - 2) / 3)
    assert figures["ess.lag.token"] == pytest.approx((1 + e(1.0) + e(-0.25)) ** 2 / (3 * (1 + e(2.0) + e(-0.5))))
    assert figures["ess.lag.sequence"] == pytest.approx((e(1.0) + e(-0.25)) ** 2 / (2 * (e(2.0) + e(-0.5))))
    assert figures["log_ratio.discrepancy.abs_mean"] == pytest.approx(0.25 / 3)
    assert figures["log_ratio.lag.abs_mean"] == pytest.approx(1.25 / 3)
    assert (figures["entropy.mean"], figures["reward.mean"], figures["version_lag.mean"]) == (2.0, 0.5, 1.0)
