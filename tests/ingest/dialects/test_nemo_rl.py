"""NeMo-RL: placeholders, swapped roles, and what force_on_policy_ratio makes of the ratio."""

import pytest

from tests.dialect_samples import expected, found, rows_add_up, run_of, said

SAMPLES = expected("nemo_rl")


@pytest.mark.parametrize("sample", SAMPLES)
def test_a_sample_says_what_is_expected(sample):
    dialect, values = found("nemo_rl", sample)
    assert dialect == "nemo_rl"
    assert values == {quantity: pytest.approx(expected) for quantity, expected in SAMPLES[sample].items()}
    assert rows_add_up("nemo_rl", sample)


ERROR = {"train/token_mult_prob_error": 1.01}


def test_minus_one_and_zero_stand_for_none(tmp_path):
    run = run_of(tmp_path, {**ERROR, "train/probs_ratio_min": -1.0, "train/max_seq_mult_prob_error": 0.0, "train/kl_penalty": 0.0})
    assert set(said(run)) == {"log_ratio.discrepancy.exp_abs_mean"}
    assert [problem.kind for problem in run.problems] == ["placeholder"] * 3


def test_the_roles_of_the_two_kls(tmp_path):
    run = run_of(tmp_path, {"train/gen_kl_error": 9.0000454, "train/policy_kl_error": 22015.4658})
    assert said(run)["kl.discrepancy.k3"][0] == 9.0000454
    assert "roles swapped" in said(run)["kl_swapped.discrepancy.k3"][1]
    run = run_of(tmp_path, {"train/gen_kl_error": 0.1}, 'loss_fn.reference_policy_kl_type = "k1"')
    assert said(run)["kl.discrepancy.k1"][0] == 0.1


FORCED = "loss_fn.force_on_policy_ratio = true"


def test_a_forced_ratio_is_constant(tmp_path):
    run = run_of(tmp_path, {**ERROR, "train/probs_ratio": 1.0, "train/max_seq_mult_prob_error": 0.1}, FORCED)
    assert "by construction" in said(run)["ratio.update.mean"][1]
    assert run.old_is.startswith("the policy being updated itself")
    assert [problem.rows for problem in run.problems if problem.kind == "unmapped"] == [1]


def test_a_ratio_that_is_a_log_probability(tmp_path):
    run = run_of(tmp_path, {**ERROR, "train/probs_ratio": -0.5}, "loss_fn.disable_ppo_ratio = true")
    assert said(run)["logprob.current.mean"][0] == -0.5


def test_a_clamped_mean_is_no_clip_rate(tmp_path):
    assert "clamping" in said(run_of(tmp_path, {"train/probs_ratio_clamped": 1.0}))["ratio_clamped.update.mean"][1]


def test_the_mismatch_weights_are_measured_after_truncation(tmp_path):
    keys = {"train/sampling_importance_ratio": 1.0, **ERROR}
    assert "after truncation" in said(run_of(tmp_path, keys))["ratio.discrepancy.mean"][1]
    assert "ratio_sequence.discrepancy.mean" in said(run_of(tmp_path, keys, "loss_fn.sequence_level_importance_ratios = true"))


def test_asynchronous_runs(tmp_path):
    config = "grpo.async_grpo.enabled = true\ngrpo.async_grpo.max_trajectory_age_steps = 1"
    run = run_of(tmp_path, {**ERROR, "train/probs_ratio": 1.0}, config)
    assert run.config["staleness.max_versions"] == 1
    assert "upper bound" in said(run)["log_ratio.discrepancy.exp_abs_mean"][1]
    run = run_of(tmp_path, {**ERROR, "train/probs_ratio": 1.0}, "grpo.async_grpo.enabled = false")
    assert "ratio.lag.mean" in said(run)
    assert "weights that sampled it" in run.old_is


def test_settings(tmp_path):
    config = """loss_fn.truncated_importance_sampling_type = "icepop"
loss_fn.truncated_importance_sampling_ratio = 5.0
loss_fn.truncated_importance_sampling_ratio_min = 0.5
policy.generation.vllm_cfg.kv_cache_dtype = "fp8"
policy.generation.backend = "vllm"
"""
    run = run_of(tmp_path, ERROR, config)
    assert (run.config["correction.kind"], run.config["correction.floor"], run.config["correction.cap"]) == ("icepop", 0.5, 5.0)
    assert run.config_sources["engine.kv_cache_dtype"] == "policy.generation.vllm_cfg.kv_cache_dtype"


def test_updates_that_overlap_a_forward_pass_are_settings(tmp_path):
    config = "grpo.async_grpo.enabled = true\ngrpo.async_grpo.in_flight_weight_updates = true"
    config += "\npolicy.generation.vllm_cfg.pipeline_parallel_size = 2"
    told = run_of(tmp_path, ERROR, config).config
    assert (told["engine.weight_sync"], told["engine.pipeline_parallel_size"]) == ("in_flight", 2)
    assert "engine.weight_sync" not in run_of(tmp_path, ERROR, config.replace("updates = true", "updates = false")).config
