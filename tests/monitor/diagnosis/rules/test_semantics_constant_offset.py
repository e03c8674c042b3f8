"""A constant offset: the same gap on every token, of either sign, and neither truncation, a temperature nor a capped ratio."""

import functools

import numpy as np
import pytest

from monitor.diagnosis.outcome import Certainty, Finding, Passed, Severity, Skipped
from monitor.diagnosis.rules.semantics_constant_offset import RULE
from tests.diagnosis_cases import case, sampled


@functools.cache
def healthy(noise=0.005):
    return sampled(1, steps=2, noise=noise)


def lowered(by, noise=0.005):
    """The engine's log-probabilities too low by a constant."""
    columns = healthy(noise)
    return columns | {"rollout_logprob": columns["rollout_logprob"] - by}


@pytest.mark.parametrize("sign", [1, -1])
def test_a_constant_of_either_sign_is_found(sign):
    found = RULE.check(case(tokens=lowered(sign * 0.1)))
    assert isinstance(found, Finding)
    assert found.certainty is Certainty.MEASURED
    assert found.severity is Severity.CRITICAL
    assert found.evidence[0].value == pytest.approx(sign * 0.1, abs=0.002)


def test_a_constant_that_is_the_logarithm_of_a_number_of_ranks_is_named():
    assert "log 4: as of 4 ranks" in RULE.check(case(tokens=lowered(np.log(4), noise=0.05))).what


def test_the_field_case():
    """Field report A57: 0.005 nats, between 0.0048 and 0.0053, at a clip range of 1e-5."""
    x = np.random.default_rng(0).uniform(4.8e-3, 5.3e-3, 2000)
    engine = -1 - np.random.default_rng(1).exponential(1.0, 2000)
    columns = {"sample_id": np.arange(2000) // 20, "rollout_logprob": engine, "same_weights_logprob": engine + x}
    found = RULE.check(case(tokens=columns, config={"objective.eps_low": 1e-5}))
    assert isinstance(found, Finding)
    assert found.severity is Severity.CRITICAL
    assert "times the clip range" in found.what
    assert RULE.check(case(tokens=columns)).severity is Severity.WARNING, "against a usual clip range it is small"


def test_the_floor_of_the_field_case_passes():
    x = np.random.default_rng(0).normal(2e-6, 2.24e-5, 2000)
    columns = {"sample_id": np.arange(2000) // 20, "rollout_logprob": np.full(2000, -1.0), "same_weights_logprob": -1 + x}
    assert isinstance(RULE.check(case(tokens=columns)), Passed)


def test_a_constant_too_small_to_matter_passes():
    engine = -1 - np.random.default_rng(1).exponential(1.0, 2000)
    columns = {"sample_id": np.arange(2000) // 20, "rollout_logprob": engine, "same_weights_logprob": engine + 1e-4}
    assert isinstance(RULE.check(case(tokens=columns)), Passed)


@pytest.mark.parametrize(
    "columns",
    [
        healthy(),
        sampled(2, steps=2, top_p=0.8, spread=3.5, noise=0.0),
        sampled(2, steps=2, temperature=0.7, engine_reports_raw=True),
        lowered(0.005, noise=0.05),
    ],
    ids=["healthy", "truncated", "raw", "lost in the noise"],
)
def test_neighbours_pass(columns):
    assert isinstance(RULE.check(case(tokens=columns)), Passed)


def test_a_constant_below_0_is_truncation_where_the_settings_cut():
    assert isinstance(RULE.check(case(tokens=lowered(-0.1), config={"sampling.top_p": 0.9})), Passed)
    assert isinstance(RULE.check(case(tokens=lowered(0.1), config={"sampling.top_p": 0.9})), Finding), "truncation cannot raise it"


def test_two_equal_tokens_prove_nothing():
    columns = {"sample_id": [0, 1], "rollout_logprob": [-1.0, -2.0], "same_weights_logprob": [-0.5, -1.5]}
    found = RULE.check(case(tokens=columns))
    assert isinstance(found, Skipped)
    assert found.record == ("more tokens",)


def test_a_step_log_with_extremes_is_enough():
    logged = {"ratio.discrepancy.min": [np.exp(4.8e-3)] * 3, "ratio.discrepancy.max": [np.exp(5.3e-3)] * 3}
    found = RULE.check(case(scalars=logged))
    assert isinstance(found, Finding)
    assert found.certainty is Certainty.INDICATED
    assert found.evidence[0].value == pytest.approx(5.05e-3)
    wide = logged | {"ratio.discrepancy.min": [1.0] * 3}
    assert isinstance(RULE.check(case(scalars=wide)), Passed)


def test_a_step_log_with_second_moments_is_enough():
    n, w = 700.0, np.exp(0.3)
    logged = {"ratio.total.sum": [n * w], "ratio.total.squared_sum": [n * w * w * 1.0001], "tokens.count": [n]}
    found = RULE.check(case(scalars=logged))
    assert isinstance(found, Finding)
    assert found.evidence[0].value == pytest.approx(0.3)
    spread = logged | {"ratio.total.squared_sum": [n * w * w * 1.05]}
    assert isinstance(RULE.check(case(scalars=spread)), Passed)


def test_ratios_on_their_cap_are_no_constant():
    logged = {"ratio.discrepancy.min": [2.0], "ratio.discrepancy.max": [2.0]}
    assert isinstance(RULE.check(case(scalars=logged)), Skipped)


def test_a_log_without_extremes_names_the_columns():
    assert RULE.missing(case(scalars={"ratio.total.mean": [1.0]})) == ("tokens",)


def test_the_text_has_its_five_parts():
    assert set(RULE.text) == {"looks like", "why", "next", "neighbours", "source"}
