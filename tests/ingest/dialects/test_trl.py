"""TRL's GRPO and RLOO: the same key under two trainers, ratios after truncation, clip rates that are 0 by construction."""

import pytest

from ingest.load import load
from tests.dialect_samples import DATA, expected, found, rows_add_up, run_of, said

SAMPLES = expected("trl")


@pytest.mark.parametrize("sample", SAMPLES)
def test_a_sample_says_what_is_expected(sample):
    dialect, values = found("trl", sample)
    assert dialect == "trl"
    assert values == {quantity: pytest.approx(expected) for quantity, expected in SAMPLES[sample].items()}
    assert rows_add_up("trl", sample)


def only(tmp_path, key, quantity, config=""):
    return said(run_of(tmp_path, {"num_tokens": 1, key: 0.5}, config))[quantity]


@pytest.mark.parametrize("prefix", ["train/", ""])
def test_the_callbacks_prefix_may_be_there_or_not(tmp_path, prefix):
    run = run_of(tmp_path, {f"{prefix}sampling/sampling_logp_difference/mean": 0.02, f"{prefix}kl": 0.1})
    assert run.dialect == "trl"
    assert set(said(run)) == {"log_ratio.discrepancy.abs_mean", "kl_ref.k3"}


def test_kl_is_to_the_reference_model(tmp_path):
    assert "NOT of engine against trainer" in only(tmp_path, "kl", "kl_ref.k3")[1]
    assert "does not say" in only(tmp_path, "kl", "kl_ref.k3")[1]
    assert "RLOO" not in only(tmp_path, "kl", "kl_ref.k3", 'loss_type = "dapo"')[1]
    assert "may be negative" in only(tmp_path, "kl", "kl_ref.k1", "normalize_advantages = false")[1]


def test_a_negative_kl_tells_the_trainer(tmp_path):
    assert any("negative" in problem.what for problem in run_of(tmp_path, {"num_tokens": 1, "kl": -0.5}).problems)
    assert not any("negative" in problem.what for problem in run_of(tmp_path, {"num_tokens": 1, "kl": 0.5}).problems)


def test_the_engines_ratio_is_measured_after_truncation(tmp_path):
    key = "sampling/importance_sampling_ratio/mean"
    value, caveat = only(tmp_path, key, "ratio.discrepancy.mean")
    assert "after truncation" in caveat
    assert "this log does not say" in caveat
    assert value == 0.5
    assert "per sequence" in only(tmp_path, key, "ratio_sequence.discrepancy.mean", 'vllm_importance_sampling_mode = "sequence_mask"')[1]
    assert "per token" in only(tmp_path, key, "ratio.discrepancy.mean", 'vllm_importance_sampling_mode = "token_truncate"')[1]


ONCE = "gradient_accumulation_steps = 4\nsteps_per_generation = 4\nnum_iterations = 1"


def test_a_clip_rate_that_is_0_by_construction(tmp_path):
    run = run_of(tmp_path, {"num_tokens": 1, "clip_ratio/region_mean": 0.0}, ONCE)
    assert "by construction" in said(run)["clip_rate.lag.effective"][1]
    assert any("constant by construction" in problem.what for problem in run.problems)
    assert run.old_is.startswith("the policy being updated itself")
    twice = only(tmp_path, "clip_ratio/region_mean", "clip_rate.lag.effective", ONCE.replace("iterations = 1", "iterations = 2"))
    assert "by construction" not in twice[1]


def test_a_sequence_level_clip_rate(tmp_path):
    assert only(tmp_path, "clip_ratio/region_mean", "clip_rate.lag.sequence", 'importance_sampling_level = "sequence"')[0] == 0.5


def test_clipped_completions_are_no_clipped_ratios(tmp_path):
    assert "no clipping of a probability ratio" in only(tmp_path, "completions/clipped_ratio", "responses.truncated_share")[1]


def test_values_are_averaged_over_logging_steps(tmp_path):
    assert "10 optimizer steps" in only(tmp_path, "entropy", "entropy.mean", "logging_steps = 10")[1]
    assert "optimizer steps" not in only(tmp_path, "entropy", "entropy.mean", "logging_steps = 1")[1]


def test_settings(tmp_path):
    config = """epsilon = 0.2
epsilon_high = 0.28
bf16 = true
use_vllm = true
vllm_importance_sampling_mode = "sequence_mask"
vllm_importance_sampling_clip_max = 3.0"""
    run = run_of(tmp_path, {"num_tokens": 1, "kl": 0.1}, config)
    wanted = {
        "objective.eps_low": (0.2, "epsilon"),
        "objective.eps_high": (0.28, "epsilon_high"),
        "trainer.dtype": ("bfloat16", "bf16"),
        "engine.name": ("vllm", "use_vllm"),
        "correction.kind": ("mis", "vllm_importance_sampling_mode"),
        "correction.cap": (3.0, "vllm_importance_sampling_clip_max"),
    }
    assert {ours: (run.config[ours], run.config_sources[ours]) for ours in wanted} == wanted


@pytest.mark.parametrize(("sample", "prefix"), [("trainer_state.json", ""), ("tensorboard", "train/")])
def test_what_trl_itself_wrote(sample, prefix):
    (run,) = load(DATA / "trl" / sample)
    assert run.dialect == "trl"
    clip = [row for row in run.scalars.to_pylist() if row["quantity"] == "clip_rate.lag.effective"]
    assert [row["step"] for row in clip] == [1, 2, 3, 4, 5, 6]
    assert [row["value"] for row in clip] == pytest.approx(
        [0, 0.5, 0, 0.04, 0, 0], abs=1e-6
    )  # num_iterations = 2: only the second pass moves
    assert {row["source_key"] for row in clip} == {f"{prefix}clip_ratio/region_mean"}


def test_the_settings_that_trl_itself_wrote():
    (run,) = load(DATA / "trl" / "tensorboard")
    assert run.config["objective.eps_high"] == 0.2
    assert run.config_sources["objective.eps_high"] == "epsilon"
