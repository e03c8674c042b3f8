"""prime-rl's keys in every generation, with what must be known to read them."""

import pytest

from ingest.identify import identify_dialect
from ingest.load import load
from tests.dialect_logs import assert_as_expected, only, run_of, said, samples, values

KL = "mismatch_kl/all/mean"


def prime(tmp_path, line, config=None):
    return run_of(tmp_path, "prime_rl", line, config)


@pytest.mark.parametrize("folder", samples("prime_rl"), ids=lambda folder: folder.name)
def test_samples(folder):
    assert_as_expected(folder, "prime_rl")


def test_the_mismatch_is_of_the_total_ratio(tmp_path):
    run = prime(tmp_path, {KL: 0.001})
    assert only(run, KL)[0] == "kl.total.k3"
    assert "total" in run.old_is
    assert "mean of per-sample token means" in only(prime(tmp_path, {"mismatch_kl/mean": 0.001}), "mismatch_kl/mean")[1]


@pytest.mark.parametrize(
    ("config", "quantity", "words"),
    [
        ({"loss.dppo_mask_high": 0.2}, "effective", "by the difference of probabilities, not by the ratio: where the advantage"),
        ({"trainer.loss.dppo_mask_high": 0.2}, "effective", "by the difference of probabilities, not by the ratio: where the advantage"),
        ({"loss.ipo_threshold": 0.1}, "outside", "|p_train - p_engine|"),
        ({"loss.ipo_mask_low": 0.2}, "outside", "|p_train - p_engine|"),
        ({"trainer.loss.type": "ipo"}, "outside", "|p_train - p_engine|"),
        ({"loss.token_mask_high": 8.0}, "outside", "the customary bounds are 0.125 and 8"),
        ({}, "effective", "this log does not say"),
    ],
)
def test_one_name_for_three_rules_of_masking(tmp_path, config, quantity, words):
    found, caveat = only(prime(tmp_path, {"is_masked/mean": 0.01}, config), "is_masked/mean")
    assert found == f"clip_rate.total.{quantity}"
    assert words in caveat


def test_what_was_shipped_comes_before_what_arrived(tmp_path):
    line = {f"train/agg/{subset}/solver/reward/mean": value for subset, value in (("all", 0.1), ("effective", 0.2))}
    run = prime(tmp_path, line)
    assert values(run, "reward.mean") == [0.2]
    assert "of the batch that was trained on" in only(run, "train/agg/effective/solver/reward/mean")[1]
    assert values(prime(tmp_path, {"train/agg/all/solver/reward/mean": 0.1}), "reward.mean") == [0.1]


def test_of_several_agents_the_first_by_name(tmp_path):
    run = prime(tmp_path, {f"train/agg/effective/{agent}/reward/mean": value for agent, value in (("judge", 0.1), ("solver", 0.2))})
    assert values(run, "reward.mean") == [0.1]
    assert said(run, "train/agg/effective/solver/reward/mean", "shadowed")


def test_one_environment_is_not_the_run(tmp_path):
    run = prime(tmp_path, {KL: 0.001, "mismatch_kl/gsm8k/mean": 0.002})
    assert values(run, "kl.total.k3") == [0.001]
    assert "of one environment" in said(run, "mismatch_kl/gsm8k/mean", "unmapped")[0]


@pytest.mark.parametrize("key", ["dispatcher/off_policy/mean", "dispatcher/off_policy_level_mean", "off_policy_level/all/mean"])
def test_requests_in_flight_are_not_the_batch(tmp_path, key):
    quantity, caveat = only(prime(tmp_path, {key: 1.0, KL: 0.0}), key)
    assert quantity == "version_lag_in_flight.mean"
    assert "not of the batch that is trained on" in caveat
    assert only(prime(tmp_path, {"off_policy/mean": 1.0, KL: 0.0}), "off_policy/mean")[0] == "version_lag.mean"


def test_probabilities_and_whole_lengths_are_not_taken(tmp_path):
    run = prime(tmp_path, {KL: 0.0, "trainer_probs/mean": 0.8, "seq_len/mean": 900})
    assert "probabilities, not log-probabilities" in said(run, "trainer_probs/mean", "unmapped")[0]
    assert "prompt and response together" in said(run, "seq_len/mean", "unmapped")[0]


def test_its_step_is_a_column(tmp_path):
    history = tmp_path / "history.csv"
    history.write_text(f"_step,step,{KL},optim/lr\n7,2,0.001,1e-6\n8,3,0.002,1e-6\n", encoding="utf-8")
    (run,) = load(history)
    assert sorted((row["step"], row["value"]) for row in run.scalars.to_pylist() if row["source_key"] == KL) == [(2, 0.001), (3, 0.002)]


def test_settings_under_our_names(tmp_path):
    config = {
        "inference.vllm.enable_prefix_caching": True,
        "inference.vllm.logprobs_mode": "processed_logprobs",
        "inference.enable_fp32_lm_head": True,
        "trainer.optim.lr": 1e-6,
        "trainer.loss.type": "default",
        "orchestrator.max_off_policy_steps": 8,
        "orchestrator.train.sampling.temperature": 0.7,
    }
    run = prime(tmp_path, {KL: 0.0}, config)
    wanted = {
        "engine.name": "vllm",
        "engine.enable_prefix_caching": True,
        "engine.logprobs_mode": "processed_logprobs",
        "engine.lm_head_dtype": "float32",
        "trainer.learning_rate": 1e-6,
        "objective.loss": "default",
        "staleness.max_versions": 8,
        "sampling.temperature": 0.7,
    }
    assert {name: run.config[name] for name in wanted} == wanted
    assert run.config_sources["sampling.temperature"] == "orchestrator.train.sampling.temperature"


def test_bounds_of_a_ratio_become_distances_from_one(tmp_path):
    run = prime(tmp_path, {KL: 0.0}, {"loss.token_mask_low": 0.125, "loss.token_mask_high": 8.0})
    assert (run.config["objective.eps_low"], run.config["objective.eps_high"]) == (0.875, 7.0)
    assert "objective.eps_low" not in prime(tmp_path, {KL: 0.0}, {"loss.dppo_mask_low": 0.2}).config


def test_a_tracker_merges_trainer_and_orchestrator():
    assert identify_dialect([KL, "entropy/all/mean", "train/agg/all/solver/reward/mean"]).id == "prime_rl"
    assert identify_dialect(["off_policy/mean", "off_policy/max"]).id == "prime_rl"
