"""AReaL: negative KLs, and what old is by the mode of the loss."""

import pytest

from tests.dialect_samples import expected, found, rows_add_up, run_of, said

SAMPLES = expected("areal")


@pytest.mark.parametrize("sample", SAMPLES)
def test_a_sample_says_what_is_expected(sample):
    dialect, values = found("areal", sample)
    assert dialect == "areal"
    assert values == {quantity: pytest.approx(expected) for quantity, expected in SAMPLES[sample].items()}
    assert rows_add_up("areal", sample)


KEYS = {
    "ppo_actor/update/approx_kl/avg": -0.2,
    "ppo_actor/update/importance_weight/avg": 1.1,
    "ppo_actor/update/behave_approx_kl/avg": -0.3,
}


def test_negative_kls_are_turned(tmp_path):
    run = run_of(tmp_path, KEYS, "actor.use_decoupled_loss = true\nrollout.max_head_offpolicyness = 0")
    assert said(run)["kl.lag.k1"][0] == 0.2
    assert said(run)["kl.discrepancy.k1"][0] == 0.3
    assert run.old_is.startswith("the proximal policy")


def test_the_engine_stands_for_old_without_the_decoupled_loss(tmp_path):
    run = run_of(tmp_path, KEYS, "actor.use_decoupled_loss = false")
    assert said(run)["kl.total.k1"][0] == 0.2
    assert said(run)["ratio.total.mean"][0] == 1.1
    assert run.old_is.startswith("what the engine returned")


def test_recomputing_hides_the_engine(tmp_path):
    run = run_of(tmp_path, KEYS, "actor.use_decoupled_loss = false\nactor.recompute_logprob = true\nrollout.max_head_offpolicyness = 4")
    assert "kl.update.k1" in said(run)
    assert "not seen" in run.old_is
    assert run.config["staleness.max_versions"] == 4


def test_kept_tokens_are_a_count_and_the_rest_a_share(tmp_path):
    run = run_of(tmp_path, {"ppo_actor/update/unclipped_behave_tokens": 75, "ppo_actor/n_valid_tokens": 100})
    assert said(run)["rejected.tokens"][0] == 0.25
    assert said(run)["rejected.tokens"][1].startswith("derived")


def test_weights_are_measured_after_clamping(tmp_path):
    assert "kept tokens only" in said(run_of(tmp_path, {"ppo_actor/update/behave_imp_weight/avg": 1.0}))["ratio.discrepancy.mean"][1]


def test_settings(tmp_path):
    config = """actor.eps_clip = 0.2
actor.rejection_sampling.level = "sequence"
actor.rejection_sampling.action = "mask"
actor.rejection_sampling.upper = 2.0
rollout.backend = "sglang:d4"
sglang.disable_radix_cache = true
vllm.no_enable_prefix_caching = false
"""
    run = run_of(tmp_path, KEYS, config)
    assert (run.config["correction.kind"], run.config["correction.cap"]) == ("mis", 2.0)
    assert (run.config["engine.name"], run.config["engine.enable_prefix_caching"]) == ("sglang", False)
    assert run.config_sources["engine.enable_prefix_caching"] == "sglang.disable_radix_cache"
