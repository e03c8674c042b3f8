"""TRL's AsyncGRPO: vLLM stands for old, so that the ratio and `kl` are the total ones."""

import pytest

from tests.dialect_samples import expected, found, rows_add_up, run_of, said

SAMPLES = expected("trl_async")


@pytest.mark.parametrize("sample", SAMPLES)
def test_a_sample_says_what_is_expected(sample):
    dialect, values = found("trl_async", sample)
    assert dialect == "trl_async"
    assert values == {quantity: pytest.approx(expected) for quantity, expected in SAMPLES[sample].items()}
    assert rows_add_up("trl_async", sample)


def test_kl_is_the_total_one_and_not_to_a_reference_model(tmp_path):
    run = run_of(tmp_path, {"train/ratio": 1.1, "train/kl": 0.2, "train/buffer_qsize": 2})
    assert run.dialect == "trl_async"
    assert run.old_is.startswith("what vLLM returned")
    value, caveat = said(run)["kl.total.k3"]
    assert value == 0.2
    assert "NOT to a reference model" in caveat


def test_staleness_counts_optimizer_steps(tmp_path):
    run = run_of(tmp_path, {"ratio": 1.1, "sample/staleness_max": 3}, "weight_sync_steps = 2\nmax_staleness = 4\nlogging_steps = 5")
    value, caveat = said(run)["version_lag.max"]
    assert value == 6.0
    assert "weight versions of 2 optimizer steps" in caveat
    assert "mean over" not in caveat
    assert run.config["staleness.max_versions"] == 4
