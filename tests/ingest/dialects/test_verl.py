"""verl's keys in every generation, with what must be known to read them."""

import json
import math

import pytest

from ingest.dialects.verl import DIALECT
from ingest.errors import UnknownDialectError
from ingest.identify import identify_dialect
from ingest.load import load
from tests.dialect_logs import assert_as_expected, only, run_of, said, samples, values

ACTOR, ROLLOUT, CORRECTION = "actor_rollout_ref.actor", "actor_rollout_ref.rollout", "algorithm.rollout_correction"
SYNC = {f"{ROLLOUT}.name": "vllm"}
ASYNC = {**SYNC, "trainer.use_v1": True, "trainer.v1.trainer_mode": "separate_async"}
BYPASS = {**SYNC, f"{CORRECTION}.bypass_mode": True}
TOKEN = {f"{CORRECTION}.rollout_is": "token", f"{CORRECTION}.rollout_is_threshold": 2.0}
ESS = "rollout_corr/rollout_is_eff_sample_size"


def verl(tmp_path, line, config=None):
    return run_of(tmp_path, "verl", line, config)


def one(tmp_path, key, config=None, value=0.5):
    return only(verl(tmp_path, {key: value}, config), key)


@pytest.mark.parametrize("folder", samples("verl"), ids=lambda folder: folder.name)
def test_samples(folder):
    assert_as_expected(folder, "verl")


@pytest.mark.parametrize("key", ["actor/ppo_kl", "rollout_corr/kl", "mismatch/mismatch_kl"])
def test_a_k1_may_be_negative_and_stays_so(tmp_path, key):
    run = verl(tmp_path, {key: -0.01}, SYNC)
    assert [row["value"] for row in run.scalars.to_pylist()] == [-0.01]
    assert "signed, may be negative" in only(run, key)[1]


def test_perplexities_of_the_log_are_negated_log_probabilities(tmp_path):
    line = {"rollout_corr/log_ppl_diff": 0.02, "rollout_corr/log_ppl_diff_max": 0.3, "rollout_corr/training_log_ppl": 0.5}
    run = verl(tmp_path, line, {**SYNC, "framework.version": "0.9.0"})
    assert values(run, "log_ratio.discrepancy.mean") == [-0.02]
    assert values(run, "log_ratio.discrepancy.sequence_min") == [-0.3]
    assert values(run, "logprob.old.mean") == [-0.5]


def test_a_difference_of_probabilities_is_no_difference_of_log_probabilities(tmp_path):
    quantity, caveat = one(tmp_path, "training/rollout_probs_diff_mean", SYNC)
    assert quantity == "prob_diff.discrepancy.abs_mean"
    assert "a difference of probabilities, not of log-probabilities" in caveat


def test_what_was_not_computed_is_no_agreement(tmp_path):
    key = "training/rollout_probs_diff_valid"
    run = verl(tmp_path, [{"_step": step, key: step % 2, "training/rollout_probs_diff_mean": 0.0} for step in range(1, 5)])
    assert "0 at 2 steps" in said(run, key, "note")[0]


@pytest.mark.parametrize(
    ("config", "quantity", "words"),
    [
        (SYNC, "clip_rate.lag.effective", ""),
        (ASYNC, "clip_rate.update.effective", "not the whole lag"),
        (BYPASS, "clip_rate.total.effective", "bypass mode"),
        ({f"{ACTOR}.use_rollout_log_probs": True}, "clip_rate.total.effective", "bypass mode"),
        ({}, "clip_rate.update.effective", "this log does not say"),
        ({**SYNC, f"{ACTOR}.policy_loss.loss_mode": "cispo"}, "clip_rate.lag.outside", "whatever the advantage"),
        ({**SYNC, f"{ACTOR}.policy_loss.loss_mode": "gspo"}, "clip_rate.lag.sequence", ""),
        ({**SYNC, f"{ACTOR}.policy_loss.loss_mode": "geo_mean"}, "clip_rate.lag.effective", "other half is actor/pg_clipfrac_lower"),
    ],
)
def test_one_name_for_several_clips(tmp_path, config, quantity, words):
    assert one(tmp_path, "actor/pg_clipfrac", config)[0] == quantity
    assert words in one(tmp_path, "actor/pg_clipfrac", config)[1]


