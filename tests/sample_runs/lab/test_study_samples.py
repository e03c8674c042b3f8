"""Two runs of the study as sample runs: their columns are the canonical ones, their split is exact, their folders whole."""

import json
import tomllib
from dataclasses import replace

import numpy as np
import pytest

from sample_runs.lab.figures import step_figures
from sample_runs.lab.study_samples import SAMPLES, make_sample, trained
from sample_runs.lab.study_settings import Sync
from sample_runs.lab.trainer import split_error
from tests.sample_runs.lab.tiny_study import TINY, study_of

pytestmark = pytest.mark.usefixtures("easy")


def test_a_step_has_the_canonical_columns_and_the_figures_of_the_loop(begun):
    study = study_of(begun, engine="int4")
    batches = [(stepped, trained(stepped, TINY)) for stepped in study.train()]
    stepped, batch = batches[1]
    columns = batch.columns
    assert set(columns) == {
        *("sample_id", "group_id", "position", "token_id", "rollout_logprob", "same_weights_logprob", "current_logprob"),
        *("advantage", "reward", "rollout_version", "trainer_version", "entropy"),
    }  # fmt: skip
    assert {len(column) for column in columns.values()} == {len(batch.trainer_entropy)}
    assert split_error(columns) < 1e-6
    found = step_figures(columns)
    for name in ("ess.lag.token", "ess.lag.sequence", "log_ratio.discrepancy.abs_mean", "log_ratio.lag.abs_mean"):
        assert found[name] == pytest.approx(stepped.figures[name], rel=1e-5), name
    assert found["version_lag.mean"] == 1
    assert found["reward.mean"] == stepped.figures["reward.mean"]


def test_samples_and_groups_are_numbered_on(begun):
    columns = [trained(stepped, TINY).columns for stepped in study_of(begun).train()]
    assert [np.unique(one["sample_id"]).tolist() for one in columns] == [list(range(8 * n, 8 * n + 8)) for n in range(3)]
    assert np.unique(columns[2]["group_id"]).tolist() == [4, 5]
    starts = np.flatnonzero(columns[0]["position"] == 0)
    assert len(starts) == 8


def test_a_sample_is_written_whole(begun, tmp_path):
    sample = replace(SAMPLES[1], settings=replace(SAMPLES[1].settings, steps=6), run=replace(SAMPLES[1].run, sync=Sync.STRICT))
    settings = replace(sample.settings, trainer=replace(sample.settings.trainer, groups_per_step=2, samples_per_group=4))
    folder = make_sample(replace(sample, settings=settings), begun, tmp_path, lambda _line: None, TINY)
    assert sorted(path.name for path in folder.iterdir()) == ["expected.json", "run.toml", "steps.jsonl", "tokens.parquet"]
    read = tomllib.loads((folder / "run.toml").read_text())
    assert (read["seed"], read["engine"]["weight_sync"], read["objective"]["loss"]) == (10, "when_ess_is_low", "dlc_sequence")
    assert "prompt_pool_seed" not in read
    assert set(json.loads((folder / "expected.json").read_text())["laboratory"]["policy_reward"]) == {"5"}
    lines = [json.loads(line) for line in (folder / "steps.jsonl").read_text().splitlines()]
    assert [line["stats/completed_steps"] for line in lines] == [1, 2, 3, 4, 5, 6]
    assert lines[0]["stats/tokens"] == lines[0]["rl/num_output_tokens_sum"] + 8 * 10


def test_both_are_runs_of_the_study_and_differ_in_correction_and_sync_only():
    from sample_runs.lab.study_catalogue import RUNS

    bare, saved = SAMPLES
    assert bare.run in RUNS
    assert saved.run in RUNS
    assert replace(saved.run, method=bare.run.method, sync=bare.run.sync) == bare.run
