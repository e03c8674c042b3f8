"""PipelineRL's keys, with what must be known to read them."""

import json
import math

import pytest

from ingest.dialects.pipelinerl import DIALECT
from ingest.load import load
from tests.dialect_logs import assert_as_expected, only, said, samples, values


def run_of(tmp_path, lines, config=""):
    (tmp_path / "run.toml").write_text(config, encoding="utf-8")
    (tmp_path / "steps.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    (run,) = load(tmp_path)
    assert run.dialect == "pipelinerl"
    return run


def rows(run, quantity):
    return [row for row in run.scalars.to_pylist() if row["quantity"] == quantity]


def caveat(tmp_path, key, quantity, config=""):
    (row,) = rows(run_of(tmp_path, [{"stats/completed_steps": 1, key: 0.5}], config), quantity)
    assert row["source_key"] == key
    return row["caveat"]


QUANTITIES = {
    "rl/kl_new_old": "kl.total.k3",
    "rl/ess": "ess.total.token",
    "rl/ratio_new_old": "ratio.total.mean",
    "rl/mean_abs_log_ratio_new_old": "log_ratio.total.abs_mean",
    "rl/clamp_log_ratio_new_old_indicator": "clip_rate.total.outside",
    "rl/entropy": "entropy.mean",
    "rl/reward": "reward.mean",
    "actor/reward_mean": "reward.mean",
    "rl/kl": "kl_ref.k3",
    "rl/loss": "objective.loss",
    "stats/lag": "version_lag_samples.max",
    "stats/samples": "samples.count",
    "stats/lr": "learning_rate.value",
    "stats/grad_norm": "grad_norm.global",
    "rl/num_output_tokens_sum": "tokens.count",
    "actor/output_tokens_mean": "response_length.mean",
}


@pytest.mark.parametrize("key", QUANTITIES)
def test_what_a_key_stands_for(tmp_path, key):
    caveat(tmp_path, key, QUANTITIES[key])


@pytest.mark.parametrize("key", ["rl/kl_new_old", "rl/ratio_new_old", "rl/entropy", "rl/reward", "rl/mean_abs_log_ratio_new_old"])
def test_averages_are_over_sequences(tmp_path, key):
    assert "mean over sequences of per-sequence token means" in caveat(tmp_path, key, QUANTITIES[key])


def test_the_loss_decides_whether_the_ratio_was_truncated(tmp_path):
    for key in ("rl/ess", "rl/ratio_new_old"):
        assert caveat(tmp_path, key, QUANTITIES[key]).count("if policy_loss is reinforce") == 1
        assert "policy_loss is reinforce" in caveat(tmp_path, key, QUANTITIES[key], 'objective.loss = "reinforce"')
        assert "reinforce" not in caveat(tmp_path, key, QUANTITIES[key], 'objective.loss = "ppo"')
    assert "policy_loss is reinforce" in caveat(tmp_path, "rl/ess", "ess.total.token", 'finetune.rl.policy_loss = "reinforce"')


def test_the_loss_decides_what_was_clipped(tmp_path):
    key = "rl/clamp_log_ratio_new_old_indicator"
    assert "upper side only: policy" in caveat(tmp_path, key, "clip_rate.total.outside", 'objective.loss = "reinforce"')
    assert "upper side" not in caveat(tmp_path, key, "clip_rate.total.outside", 'objective.loss = "ppo"')
    assert "sequence's mean ratio" in caveat(tmp_path, key, "clip_rate.total.sequence", 'objective.loss = "gspo"')


def test_rl_kl_is_not_the_mismatch(tmp_path):
    assert "NOT of engine against trainer" in caveat(tmp_path, "rl/kl", "kl_ref.k3")


def test_logging_every_few_steps_scales_averages(tmp_path):
    config = "finetune.log_each_n_steps = 4"
    assert "too large" in caveat(tmp_path, "rl/kl_new_old", "kl.total.k3", config)
    assert "too large" not in caveat(tmp_path, "rl/ess", "ess.total.token", config)


def test_the_finetune_reward_shadows_the_actors(tmp_path):
    lines = [{"stats/completed_steps": step, "actor/reward_mean": 0.1, "rl/reward": 0.2} for step in (1, 2)]
    run = run_of(tmp_path, lines)
    assert [row["value"] for row in rows(run, "reward.mean")] == [0.2, 0.2]
    assert [(problem.kind, problem.rows, problem.what) for problem in run.problems] == [
        ("shadowed", 2, "reward.mean is taken from rl/reward")
    ]


def test_a_placeholder_is_no_gradient_norm(tmp_path):
    run = run_of(tmp_path, [{"stats/completed_steps": 1, "stats/grad_norm": -1}, {"stats/completed_steps": 2, "stats/grad_norm": 0.5}])
    assert [row["value"] for row in rows(run, "grad_norm.global")] == [0.5]
    assert [(problem.kind, problem.rows) for problem in run.problems] == [("placeholder", 1)]


LAGS = [{"stats/completed_steps": step, "stats/lag": 128, "stats/samples": 64 * step} for step in (1, 2, 4)]


def test_lag_in_optimizer_steps_from_the_logs_own_samples(tmp_path):
    run = run_of(tmp_path, LAGS)
    assert [row["value"] for row in rows(run, "version_lag_samples.max")] == [128.0] * 3
    lag = rows(run, "version_lag.max")
    assert [row["value"] for row in lag] == [2.0] * 3
    assert lag[0]["source_key"] == "stats/lag"
    assert "64 samples per optimizer step (median growth of stats/samples)" in lag[0]["caveat"]


@pytest.mark.parametrize(
    "config",
    ["trainer.samples_per_step = 32", "finetune.train_batch_size = 4\nfinetune.gradient_accumulation_passes = 8"],
)
def test_lag_in_optimizer_steps_from_the_settings(tmp_path, config):
    assert rows(run_of(tmp_path, LAGS, config), "version_lag.max")[0]["value"] == 4.0


def test_samples_that_are_not_finite_do_not_enter_the_conversion(tmp_path):
    odd = [{"stats/completed_steps": step, "stats/samples": value} for step, value in ((5, "inf"), (6, "Infinity"), (7, "NaN"))]
    assert rows(run_of(tmp_path, LAGS + odd), "version_lag.max")[0]["value"] == 2.0


def test_lag_that_cannot_be_converted_stays_in_samples(tmp_path):
    run = run_of(tmp_path, [{"stats/completed_steps": 1, "stats/lag": 128}])
    assert rows(run, "version_lag.max") == []
    assert "set trainer.samples_per_step" in run.problems[0].what


SUMS = {"rl/ratio_new_old_sum": 9.0, "rl/ratio_new_old_squared_sum": 10.0, "rl/num_output_tokens_sum": 9}


def test_the_ess_of_older_logs_is_derived(tmp_path):
    (row,) = rows(run_of(tmp_path, [{"stats/completed_steps": 1, **SUMS}]), "ess.total.token")
    assert row["value"] == pytest.approx(81 / 90)
    assert row["source_key"] == "rl/ratio_new_old_sum, rl/ratio_new_old_squared_sum, rl/num_output_tokens_sum"
    assert row["caveat"].startswith("derived")
    assert "if policy_loss is reinforce" in row["caveat"]


def test_a_logged_ess_is_not_derived_again(tmp_path):
    (row,) = rows(run_of(tmp_path, [{"stats/completed_steps": 1, "rl/ess": 0.7, **SUMS}]), "ess.total.token")
    assert row["value"] == 0.7


def test_an_ess_without_tokens_is_not_a_number(tmp_path):
    (row,) = rows(run_of(tmp_path, [{"stats/completed_steps": 1, **SUMS, "rl/num_output_tokens_sum": 0}]), "ess.total.token")
    assert math.isnan(row["value"])


@pytest.mark.parametrize(("sums", "ess"), [((1e200, 1.0), math.inf), ((math.inf, math.inf), math.nan)])
def test_an_ess_of_sums_that_overflow_is_a_finding_and_no_warning(tmp_path, sums, ess):
    line = {"stats/completed_steps": 1, **SUMS, "rl/ratio_new_old_sum": sums[0], "rl/ratio_new_old_squared_sum": sums[1]}
    (row,) = rows(run_of(tmp_path, [line]), "ess.total.token")
    assert row["value"] == pytest.approx(ess, nan_ok=True)


def test_the_mean_log_ratio_is_derived(tmp_path):
    (row,) = rows(
        run_of(tmp_path, [{"stats/completed_steps": 1, "rl/new_logprobs": -0.5, "rl/old_logprobs": -0.25}]), "log_ratio.total.mean"
    )
    assert row["value"] == -0.25


def test_the_rest_is_counted(tmp_path):
    run = run_of(tmp_path, [{"stats/completed_steps": 1, "rl/ess": 0.5, "throughput/x": 1, "stats/passes": 3}])
    assert [(problem.kind, problem.place, problem.rows) for problem in run.problems] == [
        ("unmapped", "key throughput/x", 1),
        ("unmapped", "key stats/passes", 1),
    ]


def test_every_key_of_a_ratio_says_which():
    for key in DIALECT.keys:
        assert key.ratio in ("", "total")
        assert (".total." in key.quantity) == (key.ratio == "total"), key.raw


@pytest.mark.parametrize("folder", samples("pipelinerl"), ids=lambda folder: folder.name)
def test_samples(folder):
    assert_as_expected(folder, "pipelinerl")


def test_of_several_datasets_the_first_by_name(tmp_path):
    run = run_of(tmp_path, [{"_step": 1, "actor/math/reward_mean": 0.2, "actor/gsm8k/reward_mean": 0.1, "actor/reward_max": 1.0}])
    assert values(run, "reward.mean") == [0.1]
    assert "of one dataset or domain" in only(run, "actor/gsm8k/reward_mean")[1]
    whole = run_of(tmp_path, [{"_step": 1, "actor/math/reward_mean": 0.2, "actor/reward_mean": 0.3}])
    assert values(whole, "reward.mean") == [0.3]


@pytest.mark.parametrize("key", ["actor/test_reward_mean", "actor/math/test_reward_mean"])
def test_an_evaluation_is_not_training(tmp_path, key):
    run = run_of(tmp_path, [{"_step": 1, key: 0.9, "actor/reward_mean": 0.3}])
    assert "of the evaluation's rollouts" in said(run, key, "unmapped")[0]


def test_fast_llm_measures_the_raw_ratio(tmp_path):
    run = run_of(tmp_path, [{"_step": 1, "training.grpo_ratio_new_old": 1.0, "training.grpo_clipped_ratio_fraction": 0.1}])
    assert "truncated" not in only(run, "training.grpo_ratio_new_old")[1]
    assert "both sides, whatever the sign" in only(run, "training.grpo_clipped_ratio_fraction")[1]


def test_fast_llm_under_gspo_says_other_things_by_the_same_names(tmp_path):
    names = ("kl_new_old", "ratio_new_old", "ratio_new_old_sum", "ratio_new_old_squared_sum", "num_segments", "num_tokens")
    line = {"_step": 1, **{f"training.gspo_{name}": 2.0 for name in names}}
    run = run_of(tmp_path, [line])
    assert only(run, "training.gspo_kl_new_old")[0] == "kl_sequence_mean.total.k3"
    assert not values(run, "ess.total.token")
    assert values(run, "ess.total.sequence_mean") == [4.0 / (2.0 * 2.0)]


def test_fast_llm_counts_staleness_in_samples(tmp_path):
    line = {"_step": 1, "training.grpo_max_staleness": 1024.0}
    assert not values(run_of(tmp_path, [line]), "version_lag.max")
    run = run_of(tmp_path, [line], "trainer.samples_per_step = 256")
    assert values(run, "version_lag_samples.max") == [1024.0]
    assert values(run, "version_lag.max") == [4.0]


def test_settings_under_our_names(tmp_path):
    config = """
finetune.rl.policy_loss = "gspo"
finetune.rl.epsilon = 3e-4
finetune.max_lag = 4096
finetune.train_batch_size = 4
finetune.gradient_accumulation_passes = 256
finetune.load_as_bf16 = true
vllm_config.quantization = "bf16_last_layer_fp32"
vllm_config.vllm_kwargs.kv-cache-dtype = "fp8"
vllm_config.vllm_kwargs.max_model_len = 8192
vllm_config.vllm_kwargs.logprobs-mode = "processed_logprobs"
python_env.vllm = "0.18.1"
"""
    run = run_of(tmp_path, LAGS, config)
    wanted = {
        "engine.name": "vllm",
        "engine.version": "0.18.1",
        "engine.kv_cache_dtype": "fp8",
        "engine.max_model_len": 8192,
        "engine.logprobs_mode": "processed_logprobs",
        "engine.lm_head_dtype": "float32",
        "trainer.dtype": "bfloat16",
        "trainer.samples_per_step": 1024.0,
        "staleness.max_versions": 4.0,
        "objective.loss": "gspo",
        "objective.eps_low": 3e-4,
        "objective.sequence_eps_high": 3e-4,
    }
    assert {name: run.config[name] for name in wanted} == wanted
    assert run.config_sources["engine.max_model_len"] == "vllm_config.vllm_kwargs.max_model_len"
    assert run.config_sources["engine.lm_head_dtype"] == "vllm_config.quantization"
