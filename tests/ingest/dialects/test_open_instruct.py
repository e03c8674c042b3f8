"""open-instruct: a ratio that is 1 by construction, estimators that were renumbered, the ESS of a histogram."""

import json

import pytest

from ingest.load import load
from tests.dialect_samples import expected, found, rows_add_up, run_of, said

SAMPLES = expected("open_instruct")


@pytest.mark.parametrize("sample", SAMPLES)
def test_a_sample_says_what_is_expected(sample):
    dialect, values = found("open_instruct", sample)
    assert dialect == "open_instruct"
    assert values == {quantity: pytest.approx(expected) for quantity, expected in SAMPLES[sample].items()}
    assert rows_add_up("open_instruct", sample)


KEYS = {"val/ratio": 1.0, "val/rho_weight": 0.9, "policy/clipfrac_avg": 0.0}
ONE = "num_mini_batches = 1\nnum_epochs = 1"


def test_one_minibatch_makes_the_ratio_1_and_rho_the_total_one(tmp_path):
    run = run_of(tmp_path, KEYS, ONE)
    assert "by construction" in said(run)["ratio.update.mean"][1]
    assert "by construction" in said(run)["clip_rate.update.effective"][1]
    assert "discrepancy and lag" in said(run)["ratio.total.mean"][1]
    assert run.old_is.startswith("the policy being updated itself")
    several = run_of(tmp_path, KEYS, "num_mini_batches = 4\nasync_steps = 8")
    assert "upper bound" in said(several)["ratio.discrepancy.mean"][1]
    assert "by construction" not in said(several)["ratio.update.mean"][1]
    assert "are 1 (the defaults)" in said(run_of(tmp_path, KEYS))["ratio.update.mean"][1]


def test_vllms_numbers_may_stand_for_old(tmp_path):
    run = run_of(tmp_path, {"val/ratio": 1.2}, "use_vllm_logprobs = true")
    assert said(run)["ratio.total.mean"][0] == 1.2


def test_the_debug_difference_is_the_total_one(tmp_path):
    assert (
        "of the weights being updated"
        in said(run_of(tmp_path, {"debug/vllm_vs_local_logprob_diff_mean": 0.1}))["log_ratio.total.abs_mean"][1]
    )
    assert "no estimate of a KL" in said(run_of(tmp_path, {"debug/vllm_local_reverse_kl": 0.1}))["kl_weighted.total"][1]


@pytest.mark.parametrize(("first", "second", "third"), [("kl0_avg", "kl_ref.k3", "kl_ref.weighted"), ("kl_avg", "kl_ref.k2", "kl_ref.k3")])
def test_the_estimators_were_renumbered(tmp_path, first, second, third):
    values = said(run_of(tmp_path, {f"objective/{first}": 0.1, "objective/kl2_avg": 0.2, "objective/kl3_avg": 0.3}))
    assert (values["kl_ref.k1"][0], values[second][0], values[third][0]) == (0.1, 0.2, 0.3)


def test_the_histograms_ess(tmp_path):
    values = said(run_of(tmp_path, {**KEYS, "val/rho_hist.mean": 1.0, "val/rho_hist.mean_square": 2.0}, ONE))
    value, caveat = values["ess.total.token"]
    assert value == 0.5
    assert caveat.startswith("derived: mean² / mean square over the bins of val/rho_hist")


def test_the_step_is_the_training_step(tmp_path):
    (tmp_path / "l.jsonl").write_text(json.dumps({"training_step": 7, "global_step": 896, "val/ratio": 1.0}), encoding="utf-8")
    (run,) = load(tmp_path / "l.jsonl")
    assert run.scalars.column("step").to_pylist() == [7]


def test_settings(tmp_path):
    config = "use_rho_correction = true\nrho_clamp_upper_bound = 2.0\nvllm_enforce_eager = false\nasync_steps = 8\ntemperature = 1.0"
    run = run_of(tmp_path, KEYS, config)
    assert (run.config["correction.kind"], run.config["correction.cap"]) == ("token_tis", 2.0)
    assert (run.config["engine.name"], run.config["engine.logprobs_mode"]) == ("vllm", "processed_logprobs")
    assert run.config["staleness.max_versions"] == 8
