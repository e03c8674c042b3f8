"""A trainer that forgets the temperature: found by slope, sign and share at the first steps, told from all with the same mean ratio."""

import functools

import numpy as np
import pytest

from monitor.diagnosis.outcome import Finding, Passed, Severity, Skipped
from monitor.diagnosis.rules.semantics_trainer_forgets_temperature import RULE
from tests.diagnosis_cases import case, sampled

_IDS = ("group_id", "token_id")


@functools.cache
def forgets(temperature, trainer_temperature=1.0, noise=0.03):
    return sampled(1, steps=3, temperature=temperature, trainer_temperature=trainer_temperature, noise=noise)


def without(columns, *names):
    return {name: values for name, values in columns.items() if name not in names}


def value(found, metric):
    return next(one.value for one in found.evidence if one.metric == metric)


@pytest.mark.parametrize("temperature", [0.7, 1.3])
def test_the_slope_is_the_temperature_on_both_sides_of_1(temperature):
    found = RULE.check(case(tokens=forgets(temperature), config={"sampling.temperature": temperature}))
    assert isinstance(found, Finding)
    assert found.severity is Severity.CRITICAL
    assert value(found, "portrait.slope") == pytest.approx(temperature, rel=0.01)
    assert value(found, "log_ratio.discrepancy.mean") < 0, "the mean gap is negative for any temperature"
    assert value(found, "ratio.discrepancy.mean") == pytest.approx(1, abs=0.05)
    assert "leaves out the sampling temperature that is set" in found.what


def test_a_trainer_that_divides_by_another_temperature_is_named_with_it():
    """Field report A3: the trainer divides by 0.7 whatever is set."""
    found = RULE.check(case(tokens=forgets(1.0, 0.7), config={"sampling.temperature": 1.0}))
    assert "divides by 0.7" in found.what
    assert "where 1 is set" in found.what


def test_raw_log_probabilities_of_the_engine_pass():
    columns = sampled(2, steps=3, temperature=0.7, engine_reports_raw=True)
    assert isinstance(RULE.check(case(tokens=columns)), Passed)


def test_raw_log_probabilities_pass_where_tokens_are_too_few_for_the_mean_ratio():
    """A slope shows in a hundred tokens, the mean ratio in thousands: the sign of the mean gap decides between the sides."""
    columns = {name: values[:144] for name, values in sampled(3, steps=1, temperature=0.7, engine_reports_raw=True).items()}
    assert (columns["same_weights_logprob"] - columns["rollout_logprob"]).mean() > 0
    assert isinstance(RULE.check(case(tokens=columns)), Passed)


def test_a_mean_ratio_above_1_is_no_forgotten_temperature():
    columns = forgets(0.7)
    raised = columns["same_weights_logprob"] + 0.06
    assert (raised - columns["rollout_logprob"]).mean() < 0
    assert isinstance(RULE.check(case(tokens=columns | {"same_weights_logprob": raised})), Passed)


@pytest.mark.parametrize("noise", [0.005, 0.08])
def test_noise_passes(noise):
    assert isinstance(RULE.check(case(tokens=forgets(0.8, 0.8, noise))), Passed)


def test_truncated_sampling_passes():
    assert isinstance(RULE.check(case(tokens=sampled(3, steps=3, top_p=0.8))), Passed)


def test_weights_that_went_stale_pass_whatever_their_slope():
    """The trainer grows sharper than the engine after the first step, with the same sign and mean ratio as the fault."""
    early, late = (sampled(4, steps=10, temperature=0.8, trainer_temperature=own, noise=0.03) for own in (0.8, 0.6))
    mixed = {name: np.where(early["step"] == 1, early[name], late[name]) for name in early}
    assert np.array_equal(early["token_id"], late["token_id"])
    assert isinstance(RULE.check(case(tokens=mixed)), Passed)
    assert isinstance(RULE.check(case(tokens=late)), Finding), "the same slope from the first step on is the fault"


def test_a_slope_that_explains_half_of_the_gap_passes():
    """As a trainer that begins the prompt differently: another policy, flatter than the engine's by chance."""
    columns = forgets(0.7)
    noise = np.random.default_rng(0).normal(-(0.45**2) / 2, 0.45, len(columns["step"]))
    found = RULE.check(case(tokens=columns | {"same_weights_logprob": columns["same_weights_logprob"] + noise}))
    assert isinstance(found, Passed)


def test_unrelated_tokens_have_no_temperature():
    """A trainer whose log-probabilities do not depend on the token: slope 0 explains all of the gap."""
    columns = forgets(0.8, 0.8)
    found = RULE.check(case(tokens=columns | {"same_weights_logprob": np.full(len(columns["step"]), -3.0)}))
    assert isinstance(found, Passed)


def test_without_ids_the_setting_must_agree():
    columns = without(forgets(0.7), *_IDS)
    found = RULE.check(case(tokens=columns, config={"sampling.temperature": 0.7}))
    assert isinstance(found, Finding)
    assert found.severity is Severity.WARNING
    for config in ({}, {"sampling.temperature": 1.0}, {"sampling.temperature": 1.3}):
        skipped = RULE.check(case(tokens=columns, config=config))
        assert isinstance(skipped, Skipped), config
        assert skipped.record[:2] == _IDS


def test_without_ids_a_slope_that_explains_little_passes():
    columns = without(forgets(0.8, 0.8), *_IDS)
    x = -0.15 * columns["rollout_logprob"] + np.random.default_rng(0).normal(0, 0.5, len(columns["step"]))
    x -= np.log(np.exp(x).mean())
    found = RULE.check(
        case(tokens=columns | {"same_weights_logprob": columns["rollout_logprob"] + x}, config={"sampling.temperature": 0.8})
    )
    assert isinstance(found, Passed)


def test_text_that_was_not_sampled_needs_the_setting():
    columns = forgets(0.7)
    found = RULE.check(case(tokens=columns, config={"tokens.sampled": False, "sampling.temperature": 0.7}))
    assert isinstance(found, Finding)
    assert any("no sign" in sentence for sentence in found.apart_from)
    assert isinstance(RULE.check(case(tokens=columns, config={"tokens.sampled": False})), Passed)


def test_a_step_log_cannot_tell():
    logged = {"log_ratio.discrepancy.abs_mean": [0.1] * 5}
    found = RULE.check(case(scalars=logged, config={"sampling.temperature": 0.7}))
    assert isinstance(found, Skipped)
    assert set(_IDS) <= set(found.record)
    assert isinstance(RULE.check(case(scalars=logged, config={"sampling.temperature": 1.0})), Passed)


def test_too_few_tokens_name_the_columns():
    columns = {name: values[:30] for name, values in without(forgets(0.7), *_IDS).items()}
    found = RULE.check(case(tokens=columns))
    assert isinstance(found, Skipped)
    assert found.record == _IDS


def test_the_text_has_its_five_parts():
    assert set(RULE.text) == {"looks like", "why", "next", "neighbours", "source"}
