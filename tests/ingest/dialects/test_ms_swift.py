"""ms-swift: TRL's names with keys of its own, and an ESS with a floor."""

import pytest

from ingest.errors import UnknownDialectError
from tests.dialect_samples import expected, found, rows_add_up, run_of, said

SAMPLES = expected("ms_swift")


@pytest.mark.parametrize("sample", SAMPLES)
def test_a_sample_says_what_is_expected(sample):
    dialect, values = found("ms_swift", sample)
    assert dialect == "ms_swift"
    assert values == {quantity: pytest.approx(expected) for quantity, expected in SAMPLES[sample].items()}
    assert rows_add_up("ms_swift", sample)


ESS = "rollout_correction/ess"


def test_what_both_frameworks_write_is_ambiguous():
    with pytest.raises(UnknownDialectError, match="ms_swift, trl equally well"):
        found("ms_swift", "shared_with_trl.jsonl")


def test_the_settings_tell_the_two_apart(tmp_path):
    keys = {"train/clip_ratio/region_mean": 0.1, "train/reward": 0.5}
    assert run_of(tmp_path, keys, "rollout_importance_sampling_threshold = 2.0").dialect == "ms_swift"
    assert run_of(tmp_path, keys, "vllm_importance_sampling_clip_max = 3.0").dialect == "trl"


def test_the_ess_has_a_floor(tmp_path):
    _, caveat = said(run_of(tmp_path, {ESS: 0.7}))["ess.discrepancy.token"]
    assert "cannot fall under 0.64" in caveat
    assert "threshold 2 assumed" in caveat
    _, caveat = said(run_of(tmp_path, {ESS: 0.7}, "rollout_importance_sampling_threshold = 4.0"))["ess.discrepancy.token"]
    assert f"cannot fall under {4 / 4.25**2:g}" in caveat
    assert "assumed" not in caveat


def test_chi2_gives_an_ess_where_none_is_logged(tmp_path):
    chi2 = {"rollout_correction/chi2_token": 0.25}
    value, caveat = said(run_of(tmp_path, chi2))["ess.discrepancy.token"]
    assert value == 0.8
    assert caveat.startswith("derived")
    value, caveat = said(run_of(tmp_path, {**chi2, ESS: 0.9}))["ess.discrepancy.token"]
    assert value == 0.9
    assert not caveat.startswith("derived")


def test_the_direction_of_the_kl_is_the_codes(tmp_path):
    run = run_of(tmp_path, {"rollout_correction/kl": -0.1, "rollout_correction/log_ppl_diff": 0.3})
    assert said(run)["kl.discrepancy.k1"][0] == -0.1
    assert said(run)["log_ratio.discrepancy.mean"][0] == -0.3


def test_a_kl_in_the_reward_is_a_sum(tmp_path):
    run = run_of(tmp_path, {ESS: 1.0, "kl": -4.0}, "kl_in_reward = true")
    value, caveat = said(run)["kl_ref.sequence_k1"]
    assert value == -4.0
    assert "a sum, not a mean per token" in caveat


@pytest.mark.parametrize(
    ("mode", "quantity"),
    [("token_truncate", "clip_rate.discrepancy.high"), ("token_mask", "rejected.tokens"), ("sequence_mask", "rejected.sequences")],
)
def test_the_mode_decides_what_was_cut(tmp_path, mode, quantity):
    run = run_of(tmp_path, {"rollout_correction/clipped_frac": 0.1}, f'rollout_importance_sampling_mode = "{mode}"')
    assert said(run)[quantity][0] == 0.1


def test_generating_ahead_makes_the_discrepancy_an_upper_bound(tmp_path):
    keys = {"rollout_correction/k3_kl": 0.1, "clip_ratio/region_mean": 0.2}
    run = run_of(tmp_path, keys, "async_generate = true")
    assert "upper bound" in said(run)["kl.discrepancy.k3"][1]
    assert "clip_rate.update.effective" in said(run)
    assert "newer" in run.old_is
    assert "clip_rate.lag.effective" in said(run_of(tmp_path, keys))