def test_kl_cov_logs_another_thing_under_ppo_kl(tmp_path):
    config = {**SYNC, f"{ACTOR}.policy_loss.loss_mode": "kl_cov"}
    assert one(tmp_path, "actor/ppo_kl", config)[0] == "log_ratio.lag.abs_mean"


@pytest.mark.parametrize(("batch", "epochs", "constant"), [(64, 1, True), (256, 1, False), (64, 2, False)])
def test_one_update_per_batch_makes_the_ratio_constant(tmp_path, batch, epochs, constant):
    config = {**SYNC, "data.train_batch_size": batch, f"{ACTOR}.ppo_mini_batch_size": 64, f"{ACTOR}.ppo_epochs": epochs}
    run = verl(tmp_path, {"actor/ppo_kl": 0.0, "actor/pg_clipfrac": 0.0}, config)
    assert ("constant by construction: one optimizer step per batch" in only(run, "actor/pg_clipfrac")[1]) is constant
    bypassed = verl(tmp_path, {"actor/ppo_kl": 0.0}, {**config, **BYPASS})
    assert "constant" not in only(bypassed, "actor/ppo_kl")[1]


@pytest.mark.parametrize(
    ("kind", "estimator"), [("low_var_kl", "k3"), ("k3+", "k3"), ("kl", "k1"), ("mse", "k2"), ("abs", "abs_mean"), (None, "k3")]
)
def test_the_kl_to_the_reference_model_follows_its_type(tmp_path, kind, estimator):
    line = {"actor/kl_loss": 0.1, "actor/pg_clipfrac": 0.0}
    quantity, caveat = only(verl(tmp_path, line, {} if kind is None else {f"{ACTOR}.kl_loss_type": kind}), "actor/kl_loss")
    assert quantity == f"kl_ref.{estimator}"
    assert "NOT of engine against trainer" in caveat
    assert ("does not say" in caveat) is (kind is None)


@pytest.mark.parametrize(
    ("config", "floor"),
    [
        ({**TOKEN, f"{CORRECTION}.rollout_token_veto_threshold": 1e-4}, "0.64"),
        ({**TOKEN, "framework.version": "0.7.1"}, "0.64"),
        ({**TOKEN, "framework.version": "v0.6.1", f"{CORRECTION}.rollout_is_threshold": 4.0}, "0.221453"),
        ({**TOKEN, "framework.version": "0.8.0"}, None),
        ({**TOKEN, **ASYNC}, None),
    ],
)
def test_an_ess_that_can_never_fall_under_a_half(tmp_path, config, floor):
    quantity, caveat = one(tmp_path, ESS, config)
    assert quantity == "ess.discrepancy.token"
    assert ("cannot fall under" in caveat) is (floor is not None)
    assert floor is None or f"cannot fall under {floor}" in caveat


def test_the_oldest_ess_is_bounded_too(tmp_path):
    config = {"algorithm.rollout_is": True, "algorithm.rollout_is_threshold": 2.0, "algorithm.rollout_is_level": "token"}
    key = "mismatch/rollout_is_eff_sample_size"
    assert "cannot fall under 0.64" in one(tmp_path, key, config)[1]
    assert "0.64 for C = 2; this log does not say what C is" in one(tmp_path, key)[1]


def test_an_ess_of_an_unknown_generation_says_what_it_may_be(tmp_path):
    assert "0.64 for C = 2; this log does not say which version" in one(tmp_path, ESS)[1]
    run = verl(tmp_path, {ESS: 0.9, "rollout_corr/rollout_is_veto_fraction": 0.0})
    assert "v0.6.1 to v0.7.0" in said(run, ESS, "note")[0]


def test_icepop_drops_instead_of_clamping(tmp_path):
    config = {**SYNC, f"{CORRECTION}.rollout_is": "token", f"{CORRECTION}.rollout_is_threshold": "0.5_5.0"}
    run = verl(tmp_path, {ESS: 0.4, "rollout_corr/rollout_is_oob_ratio": 0.01}, config)
    assert "set to 0 outside IcePop's bounds" in only(run, ESS)[1]
    assert (run.config["correction.kind"], run.config["correction.floor"], run.config["correction.cap"]) == ("icepop", 0.5, 5.0)


