"""The two runs of the study among the sample runs: one crosses ESS 1/2 and collapses unseen by its own log, the other does neither."""

import json
import tomllib
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from sample_runs.lab.figures import step_figures
from sample_runs.lab.folder import run_toml
from sample_runs.lab.study_samples import SAMPLES, STEPS

ROOT = Path(__file__).resolve().parents[2] / "sample_runs"
NAMES = [sample.settings.name for sample in SAMPLES]
MEGABYTES = 1e6


@pytest.fixture(scope="module")
def figures():
    """Run name -> step -> figures, from the shipped token logs."""
    return {name: dict(_steps(ROOT / name / "tokens.parquet")) for name in NAMES}


def _steps(path):
    with pq.ParquetFile(path) as file:
        for group in range(file.num_row_groups):
            table = file.read_row_group(group)
            columns = {name: table[name].to_numpy() for name in table.column_names}
            yield int(columns["step"][0]), step_figures(columns)


def expected(name):
    return json.loads((ROOT / name / "expected.json").read_text())


@pytest.mark.parametrize("name", NAMES)
def test_expected_figures_are_those_of_the_token_log(figures, name):
    assert list(figures[name]) == list(range(1, STEPS + 1))
    for step, values in expected(name)["steps"].items():
        assert figures[name][int(step)] == pytest.approx(values, rel=1e-12)
    assert expected(name)["split_error.max"] < 1e-5


@pytest.mark.parametrize("sample", SAMPLES, ids=NAMES)
def test_the_description_is_of_the_run_and_the_folder_is_small(sample):
    folder = ROOT / sample.settings.name
    read = tomllib.loads((folder / "run.toml").read_text())
    assert (read["seed"], read["fault"]) == (sample.settings.seed, list(sample.settings.fault))
    assert (read["engine"]["dtype"], read["objective"]["loss"]) == (sample.settings.engine.dtype, sample.settings.objective.loss)
    assert sum(path.stat().st_size for path in folder.iterdir()) < 2 * MEGABYTES


@pytest.mark.parametrize("sample", SAMPLES, ids=NAMES)
def test_the_description_is_what_the_code_writes(sample):
    assert (ROOT / sample.settings.name / "run.toml").read_text() == run_toml(sample.settings)


def test_the_descriptions_claim_no_cause_and_say_what_the_log_hides():
    collapse, other = (tomllib.loads((ROOT / name / "run.toml").read_text()) for name in NAMES)
    assert "does not show the collapse" in collapse["what_is_wrong"]
    assert all("fp8, which is meant" in run["what_is_wrong"] for run in (collapse, other))
    assert "saved" not in other["title"]
    readme = (ROOT.parent / "README.md").read_text()
    row = next(line for line in readme.splitlines() if line.startswith("| `collapse` |"))
    assert "the logged reward is the generator's" in row


def test_the_collapse_crosses_one_half_and_stays_there(figures):
    under = [step for step, values in figures["collapse"].items() if values["ess.lag.sequence"] < 0.5]
    assert 3 < under[0] < 15
    assert under == list(range(under[0], STEPS + 1))
    assert expected("collapse")["steps_under_half"]["ess.lag.sequence"] == under


def test_the_resynchronised_run_never_trains_on_a_batch_under_one_half(figures):
    assert min(values["ess.lag.sequence"] for values in figures["collapse_saved_by_dlc"].values()) >= 0.5


def test_the_policy_collapses_while_the_logged_reward_shows_nothing_and_the_other_learns(figures):
    own = {name: expected(name)["laboratory"]["policy_reward"] for name in NAMES}
    logged = {name: np.array([values["reward.mean"] for values in figures[name].values()]) for name in NAMES}
    last = str(STEPS)
    assert own["collapse"][last] < max(own["collapse"].values()) / 2
    assert abs(logged["collapse"][-10:].mean() - logged["collapse"][:10].mean()) < 0.1
    assert own["collapse_saved_by_dlc"][last] > 0.85
    assert logged["collapse_saved_by_dlc"][-10:].mean() > 0.6


def test_both_begin_alike(figures):
    first = [figures[name][1] for name in NAMES]
    assert first[0] == first[1]


def test_the_other_run_was_resynchronised(figures):
    lags = [values["version_lag.mean"] for values in figures["collapse_saved_by_dlc"].values()]
    assert any(later < earlier for earlier, later in pairwise(lags))
    assert [values["version_lag.mean"] for values in figures["collapse"].values()] == list(range(STEPS))
