"""torchforge: the total ratio, and a clipped ratio that is no clip rate."""

import pytest

from tests.dialect_samples import expected, found, rows_add_up, run_of, said

SAMPLES = expected("torchforge")


@pytest.mark.parametrize("sample", SAMPLES)
def test_a_sample_says_what_is_expected(sample):
    dialect, values = found("torchforge", sample)
    assert dialect == "torchforge"
    assert values == {quantity: pytest.approx(expected) for quantity, expected in SAMPLES[sample].items()}
    assert rows_add_up("torchforge", sample)


def test_every_ratio_is_the_total_one(tmp_path):
    run = run_of(tmp_path, {"loss/kl_policy/mean": -0.1, "loss/ratio/mean": 1.1})
    assert said(run)["kl.total.k1"][0] == -0.1
    assert run.old_is.startswith("what the generator returned")


def test_a_clipped_ratio_is_no_clip_rate(tmp_path):
    keys = {"loss/clip/clipped_ratio/mean": 1.0, "loss/clip/low_fraction": 0.1, "loss/clip/high_fraction": 0.2}
    values = said(run_of(tmp_path, keys))
    assert "NOT the share of clipped tokens" in values["ratio_clamped.total.mean"][1]
    assert values["clip_rate.total.effective"][0] == pytest.approx(0.3)
    assert values["clip_rate.total.effective"][1].startswith("derived")


def test_sums_are_not_taken_for_means(tmp_path):
    run = run_of(tmp_path, {"rl_trainer/avg_loss": 1.0, "reward/evaluate_response/sum_math_reward": 40.0})
    assert run.problems[0].what == "a sum over responses, not a mean"


def test_settings(tmp_path):
    config = """off_by_n = 1
policy.engine_args.enforce_eager = false
policy.sampling_params.temperature = 1.0
trainer.training.dtype = "bfloat16"
"""
    run = run_of(tmp_path, {"rl_trainer/avg_loss": 1.0}, config)
    assert run.config["staleness.max_versions"] == 1
    assert run.config["engine.name"] == "vllm"
    assert run.config_sources["engine.enforce_eager"] == "policy.engine_args.enforce_eager"
    assert run.config["trainer.dtype"] == "bfloat16"
