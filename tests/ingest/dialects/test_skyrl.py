"""SkyRL: one key with several meanings, an inverse ratio by the name of a difference, a loss that is a sum."""

import pytest

from tests.dialect_samples import expected, found, rows_add_up, run_of, said

SAMPLES = expected("skyrl")


@pytest.mark.parametrize("sample", SAMPLES)
def test_a_sample_says_what_is_expected(sample):
    dialect, values = found("skyrl", sample)
    assert dialect == "skyrl"
    assert values == {quantity: pytest.approx(expected) for quantity, expected in SAMPLES[sample].items()}
    assert rows_add_up("skyrl", sample)


CLIP = {"policy/loss_metrics/clip_ratio": 0.1}


@pytest.mark.parametrize(
    ("loss", "quantity"),
    [
        ("regular", "clip_rate.update.effective"),
        ("cispo", "clip_rate.update.outside"),
        ("rollout_is", "clip_rate.total.outside"),
        ("dppo", "rejected.tokens"),
        ("gspo", "clip_rate.update.sequence"),
    ],
)
def test_the_loss_decides_what_clip_ratio_is(tmp_path, loss, quantity):
    assert quantity in said(run_of(tmp_path, CLIP, f'trainer.algorithm.policy_loss_type = "{loss}"'))


def test_without_the_setting_that_is_said(tmp_path):
    assert "others count otherwise" in said(run_of(tmp_path, CLIP))["clip_rate.update.effective"][1]


def test_the_older_difference_of_probabilities_is_an_inverse_ratio(tmp_path):
    value, caveat = said(run_of(tmp_path, {"policy/rollout_train_prob_diff_mean": 1.01}))["ratio_inverse.discrepancy.mean"]
    assert value == 1.01
    assert "inverse ratio" in caveat


def test_the_difference_within_the_minibatches_is_the_total_one(tmp_path):
    keys = {"policy/minibatch_rollout_logprobs_abs_diff_mean": 0.02, "policy/rollout_train_logprobs_abs_diff_mean": 0.01}
    values = said(run_of(tmp_path, keys, "trainer.fully_async.enabled = false"))
    assert values["log_ratio.total.abs_mean"][0] == 0.02
    assert values["log_ratio.discrepancy.abs_mean"][0] == 0.01
    assert "upper bound" not in values["log_ratio.discrepancy.abs_mean"][1]


def test_losses_are_sums(tmp_path):
    assert "a sum over micro-batches" in said(run_of(tmp_path, {"policy/policy_loss": 0.1}))["objective.loss"][1]


def test_the_ess_of_mean_and_spread_is_a_lower_bound(tmp_path):
    keys = {"policy/loss_metrics/is_ratio_mean": 1.0, "policy/loss_metrics/is_ratio_std": 0.5}
    value, caveat = said(run_of(tmp_path, keys))["ess.discrepancy.token"]
    assert value == 0.8
    assert caveat.startswith("derived")
    assert "lower bound" in caveat


def test_open_instruct_shares_a_prefix_but_no_key(tmp_path):
    assert run_of(tmp_path, {"policy/policy_entropy": 0.1}).dialect == "skyrl"
    assert run_of(tmp_path, {"policy/entropy_avg": 0.1}).dialect == "open_instruct"


def test_settings(tmp_path):
    config = """trainer.algorithm.off_policy_correction.tis_ratio_type = "token"
trainer.algorithm.off_policy_correction.token_tis_ratio_clip_high = 2.0
generator.inference_engine.engine_init_kwargs.logprobs_mode = "processed_logprobs"
generator.sampling_params.temperature = 0.8
trainer.fully_async.enabled = true
"""
    run = run_of(tmp_path, CLIP, config)
    assert (run.config["correction.kind"], run.config["correction.cap"]) == ("token_tis", 2.0)
    assert run.config["engine.logprobs_mode"] == "processed_logprobs"
    assert run.config["sampling.temperature"] == 0.8
    assert "newer than the sampler" in run.old_is
