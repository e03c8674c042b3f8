"""ROLL: differences of probabilities, pass rates, placeholders, reducer tags."""

import math

import pytest

from tests.dialect_samples import expected, found, rows_add_up, run_of, said

SAMPLES = expected("roll")


@pytest.mark.parametrize("sample", SAMPLES)
def test_a_sample_says_what_is_expected(sample):
    dialect, values = found("roll", sample)
    assert dialect == "roll"
    assert values == {quantity: pytest.approx(expected) for quantity, expected in SAMPLES[sample].items()}
    assert rows_add_up("roll", sample)


MARK = {"actor/train_infer_ratio_token_mean": 1.0}


def test_a_difference_of_probabilities_is_not_one_of_log_probabilities(tmp_path):
    value, caveat = said(run_of(tmp_path, {"actor/train_infer_diff_token_mean": -0.01}))["prob_diff.discrepancy.mean"]
    assert value == -0.01
    assert "not of log-probabilities" in caveat


def test_policykl_is_turned_and_approxkl_is_k2(tmp_path):
    values = said(run_of(tmp_path, {"actor/policykl": -0.2, "actor/approxkl": 0.1}, "async_generation_ratio = 0"))
    assert values["kl.lag.k1"][0] == 0.2
    assert values["kl.lag.k2"][0] == 0.1
    assert values["ess.lag.token"][0] == pytest.approx(math.exp(-0.2))
    assert values["ess.lag.token"][1].startswith("derived")


def test_zeros_without_recomputation_are_placeholders(tmp_path):
    run = run_of(tmp_path, {**MARK, "critic/entropy/mean": 0.0, "code/critic/kl": 0.0})
    assert set(said(run)) == {"ratio.discrepancy.mean"}
    assert [problem.kind for problem in run.problems] == ["placeholder", "placeholder"]
    kept = run_of(tmp_path, {**MARK, "code/critic/kl": 0.0}, "enable_old_logprobs_recompute = true\ninit_kl_coef = 0.2")
    assert said(kept)["kl_ref.k1"][0] == 0.0


def test_the_ratio_is_constant_without_recomputation(tmp_path):
    run = run_of(tmp_path, {**MARK, "actor/ratio_mean": 1.0}, "force_disable_old_logprobs_recompute = true")
    assert "by construction" in said(run)["ratio.update.mean"][1]
    assert run.old_is.startswith("the first forward")


def test_masks_are_pass_rates(tmp_path):
    run = run_of(tmp_path, {**MARK, "actor/train_infer_final_mask_mean": 0.9, "actor/train_infer_token_ratio_mask_mean": 1.2})
    assert said(run)["rejected.tokens"][0] == pytest.approx(0.1)
    assert "may exceed 1" in next(problem.what for problem in run.problems if "token_ratio_mask" in problem.place)


def test_the_band_is_measured_over_padding_too(tmp_path):
    assert "padding among them" in said(run_of(tmp_path, {"actor/ppo_ratio_clipfrac": 0.1}))["clip_rate.update.outside"][1]


def test_tis_there_is_not_the_engines(tmp_path):
    assert (
        "NOT the truncation of engine" in said(run_of(tmp_path, {**MARK, "actor/tis_total_clipfrac": 0.1}))["clip_rate.update.outside"][1]
    )


def test_the_clip_of_the_length_is_a_count(tmp_path):
    run = run_of(tmp_path, {**MARK, "token/total_response_length/clip": 7})
    assert "not a share" in run.problems[0].what


def test_settings(tmp_path):
    config = """pg_clip = 0.2
async_generation_ratio = 1.5
train_infer_correction.is_weight.enabled = true
train_infer_correction.is_weight.upper_bound = 1.2
actor_infer.generating_args.top_p = 0.7
actor_infer.strategy_args.strategy_name = "vllm"
"""
    run = run_of(tmp_path, MARK, config)
    assert run.config["staleness.max_versions"] == 2
    assert (run.config["correction.kind"], run.config["correction.cap"]) == ("token_tis", 1.2)
    assert run.config_sources["sampling.top_p"] == "actor_infer.generating_args.top_p"
    assert run.config["engine.name"] == "vllm"
