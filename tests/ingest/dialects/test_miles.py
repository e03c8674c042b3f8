"""What miles logs beside slime's keys, and how the two are told apart."""

import pytest

from ingest.errors import UnknownDialectError
from ingest.identify import identify_dialect
from tests.dialect_logs import assert_as_expected, only, run_of, said, samples

ESS = "train/ess_ratio"
DIFF = "train/train_rollout_logprob_abs_diff"


def miles(tmp_path, line, config=None):
    return run_of(tmp_path, "miles", {"train/pg_clipfrac": 0.0, ESS: 1.0, **line}, config)


@pytest.mark.parametrize("folder", samples("miles"), ids=lambda folder: folder.name)
def test_samples(folder):
    assert_as_expected(folder, "miles")


def test_its_ess_is_of_new_against_old_and_averaged(tmp_path):
    quantity, caveat = only(miles(tmp_path, {}), ESS)
    assert quantity == "ess.update.token"
    assert "over 1 where the samples of a rollout share a denominator" in caveat
    assert "does not see the engine" in caveat


def test_one_update_per_rollout_makes_its_ess_constant(tmp_path):
    assert "constant by construction" in only(miles(tmp_path, {}, {"num_steps_per_rollout": 1}), ESS)[1]
    assert "constant" not in only(miles(tmp_path, {}, {"num_steps_per_rollout": 2}), ESS)[1]


@pytest.mark.parametrize("key", [DIFF, "train/train_rollout_kl"])
def test_a_comparison_of_the_engine_with_itself(tmp_path, key):
    assert "compared with themselves, which gives 0" in only(miles(tmp_path, {key: 0.0}, {"use_rollout_logprobs": True}), key)[1]
    assert "themselves" not in only(miles(tmp_path, {key: 0.1}), key)[1]


def test_the_current_policy_against_rollout_is_the_total_ratio(tmp_path):
    run = miles(tmp_path, {"train/is_weight": 1.01, "train/is_clipfrac": 0.02})
    assert only(run, "train/is_weight")[0] == "ratio.total.mean"
    assert only(run, "train/is_clipfrac")[0] == "clip_rate.total.outside"


def test_a_weight_version_is_no_lag(tmp_path):
    run = miles(tmp_path, {"rollout/weight_version/max": 7})
    assert "not how far behind" in said(run, "rollout/weight_version/max", "unmapped")[0]


def test_the_limit_of_staleness(tmp_path):
    run = miles(tmp_path, {}, {"max_weight_staleness": 4})
    assert (run.config["staleness.max_versions"], run.config_sources["staleness.max_versions"]) == (4.0, "max_weight_staleness")


def test_it_is_miles_only_with_a_key_of_its_own():
    shared = ["train/pg_clipfrac", "train/ppo_kl", DIFF, "rollout/raw_reward"]
    assert identify_dialect(shared).id == "slime"
    for own in (ESS, "train/train_rollout_kl", "rollout/weight_version/mixed_version_ratio"):
        assert identify_dialect([*shared, own]).id == "miles"


def test_a_log_that_fits_both_names_both():
    with pytest.raises(UnknownDialectError, match="fit miles, slime equally well"):
        identify_dialect([DIFF])
    assert identify_dialect([DIFF], {"max_weight_staleness": 4}).id == "miles"
