"""What first users met: faults that looked like other faults, and sentences that claimed more than the log shows."""

from __future__ import annotations

import numpy as np
import pytest

from monitor.diagnosis.diagnose import State, diagnose
from monitor.diagnosis.outcome import Layer, Severity
from tests.diagnosis_cases import case, sampled


def _told(**parts):
    return diagnose(case(**parts))


def _of(told, rule_id):
    return next(one.outcome for one in told.answers if one.rule.id == rule_id)


def test_a_size_alone_is_not_called_numerics_where_semantics_cannot_be_looked_at():
    noise = 1 + 0.02 * np.random.default_rng(0).normal(size=20)
    scalars = {"log_ratio.discrepancy.abs_mean": 0.3 * noise, "log_ratio.discrepancy.exp_abs_mean": 1 + 0.35 * noise}
    told = _told(scalars=scalars)
    assert told.layer is None
    assert told.state(Layer.NUMERICS) is State.UNKNOWN
    assert "this log cannot tell data, semantics" in told.verdict
    assert "record" in told.verdict
    assert _of(told, "numerics_low_precision_body").severity is Severity.NOTE
    named = _told(scalars=scalars, config={"engine.quantization": "fp8"})
    assert named.layer is Layer.NUMERICS


def test_a_size_alone_is_numerics_where_every_earlier_layer_is_clear():
    told = _told(tokens=sampled(noise=0.35, spread=2.0, steps=6), config={"sampling.temperature": 1.0})
    assert told.layer is Layer.NUMERICS


@pytest.mark.parametrize(("ratio", "rule_id"), [(1.12, "semantics_raw_logprobs"), (0.905, "semantics_truncated_sampling"), (1.0, None)])
def test_k1_and_k3_together_are_a_mean_ratio(ratio, rule_id):
    """verl logs both: 1 + k3 - k1 = mean(w)."""
    rng = np.random.default_rng(1)
    k1 = -0.08 + 0.002 * rng.normal(size=20) if ratio > 1 else 0.1 + 0.002 * rng.normal(size=20)
    k3 = ratio - 1 + k1 + 0.001 * rng.normal(size=20)
    k1, k3 = (np.full(20, 0.002),) * 2 if ratio == 1 else (k1, np.abs(k3))
    told = _told(scalars={"kl.discrepancy.k1": k1, "kl.discrepancy.k3": k3})
    assert ([one.rule.id for one in told.answers if one.at_fault] or [None])[0] == rule_id


def test_a_mean_ratio_that_no_temperature_makes_is_not_called_one():
    noise = np.random.default_rng(2).normal(size=20)
    told = _told(scalars={"ratio.total.mean": 95 + 9 * noise, "log_ratio.total.abs_mean": 2.2 + 0.01 * noise})
    assert not [one for one in told.answers if one.at_fault and one.rule.layer is Layer.SEMANTICS]
    assert "tokens themselves may be wrong" in _of(told, "semantics_raw_logprobs").why


def test_top_p_of_broad_distributions_is_no_constant_offset():
    rng = np.random.default_rng(3)
    n = 4000
    engine = -rng.exponential(2.0, n) - 0.3
    kept = np.log(np.clip(rng.normal(0.905, 0.009, n), 0.9, 1.0))
    columns = {
        "sample_id": np.arange(n) // 20,
        "position": np.arange(n) % 20,
        "rollout_logprob": engine,
        "same_weights_logprob": engine + kept,
    }
    told = _told(tokens=columns)
    assert [one.rule.id for one in told.answers if one.at_fault] == ["semantics_truncated_sampling"]


def test_stale_first_tokens_are_seen_though_the_others_are_fine():
    columns = sampled(steps=12, groups=8, samples=8, length=24, noise=0.005)
    rng = np.random.default_rng(4)
    stale = (columns["position"] < 3) & (columns["step"] > 1)
    sd = stale * 0.04 * columns["step"]
    columns["same_weights_logprob"] = columns["same_weights_logprob"] + sd * rng.normal(size=len(stale)) - sd**2 / 2
    assert _told(tokens=columns).layer is Layer.INFERENCE_PATH


def test_a_mask_that_is_false_everywhere_is_the_fault_itself():
    columns = sampled(steps=3) | {"loss_mask": np.zeros(3 * 8 * 8 * 12, bool)}
    told = _told(tokens=columns)
    assert told.layer is Layer.DATA
    assert "no token counts in any of 3 steps" in told.verdict
    columns["loss_mask"] = columns["step"] != 2
    assert "in 1 of 3 steps" in _of(_told(tokens=columns), "data_metric_out_of_range").what


def test_sides_that_are_equal_to_the_last_bit_are_a_note():
    columns = sampled(steps=2)
    columns["same_weights_logprob"] = columns["rollout_logprob"]
    told = _told(tokens=columns)
    assert told.layer is None
    assert "copy of the other" in _of(told, "data_shifted_logprobs").what


def test_a_step_log_that_rises_names_both_of_its_likely_causes():
    told = _told(scalars={"log_ratio.discrepancy.abs_mean": np.linspace(0.011, 0.036, 30)})
    assert told.layer is Layer.INFERENCE_PATH
    assert "a step log cannot tell which" in told.verdict


def test_impossible_values_are_counted_over_the_run():
    columns = sampled(steps=4, groups=2, samples=2, length=5)
    columns["rollout_logprob"] = -columns["rollout_logprob"]
    what = _of(_told(tokens=columns), "data_metric_out_of_range").what
    assert what.startswith(f"{(columns['rollout_logprob'] > 0).sum()} ")