def test_an_ess_weighted_by_length_is_another_thing(tmp_path):
    quantity, caveat = one(tmp_path, ESS, {**TOKEN, f"{CORRECTION}.rollout_is": "sequence", "framework.version": "0.9.0"})
    assert quantity == "ess.discrepancy.sequence"
    assert "long sequences count more" in caveat
    assert one(tmp_path, "rollout_corr/rollout_is_mean", {f"{CORRECTION}.rollout_is": "sequence"})[0] == "ratio_sequence.discrepancy.mean"


def test_the_raw_ess_from_chi2(tmp_path):
    line = {"rollout_corr/chi2_token": 1.5, "rollout_corr/kl": 0.2, "rollout_corr/k3_kl": 0.3, ESS: 0.7}
    run = verl(tmp_path, line, {**SYNC, **TOKEN, "framework.version": "0.9.0"})
    assert values(run, "ess.discrepancy.token") == [0.7]
    assert values(run, "ess.discrepancy.token_raw") == pytest.approx([1.1**2 / 2.5])
    alone = verl(tmp_path, {"rollout_corr/chi2_token": 1.5}, SYNC)
    (row,) = [row for row in alone.scalars.to_pylist() if row["quantity"] == "ess.discrepancy.token"]
    assert row["value"] == pytest.approx(1 / 2.5)
    assert row["caveat"].startswith("derived: before truncation")
    assert "taken as 1" in row["caveat"]
    moved = verl(tmp_path, {"rollout_corr/chi2_token": 1.5}, ASYNC)
    assert any("upper bound" in row["caveat"] for row in moved.scalars.to_pylist() if row["quantity"] == "ess.discrepancy.token")
    assert "upper bound" not in row["caveat"]


def test_truncation_before_or_after_by_generation(tmp_path):
    assert "raw weights up to v0.7.1, of the truncated weights since v0.8.0" in one(tmp_path, "rollout_corr/rollout_is_mean", TOKEN)[1]


def test_keys_that_the_actor_writes_over(tmp_path):
    config = {**SYNC, "framework.version": "0.7.0"}
    assert one(tmp_path, "rollout_corr/kl", config)[0] == "kl.total.k1"
    assert one(tmp_path, "rollout_corr/kl", {**SYNC, "framework.version": "0.8.0"})[0] == "kl.discrepancy.k1"
    assert "this log does not say which version" in one(tmp_path, "rollout_corr/kl", SYNC)[1]


def test_old_against_rollout_is_an_upper_bound_where_weights_moved(tmp_path):
    assert "upper bound" in one(tmp_path, "rollout_corr/k3_kl", ASYNC)[1]
    assert "upper bound" not in one(tmp_path, "rollout_corr/k3_kl", SYNC)[1]
    assert one(tmp_path, "actor/rollout_corr/k3_kl", BYPASS)[0] == "kl.total.k3"


def test_the_score_shadows_the_penalised_reward(tmp_path):
    run = verl(tmp_path, {"critic/rewards/mean": 0.1, "critic/score/mean": 0.2, "actor/pg_clipfrac": 0.0})
    assert values(run, "reward.mean") == [0.2]


def test_a_clip_ratio_of_lengths_clips_no_ratio(tmp_path):
    assert one(tmp_path, "response_length/clip_ratio") == (
        "responses.truncated_share",
        "share of responses at the length limit; clips no ratio",
    )


def test_staleness_is_of_the_oldest_weights_first(tmp_path):
    prefix = "training/off_policy/trajectory_staleness"
    run = verl(tmp_path, {f"{prefix}/mean": 1.0, f"{prefix}_worst/mean": 2.0})
    assert values(run, "version_lag.mean") == [2.0]
    assert "freshest" in one(tmp_path, f"{prefix}/mean")[1]


@pytest.mark.parametrize(
    ("config", "words"),
    [(SYNC, "recomputed by the trainer"), (ASYNC, "may be newer"), (BYPASS, "bypass mode"), ({}, "this log does not say")],
)
def test_what_old_is(tmp_path, config, words):
    assert words in verl(tmp_path, {"actor/ppo_kl": 0.0}, config).old_is


