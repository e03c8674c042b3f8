"""Weights that do not arrive: the gap leaves its floor at the first update, for all prompts alike, while what the engine samples stays."""

from __future__ import annotations

import numpy as np

from monitor.diagnosis.outcome import Certainty, Finding, Passed, Severity, Skipped
from monitor.diagnosis.rules.inference_path_weights_not_synced import RULE
from tests.diagnosis_cases import case
from tests.engine_states import cached, half_cached, never_sent, trained, without

LEVEL = "log_ratio.discrepancy.abs_mean"


def _ask(**more):
    return RULE.check(case(**more))


def test_fires_where_nothing_arrives():
    found = _ask(tokens=trained(never_sent))
    assert isinstance(found, Finding)
    assert (found.severity, found.certainty, found.since) == (Severity.CRITICAL, Certainty.MEASURED, 2)
    levels = found.evidence[0].curve.y
    assert levels[0] < levels[1] / 5 < levels[-1] / 10
    assert any(one.metric == "portrait.prompt_spread" and one.value < 0.2 for one in found.evidence)


def test_all_of_the_weights_or_a_part_of_them_by_what_is_sampled():
    grown = {LEVEL: [0.010, 0.018, *np.linspace(0.2, 0.8, 18)]}
    found = _ask(scalars=grown | {"reward.mean": [0.3, 0.2] * 10, "logprob.rollout.mean": [-1.0, -1.1] * 10})
    assert "nothing that was pushed" in found.what
    rising = {"reward.mean": np.linspace(0.2, 0.9, 20), "logprob.rollout.mean": np.linspace(-1.2, -0.4, 20)}
    found = _ask(scalars=grown | rising)
    assert "part of the weights" in found.what
    assert {one.metric for one in found.evidence} == {LEVEL}


def test_a_cache_is_another_fault():
    assert isinstance(_ask(tokens=trained(cached)), Passed)
    assert isinstance(_ask(tokens=trained(half_cached)), Passed)


def test_without_a_prefix_cache_it_is_the_weights_whatever_the_prompts():
    found = _ask(tokens=trained(half_cached), config={"engine.enable_prefix_caching": False})
    assert isinstance(found, Finding)
    assert "prefix caching is off" in found.apart_from[0]


def test_an_engine_that_is_sent_the_weights_late_and_says_so_is_none():
    assert isinstance(_ask(tokens=trained(behind=6)), Passed)


def test_a_few_bad_prompts_now_and_then_are_none():
    """Prompts that an engine of coarse keys and values gets wrong, whatever the weights: by chance none is in the first step."""
    columns = trained(prompts=160, steps=20, samples=8)
    bad = np.isin(columns["group_id"], [60, 61, 100, 101])
    rng = np.random.default_rng(0)
    columns["rollout_logprob"] = columns["rollout_logprob"] + bad * rng.normal(0, 0.15, len(bad))
    told = _ask(tokens=columns, config={"engine.enable_prefix_caching": False})
    assert isinstance(told, Passed)
    assert told.evidence[0].value > 2 * 0.007


def test_the_total_alone_says_nothing():
    told = _ask(tokens=without(trained(never_sent, behind=3), "same_weights_logprob"))
    assert isinstance(told, Skipped)
    assert told.record == ("same_weights_logprob",)


def test_a27_the_engine_wakes_on_the_base_model():
    found = _ask(scalars={LEVEL: [0.010, 0.018, 0.201]})
    assert (found.certainty, found.since) == (Certainty.INDICATED, 3)
    assert isinstance(_ask(scalars={LEVEL: [0.010, 0.018, 0.015]}), Passed)
    assert isinstance(_ask(scalars={LEVEL: [0.06, 3.83]}), Passed)


def test_a_jump_that_goes_on_is_no_damage():
    grown = [0.01] * 3 + list(np.linspace(0.15, 1.2, 20))
    assert isinstance(_ask(scalars={LEVEL: grown}), Finding)
    assert isinstance(_ask(scalars={LEVEL: [0.01] * 3 + [0.4] * 20}), Passed)
