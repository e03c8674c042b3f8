"""A cache of prompts that outlives the weights: found by its growth over updates, told from lag and from keys kept on purpose."""

from __future__ import annotations

import numpy as np
import pytest

from monitor.diagnosis.outcome import Certainty, Finding, Passed, Severity, Skipped
from monitor.diagnosis.rules.inference_path_stale_prefix_cache import RULE
from tests.diagnosis_cases import case
from tests.engine_states import cached, half_cached, never_sent, trained, without

LEVEL = "log_ratio.discrepancy.abs_mean"


def _ask(**more):
    return RULE.check(case(**more))


def test_fires_where_prompts_come_again():
    found = _ask(tokens=trained(cached))
    assert isinstance(found, Finding)
    assert (found.severity, found.certainty) == (Severity.WARNING, Certainty.MEASURED)
    assert found.since == 5  # 32 prompts, 8 a step: they come again from the fifth on
    levels = found.evidence[0].curve.y
    assert max(levels[:4]) < 0.01 < 10 * levels[0] < min(levels[4:])
    assert found.fixes[0].change != found.fixes[1].change


@pytest.mark.parametrize("reset", [4, 8])
def test_a_cache_that_is_emptied_now_and_then_is_stale_in_between(reset):
    assert isinstance(_ask(tokens=trained(cached, prompts=16, reset=reset)), Finding)


def test_a_cache_that_is_emptied_at_every_update_is_none():
    assert isinstance(_ask(tokens=trained(cached, reset=1)), Passed)


def test_keys_and_values_kept_for_running_requests_are_no_fault():
    columns = trained(kept_noise=0.15)
    gap = np.abs(columns["same_weights_logprob"] - columns["rollout_logprob"])
    behind = columns["rollout_version"] > columns["rollout_version"].min() + columns["step"] - 1
    assert gap[behind].mean() > 5 * gap[~behind].mean()
    assert isinstance(_ask(tokens=columns), Passed)


def test_lag_is_no_fault_of_the_cache():
    assert isinstance(_ask(tokens=trained(behind=6)), Passed)


def test_seen_under_raw_logprobs_once_the_temperature_is_taken_out():
    assert isinstance(_ask(tokens=trained(raw=True, temperature=0.8)), Passed)
    found = _ask(tokens=trained(cached, raw=True, temperature=0.8))
    assert isinstance(found, Finding)
    assert "temperature" in found.what
    blind = _ask(tokens=without(trained(cached, raw=True, temperature=0.8), "group_id"))
    assert isinstance(blind, Skipped)
    assert "group_id" in blind.record


def test_some_prompts_and_not_others_tell_it_from_missing_weights():
    found = _ask(tokens=trained(half_cached))
    assert isinstance(found, Finding)
    assert found.evidence[-1].value > 0.2
    assert isinstance(_ask(tokens=trained(never_sent)), Passed)
    told = _ask(tokens=without(trained(never_sent), "group_id"))
    assert any("not told apart" in each for each in told.apart_from)


def test_what_grows_only_because_the_policy_got_less_sure_is_none():
    columns = trained(noise=0.03, sharpened=lambda version: 3.0 if version < 4 else 0.7)
    gap = np.abs(columns["same_weights_logprob"] - columns["rollout_logprob"])
    early = columns["step"] <= 4
    assert gap[~early].mean() > 2.2 * gap[early].mean()
    told = _ask(tokens=columns)
    assert isinstance(told, Passed)
    assert "same kind" in told.says


def test_weights_that_never_moved_make_no_cache_stale():
    columns = trained(drift=0, noise_of=lambda version: 0.012 * (1 + version))
    told = _ask(tokens=columns, config={"trainer.learning_rate": 0.0})
    assert isinstance(told, Passed)
    assert "never moved" in told.says


def test_one_version_says_nothing():
    told = _ask(tokens=trained(steps=1))
    assert isinstance(told, Skipped)
    assert told.record == ("rollout_version",)


def test_the_total_alone_says_nothing():
    told = _ask(tokens=without(trained(cached, behind=3), "same_weights_logprob"))
    assert isinstance(told, Skipped)
    assert told.record == ("same_weights_logprob",)
    assert RULE.missing(case(scalars={"log_ratio.total.abs_mean": np.linspace(0.01, 0.1, 30)})) == ("tokens",)


def test_steps_stand_for_versions_where_these_are_missing():
    found = _ask(tokens=without(trained(cached), "rollout_version", "trainer_version"))
    assert isinstance(found, Finding)
    assert found.evidence[0].curve.x_title == "step"


def test_a_step_log_that_drifts_is_indicated():
    rng = np.random.default_rng(0)
    drift = np.linspace(0.011, 0.036, 30) * (1 + 0.05 * rng.normal(size=30))
    found = _ask(scalars={LEVEL: drift, "response_length.mean": np.linspace(100, 300, 30)})
    assert found.certainty is Certainty.INDICATED
    assert any("longer" in each or "long as at first" in each for each in found.apart_from)
    assert isinstance(_ask(scalars={LEVEL: 0.011 * (1 + 0.05 * rng.normal(size=30))}), Passed)
    assert isinstance(_ask(scalars={LEVEL: drift, "entropy.mean": np.linspace(0.3, 0.9, 30)}), Passed)
    assert isinstance(_ask(scalars={LEVEL: drift}, config={"engine.enable_prefix_caching": False}), Passed)


def test_a_gap_that_no_clip_sees_belongs_to_the_objective():
    idle = {"clip_rate.update.outside": [0.0] * 33, "ratio.update.mean": [1.0] * 33}
    grown = {LEVEL: np.geomspace(1e-6, 1e-2, 33)}
    assert isinstance(_ask(scalars=grown), Finding)
    assert isinstance(_ask(scalars=grown | idle), Passed)
