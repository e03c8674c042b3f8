"""The story of the sample runs, as the comparison tells it: what leaves the reference, when, and which term did it."""

from functools import cache
from pathlib import Path

import pytest

from ingest.load import load
from monitor.compare.headline import compare, headline
from monitor.compare.parity import PARITY
from monitor.metrics.frame import metric_frame

SAMPLES = Path(__file__).resolve().parents[3] / "sample_runs"
SEEDS = tuple(f"v0_reference_seed{seed}" for seed in range(3))


@cache
def _frame(name):
    (run,) = load(SAMPLES / name)
    return metric_frame(run)


def _against(name, seeds=SEEDS):
    return compare(_frame(name), {seed: _frame(seed) for seed in seeds}, name=name)


def _left(found):
    return {each.metric: each for each in found.divergences}


@pytest.mark.parametrize("seed", SEEDS)
def test_no_seed_of_the_reference_leaves_the_other_two(seed):
    found = _against(seed, tuple(other for other in SEEDS if other != seed))
    assert len(found.parities) == 11
    assert found.divergences == ()


def test_fixed_is_at_parity_in_every_metric():
    found = _against("v1_fixed")
    assert len(found.parities) == 11
    assert found.divergences == ()
    assert found.overall_parity <= PARITY


def test_broken_leaves_at_once_and_the_discrepancy_did_it():
    left = _left(_against("v1_broken"))
    at_once = {metric for metric, each in left.items() if each.at_once}
    assert {"ratio.total.mean", "clip_rate.total.outside", "kl.total.k3", "log_ratio.discrepancy.abs_mean"} <= at_once
    assert "the discrepancy term carries" in headline(_frame("v1_broken"), {seed: _frame(seed) for seed in SEEDS}, name="x").sentence


def test_with_only_the_log_probabilities_fixed_the_mean_ratio_is_back_and_the_rest_is_not():
    left = _left(_against("v1_processed_logprobs"))
    assert "ratio.total.mean" not in left
    assert {"clip_rate.total.outside", "kl.total.k3", "entropy.mean", "version_lag.mean"} <= set(left)


@pytest.mark.parametrize(
    ("name", "term", "other"),
    [
        ("v1_raw_logprobs_only", "discrepancy", "lag"),
        ("v1_prefix_cache_only", "discrepancy", "lag"),
        ("v1_bf16_head_only", "discrepancy", "lag"),
        ("v1_async_only", "lag", "discrepancy"),
    ],
)
def test_each_fault_alone_moves_its_own_term(name, term, other):
    found = _against(name)
    assert f"log_ratio.{term}.abs_mean" in _left(found)
    assert f"log_ratio.{other}.abs_mean" not in _left(found)
    assert found.excess_at_first[term] > 5 * max(found.excess_at_first[other], 0)


def test_a_chart_export_is_compared_with_what_the_reference_logged_and_not_with_its_tokens():
    exports = sorted((SAMPLES / "wandb_export").glob("*.csv"))
    told = {run.name: compare(metric_frame(run), {seed: _frame(seed) for seed in SEEDS}, name=run.name) for run in load(exports)}
    assert {each.metric for each in told["v1-fixed-wandb"].parities} >= {"kl.total.k3", "clip_rate.total.outside", "ess.total.token"}
    assert told["v1-fixed-wandb"].divergences == ()
    assert _left(told["v1-broken-wandb"])["clip_rate.total.outside"].at_once
    assert (
        "cannot be told from this log"
        in headline(metric_frame(load(exports)[1]), {seed: _frame(seed) for seed in SEEDS}, name="v1-broken-wandb").sentence
    )
