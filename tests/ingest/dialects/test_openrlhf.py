"""OpenRLHF: signs, a placeholder, synchronous or not, settings as text."""

import pytest

from tests.dialect_samples import expected, found, rows_add_up, run_of, said

SAMPLES = expected("openrlhf")


@pytest.mark.parametrize("sample", SAMPLES)
def test_a_sample_says_what_is_expected(sample):
    dialect, values = found("openrlhf", sample)
    assert dialect == "openrlhf"
    assert values == {quantity: pytest.approx(expected) for quantity, expected in SAMPLES[sample].items()}
    assert rows_add_up("openrlhf", sample)


KEYS = {"train/ppo_kl": 0.1, "train/vllm_kl": 0.2, "train/ppo_clip_ratio": 0.3}


def test_synchronous_or_not_decides_what_the_ratios_are(tmp_path):
    unsaid = said(run_of(tmp_path, KEYS))
    assert "upper bound" in unsaid["kl.discrepancy.k1"][1]
    assert "does not say" in unsaid["kl.update.k1"][1]
    synchronous = said(run_of(tmp_path, KEYS, "train.async_enable = false"))
    assert "upper bound" not in synchronous["kl.discrepancy.k1"][1]
    assert synchronous["kl.lag.k1"][0] == 0.1
    run = run_of(tmp_path, KEYS, "async_train = true")
    assert "this log does not say" not in said(run)["kl.discrepancy.k1"][1]
    assert "newer than the sampler" in run.old_is


def test_a_kl_of_0_is_a_placeholder_unless_there_is_a_reference_model(tmp_path):
    zero = {**KEYS, "train/kl": 0.0}
    assert [problem.kind for problem in run_of(tmp_path, zero).problems] == ["placeholder"]
    assert said(run_of(tmp_path, zero, "algo.kl.init_coef = 0.01"))["kl_ref.k1"][0] == 0.0
    assert said(run_of(tmp_path, {**KEYS, "train/kl": 0.1}, 'kl_estimator = "k3"'))["kl_ref.k3"][0] == 0.1


def test_entropy_loss_is_the_entropy(tmp_path):
    assert said(run_of(tmp_path, {**KEYS, "train/entropy_loss": 0.8}))["entropy.mean"][0] == 0.8


def test_responses_at_the_limit_are_no_clipped_ratios(tmp_path):
    assert (
        "no clipping of a probability ratio" in said(run_of(tmp_path, {"train/response_clip_ratio": 0.1}))["responses.truncated_share"][1]
    )


GROUPS = """algo = "namespace(advantage=namespace(is_correction_enable=True, is_correction_threshold=[.5, 5], is_correction_type='icepop'))"
actor = "Namespace(eps_clip=0.2, eps_clip_low_high=(0.2, 0.27), adam=namespace(lr=1e-06, betas=(0.9, 0.95)))"
vllm = "namespace(num_engines=2, enable_prefix_caching=False)"
"""


def test_settings_that_are_logged_as_text(tmp_path):
    run = run_of(tmp_path, KEYS, GROUPS)
    assert run.config["correction.kind"] == "icepop"
    assert (run.config["correction.floor"], run.config["correction.cap"]) == (0.5, 5.0)
    assert (run.config["objective.eps_low"], run.config["objective.eps_high"]) == (0.2, 0.27)
    assert run.config["engine.name"] == "vllm"
    assert run.config["engine.logprobs_mode"] == "processed_logprobs"
    assert run.config_sources["correction.cap"] == "algo.advantage.is_correction_threshold"
    assert run.config["trainer.learning_rate"] == "1e-06"


def test_older_settings(tmp_path):
    run = run_of(tmp_path, KEYS, "eps_clip = 0.2\nenable_vllm_is_correction = true\nvllm_is_truncated_threshold = 2.0")
    assert (run.config["correction.kind"], run.config["correction.cap"]) == ("token_tis", 2.0)
    assert "correction.floor" not in run.config