def test_settings_under_our_names(tmp_path):
    config = {
        f"{ROLLOUT}.name": "vllm",
        f"{ROLLOUT}.logprobs_mode": "processed_logprobs",
        f"{ROLLOUT}.enable_prefix_caching": True,
        f"{ROLLOUT}.engine_kwargs.vllm.async_scheduling": False,
        f"{ROLLOUT}.engine_kwargs.vllm.kv_cache_dtype": "fp8",
        f"{ROLLOUT}.temperature": 0.9,
        f"{ROLLOUT}.n": 8,
        f"{ACTOR}.clip_ratio": 0.2,
        f"{ACTOR}.clip_ratio_high": 0.28,
        f"{ACTOR}.ppo_mini_batch_size": 64,
        f"{ACTOR}.fsdp_config.dtype": "bfloat16",
        f"{ACTOR}.optim.lr": 1e-6,
        "data.train_batch_size": 256,
        **TOKEN,
    }
    run = verl(tmp_path, {"actor/ppo_kl": 0.0}, config)
    wanted = {
        "engine.name": "vllm",
        "engine.logprobs_mode": "processed_logprobs",
        "engine.enable_prefix_caching": True,
        "engine.async_scheduling": False,
        "engine.kv_cache_dtype": "fp8",
        "sampling.temperature": 0.9,
        "objective.eps_low": 0.2,
        "objective.eps_high": 0.28,
        "trainer.samples_per_step": 512.0,
        "trainer.minibatches_per_step": 4.0,
        "trainer.dtype": "bfloat16",
        "trainer.learning_rate": 1e-6,
        "correction.kind": "token_tis",
        "correction.cap": 2.0,
    }
    assert {name: run.config[name] for name in wanted} == wanted
    assert run.config_sources["objective.eps_low"] == f"{ACTOR}.clip_ratio"
    assert run.config_sources["engine.kv_cache_dtype"] == f"{ROLLOUT}.engine_kwargs.vllm.kv_cache_dtype"


def test_sglangs_switch_is_the_other_way_round(tmp_path):
    config = {f"{ROLLOUT}.engine_kwargs.sglang.disable_radix_cache": True, f"{ROLLOUT}.enable_prefix_caching": True}
    assert verl(tmp_path, {"actor/ppo_kl": 0.0}, config).config["engine.enable_prefix_caching"] is False


def test_a_malformed_setting_breaks_nothing(tmp_path):
    config = {**TOKEN, f"{CORRECTION}.rollout_is_threshold": "a_b", "framework.version": "main"}
    assert one(tmp_path, ESS, config)[0] == "ess.discrepancy.token"
    for threshold in (0, -1, "nan", "inf", "0_2", "_"):
        old = {**TOKEN, "framework.version": "0.7.1", f"{CORRECTION}.rollout_is_threshold": threshold}
        assert "this log does not say what C is" in one(tmp_path, ESS, old)[1]


def test_actor_is_a_word_of_two_frameworks():
    assert identify_dialect(["actor/pg_clipfrac", "actor/entropy"]).id == "verl"
    assert identify_dialect(["actor/reward_mean", "actor/output_tokens_mean"]).id == "pipelinerl"
    with pytest.raises(UnknownDialectError, match=r"pipelinerl.*verl"):
        identify_dialect(["actor/ppo_kl", "rl/ess"])


def test_no_key_is_given_twice():
    raw = [key.raw for key in DIALECT.keys]
    assert len(raw) == len(set(raw))


def test_a_power_that_overflows_is_infinite_and_the_other_steps_keep_their_values(tmp_path):
    lines = [{"rollout_corr/chi2_token": 1.0, "rollout_corr/kl": 0.0, "rollout_corr/k3_kl": k3} for k3 in (0.0, 1e200)]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps({"step": step, **line}) + "\n" for step, line in enumerate(lines)))
    (run,) = load(tmp_path / "log.jsonl", dialect="verl")
    assert values(run, "ess.discrepancy.token") == [0.5, math.inf]
