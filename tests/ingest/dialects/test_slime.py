"""slime's keys, with what must be known to read them."""

import pytest

from ingest.identify import identify_dialect
from tests.dialect_logs import assert_as_expected, only, run_of, said, samples, values

CLIP = "train/pg_clipfrac"
DIFF = "train/train_rollout_logprob_abs_diff"
COLOCATED = {"colocate": True}


def slime(tmp_path, line, config=None):
    return run_of(tmp_path, "slime", {CLIP: 0.0, **line}, config)


def one(tmp_path, key, config=None, value=0.5):
    return only(slime(tmp_path, {key: value}, config), key)


@pytest.mark.parametrize("folder", samples("slime"), ids=lambda folder: folder.name)
def test_samples(folder):
    assert_as_expected(folder, "slime")


def test_normalised_rewards_are_no_reward(tmp_path):
    run = slime(tmp_path, {"rollout/rewards": 0.0, "rollout/raw_reward": 0.4})
    assert values(run, "reward.mean") == [0.4]
    assert "about 0 whatever the policy does" in said(run, "rollout/rewards", "unmapped")[0]


@pytest.mark.parametrize(("key", "quantity"), [("rollout/kl", "kl_ref.k1"), ("train/entropy_loss", "entropy.mean")])
def test_a_zero_that_was_not_computed_is_no_value(tmp_path, key, quantity):
    run = slime(tmp_path, {key: 0.0})
    assert not values(run, quantity)
    assert f"these are not values of {quantity}" in said(run, key, "placeholder")[0]
    assert values(slime(tmp_path, {key: 0.3}), quantity) == [0.3]


def test_averages_are_over_samples_or_over_tokens(tmp_path):
    assert "mean over samples of per-sample token means, not a token mean" in one(tmp_path, "train/ppo_kl")[1]
    assert "token mean: calculate_per_token_loss" in one(tmp_path, "train/ppo_kl", {"calculate_per_token_loss": True})[1]


@pytest.mark.parametrize(
    ("config", "quantity", "words"),
    [
        (COLOCATED, "log_ratio.discrepancy.abs_mean", ""),
        ({"keep_old_actor": True}, "log_ratio.discrepancy.abs_mean", ""),
        ({}, "log_ratio.discrepancy.abs_mean", "unless the run is synchronous; this log does not say"),
        ({"update_weights_interval": 4}, "log_ratio.discrepancy.abs_mean", "upper bound: contains the discrepancy and part of the lag"),
        ({"use_rollout_logprobs": True}, "log_ratio.total.abs_mean", "old is what the engine returned"),
    ],
)
def test_which_ratio_the_absolute_difference_is_of(tmp_path, config, quantity, words):
    found, caveat = one(tmp_path, DIFF, config)
    assert found == quantity
    assert words in caveat
    assert ("upper bound" in caveat) is ("upper bound" in words or "unless" in words)


@pytest.mark.parametrize(
    ("config", "quantity"),
    [
        (COLOCATED, "kl.lag.k1"),
        ({"partial_rollout": True}, "kl.update.k1"),
        ({}, "kl.update.k1"),
        ({"use_rollout_logprobs": True}, "kl.total.k1"),
    ],
)
def test_which_ratio_ppo_kl_is_of(tmp_path, config, quantity):
    assert one(tmp_path, "train/ppo_kl", config, -0.01)[0] == quantity
    assert values(slime(tmp_path, {"train/ppo_kl": -0.01}, config), quantity) == [-0.01]


ONE_UPDATE = {"rollout_batch_size": 16, "n_samples_per_prompt": 8, "global_batch_size": 128}


@pytest.mark.parametrize(
    ("config", "constant"),
    [(ONE_UPDATE, True), ({"num_steps_per_rollout": 1}, True), ({**ONE_UPDATE, "global_batch_size": 64}, False), ({}, False)],
)
def test_one_update_per_rollout_makes_the_ratio_constant(tmp_path, config, constant):
    run = slime(tmp_path, {"train/ppo_kl": 0.0, "train/ois": 1.0}, config)
    for key in (CLIP, "train/ppo_kl", "train/ois"):
        assert ("constant by construction: one optimizer step per rollout" in only(run, key)[1]) is constant
    assert "constant" not in one(tmp_path, "train/ppo_kl", {**config, "use_rollout_logprobs": True})[1]
    assert "constant" not in one(tmp_path, "train/tis", config)[1]


@pytest.mark.parametrize(
    ("estimator", "quantity"), [("grpo", "effective"), ("cispo", "outside"), ("gspo", "sequence"), ("reinforce_plus_plus", "effective")]
)
def test_the_estimator_decides_what_counts_as_clipped(tmp_path, estimator, quantity):
    run = slime(tmp_path, {}, {**COLOCATED, "advantage_estimator": estimator})
    assert only(run, CLIP)[0] == f"clip_rate.lag.{quantity}"


