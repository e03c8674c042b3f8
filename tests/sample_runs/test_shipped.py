"""The story that the shipped runs tell, read from their files with numpy alone."""

import json
import math
import tomllib
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from sample_runs.lab.figures import step_figures
from sample_runs.lab.runs import RUNS

ROOT = Path(__file__).resolve().parents[2] / "sample_runs"
REFERENCES = [run.name for run in RUNS if run.role == "reference"]
SMOOTHING = 9  # steps
STORY = [
    "reward.mean", "entropy.mean", "ratio.total.mean", "clip_rate.total.outside", "kl.total.k3", "log_ratio.lag.abs_mean",
    "log_ratio.discrepancy.abs_mean", "ess.lag.token", "ess.lag.sequence", "version_lag.mean",
]  # fmt: skip


@pytest.fixture(scope="module")
def figures():
    """Run name -> step -> figures, from the shipped token logs."""
    return {run.name: dict(_steps(ROOT / run.name / "tokens.parquet")) for run in RUNS}


def _steps(path):
    with pq.ParquetFile(path) as file:
        for group in range(file.num_row_groups):
            table = file.read_row_group(group)
            columns = {name: table[name].to_numpy() for name in table.column_names}
            yield int(columns["step"][0]), step_figures(columns)


def curve(figures, run, metric):
    values = np.array([each[metric] for each in figures[run].values()])
    return np.convolve(values, np.ones(SMOOTHING) / SMOOTHING, "valid")


def parity(figures, run, metric):
    """Mean distance from the reference seeds, over their mean distance from one another."""
    mine = curve(figures, run, metric)
    others = [curve(figures, reference, metric)[: len(mine)] for reference in REFERENCES]
    return np.mean([np.abs(mine - other).mean() for other in others]) / np.mean([np.abs(a - b).mean() for a, b in combinations(others, 2)])


def mean_ratio(figures, run):
    """Mean ratio over all steps, and its distance from 1 in standard errors (over steps)."""
    ratios = np.array([each["ratio.total.mean"] for each in figures[run].values()])
    return ratios.mean(), (ratios.mean() - 1) / (ratios.std(ddof=1) / math.sqrt(len(ratios)))


def window(figures, run, metric):
    return np.mean([each[metric] for step, each in figures[run].items() if 6 <= step <= 20])


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_expected_figures_are_those_of_the_token_log(figures, run):
    expected = json.loads((ROOT / run.name / "expected.json").read_text())
    for step, values in expected["steps"].items():
        assert figures[run.name][int(step)] == pytest.approx(values, rel=1e-12)
    assert expected["split_error.max"] < 1e-5


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_the_description_is_of_the_run_the_catalogue_names(run):
    read = tomllib.loads((ROOT / run.name / "run.toml").read_text())
    assert read["seed"] == run.seed
    assert read["fault"] == list(run.fault)
    assert {key: read["engine"][key] for key in vars(run.engine)} == vars(run.engine)


def test_all_of_it_is_under_fourteen_megabytes():
    assert sum(path.stat().st_size for path in ROOT.rglob("*") if path.suffix != ".pyc" and path.is_file()) < 14e6


@pytest.mark.parametrize("metric", STORY)
def test_fixed_lies_in_the_references_band(figures, metric):
    assert parity(figures, "v1_fixed", metric) <= 2


@pytest.mark.parametrize("metric", [metric for metric in STORY if metric != "reward.mean"])
def test_broken_leaves_the_reference(figures, metric):
    assert parity(figures, "v1_broken", metric) > 4


def test_broken_is_off_from_the_first_step(figures):
    first = {run: figures[run][1] for run in ("v1_broken", *REFERENCES)}
    assert first["v1_broken"]["ratio.total.mean"] > 1.03
    assert first["v1_broken"]["clip_rate.total.outside"] > 0.1 + max(first[run]["clip_rate.total.outside"] for run in REFERENCES)


def test_processed_logprobs_bring_back_the_mean_ratio_and_nothing_else(figures):
    assert mean_ratio(figures, "v1_broken")[1] > 5
    assert abs(mean_ratio(figures, "v1_processed_logprobs")[1]) < 3
    for metric in ("clip_rate.total.outside", "kl.total.k3", "entropy.mean", "reward.mean"):
        assert parity(figures, "v1_processed_logprobs", metric) > 2


def test_each_fault_alone_shows_in_its_own_term(figures):
    least = {term: max(window(figures, run, f"log_ratio.{term}.abs_mean") for run in REFERENCES) for term in ("discrepancy", "lag")}

    def times(run, term):
        return window(figures, run, f"log_ratio.{term}.abs_mean") / least[term]

    assert times("v1_raw_logprobs_only", "discrepancy") > 8
    assert window(figures, "v1_raw_logprobs_only", "log_ratio.discrepancy.mean") > 0.01
    assert times("v1_prefix_cache_only", "discrepancy") > 3
    assert window(figures, "v1_prefix_cache_only", "log_ratio.discrepancy.mean") < -0.001
    assert times("v1_bf16_head_only", "discrepancy") > 2
    assert times("v1_async_only", "lag") > 4
    assert times("v1_async_only", "discrepancy") < 1.5
    for run in ("v1_raw_logprobs_only", "v1_prefix_cache_only", "v1_bf16_head_only"):
        assert times(run, "lag") < 1.5


@pytest.mark.parametrize("run", ["v1_broken", "v1_processed_logprobs", "v1_async_only"])
def test_sequence_ess_of_the_lag_falls_under_half_and_recovers(figures, run):
    under = [step for step, each in figures[run].items() if each["ess.lag.sequence"] < 0.5]
    assert under
    assert figures[run][max(under) + 1]["ess.lag.sequence"] >= 0.5
    assert json.loads((ROOT / run / "expected.json").read_text())["steps_under_half"]["ess.lag.sequence"] == under


def test_no_healthy_run_falls_under_half(figures):
    assert min(each["ess.lag.sequence"] for run in (*REFERENCES, "v1_fixed") for each in figures[run].values()) > 0.5