@pytest.mark.parametrize(("kind", "estimator"), [("k1", "k1"), ("k2", "k2"), ("k3", "k3"), ("low_var_kl", "k3"), (None, "k1")])
def test_the_kl_to_the_reference_model_follows_its_type(tmp_path, kind, estimator):
    quantity, caveat = one(tmp_path, "train/kl_loss", {} if kind is None else {"kl_loss_type": kind})
    assert quantity == f"kl_ref.{estimator}"
    assert "NOT of engine against trainer" in caveat


def test_a_ratio_before_and_after_truncation(tmp_path):
    assert "of the raw ratio, before truncation" in one(tmp_path, "train/tis")[1]
    assert (
        "of the truncated weights"
        in said(slime(tmp_path, {"train/mis_tis_weight_after_bound": 1.0}), "train/mis_tis_weight_after_bound", "unmapped")[0]
    )


def test_a_mean_absolute_deviation_is_no_log_ratio(tmp_path):
    assert one(tmp_path, "train/tis_abs")[0] == "ratio.discrepancy.abs_deviation"


def test_the_ess_of_mis_counts_sequences_alike(tmp_path):
    run = slime(tmp_path, {"train/mis_chi2_token": 1.0, "train/mis_kl": 0.0, "train/mis_k3_kl": 0.0}, COLOCATED)
    (row,) = [row for row in run.scalars.to_pylist() if row["quantity"] == "ess.discrepancy.token"]
    assert row["value"] == 0.5
    assert row["caveat"].startswith("derived: (mean ratio)²")
    assert "every sequence counting the same" in row["caveat"]


def test_a_derived_discrepancy_is_an_upper_bound_where_weights_moved(tmp_path):
    line = {"rollout/log_probs": -0.4, "rollout/rollout_log_probs": -0.41}
    for config, bounded in ((COLOCATED, False), ({"partial_rollout": True}, True)):
        rows = slime(tmp_path, line, config).scalars.to_pylist()
        (caveat,) = [row["caveat"] for row in rows if row["quantity"] == "log_ratio.discrepancy.mean"]
        assert ("upper bound" in caveat) is bounded


def test_several_learning_rates_give_the_first(tmp_path):
    run = slime(tmp_path, {"train/lr-pg_0": 1e-6, "train/lr-pg_1": 2e-6})
    assert values(run, "learning_rate.value") == [1e-6]
    assert said(run, "train/lr-pg_1", "shadowed")


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({}, "with use_rollout_logprobs the engine's numbers"),
        ({"use_rollout_logprobs": True}, "what the engine returned"),
        ({"keep_old_actor": True}, "the weights that sampled"),
        ({"num_steps_per_rollout": 1}, "the same weights as new"),
    ],
)
def test_what_old_is(tmp_path, config, words):
    assert words in slime(tmp_path, {}, config).old_is


def test_settings_under_our_names(tmp_path):
    config = {
        "eps_clip": 0.2,
        "advantage_estimator": "gspo",
        "use_tis": True,
        "custom_tis_function_path": "slime.backends.icepop_function",
        "tis_clip": 5.0,
        "tis_clip_low": 0.5,
        "sglang_disable_radix_cache": True,
        "sglang_kv_cache_dtype": "fp8_e5m2",
        "rollout_top_p": 0.95,
        "bf16": True,
        "lr": 1e-6,
        "use_kl_loss": True,
        "kl_loss_coef": 0.01,
    }
    run = slime(tmp_path, {}, config)
    wanted = {
        "engine.name": "sglang",
        "engine.enable_prefix_caching": False,
        "engine.kv_cache_dtype": "fp8_e5m2",
        "sampling.top_p": 0.95,
        "objective.loss": "gspo",
        "objective.eps_low": 0.2,
        "objective.eps_high": 0.2,
        "objective.sequence_eps_high": 0.2,
        "objective.kl_coef": 0.01,
        "correction.kind": "icepop",
        "correction.cap": 5.0,
        "correction.floor": 0.5,
        "trainer.dtype": "bfloat16",
        "trainer.learning_rate": 1e-6,
    }
    assert {name: run.config[name] for name in wanted} == wanted
    assert run.config_sources["engine.enable_prefix_caching"] == "sglang_disable_radix_cache"
    assert run.config_sources["objective.eps_high"] == "eps_clip"


def test_the_loss_and_the_episodes_are_two_frameworks():
    assert identify_dialect([CLIP, "train/ppo_kl"]).id == "slime"
    assert identify_dialect(["train/agg/effective/solver/reward/mean", "train/gsm8k/effective/solver/reward/mean"]).id == "prime_rl"
