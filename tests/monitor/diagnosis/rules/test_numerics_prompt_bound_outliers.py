"""Are responses that are bad because of their prompt told from bad responses at random?"""

import numpy as np
import pytest

from monitor.diagnosis.outcome import Certainty, Finding, Passed, Severity, Skipped
from monitor.diagnosis.rules.numerics_prompt_bound_outliers import RULE
from tests.diagnosis_cases import case
from tests.numerics_tokens import moved, responses, without

FACTOR, SEQUENCE = "log_ratio.discrepancy.exp_abs_mean", "log_ratio.discrepancy.sequence_exp_abs_"


def bad(which, size=1.0, seed=1, **more):
    """The tokens of some responses are off by about `size` nats."""
    columns = responses(**more)
    rows = np.flatnonzero(which(columns))
    return moved(columns, rows, size * np.random.default_rng(seed).normal(size=len(rows)))


def check(tokens):
    return RULE.check(case(tokens=tokens))


def by_prompt(columns):
    return columns["group_id"] % 6 == 0


def test_bad_prompts():
    found = check(bad(by_prompt, 0.2))
    assert (found.severity, found.certainty) == (Severity.WARNING, Certainty.MEASURED)
    assert "keep to 8 of 48 prompts" in found.what


def test_field_case_r10():
    """Field report A46: one batch of 64 responses, 10 of them with a mean exp|gap| of 100 to 670, the batch near 35."""
    tokens = responses(steps=1, groups=32, samples=2, length=50)
    rows = np.flatnonzero(tokens["group_id"] < 5)
    size = np.log(np.linspace(100, 670, 10))[tokens["sample_id"][rows]] - 0.1
    tokens = moved(tokens, rows, -size)
    own = case(tokens=tokens)
    assert own.portrait.whole.multiplicative_error == pytest.approx(60, rel=0.4)
    found = RULE.check(own)
    assert found.severity is Severity.CRITICAL
    assert "10 of 64 responses (16%)" in found.what


def test_the_same_share_at_random_is_not_the_prompt():
    found = check(bad(lambda columns: columns["sample_id"] % 6 == 0))
    assert isinstance(found, Passed)
    assert "not the prompt's doing" in found.says


def test_one_giant_token_makes_no_outlier():
    columns = responses()
    assert isinstance(check(moved(columns, np.flatnonzero((columns["position"] == 3) & by_prompt(columns)), 9.0)), Passed)


def test_prompts_that_turn_bad_are_stale():
    assert isinstance(check(bad(lambda columns: by_prompt(columns) & (columns["step"] > 3))), Passed)


def test_hardly_any_at_first_is_stale_too():
    late = bad(lambda columns: by_prompt(columns) & (columns["step"] > 3))
    early = np.flatnonzero(late["sample_id"] == 20)
    assert "first third" in check(moved(late, early, np.random.default_rng(2).normal(size=20))).says


@pytest.mark.parametrize(
    "which",
    [
        lambda columns: columns["group_id"] == 3,
        lambda columns: (columns["group_id"] < 2) & (columns["sample_id"] % 8 < 2),
        lambda columns: columns["group_id"] % 20 < 9,
    ],
)
def test_one_prompt_few_responses_or_nearly_half(which):
    """One prompt of 48; 4 of 384 responses beside good ones of the same prompts; 45 % of all."""
    assert isinstance(check(bad(which)), Passed)


def test_a_prompt_that_comes_back_bad_is_said():
    tokens = bad(by_prompt)
    tokens["group_id"] = tokens["group_id"] % 24
    assert "came back 100% were bad again" in check(tokens).what


def test_without_prompt_ids_a_stable_share_is_a_note():
    found = check(without(bad(by_prompt), "group_id"))
    assert found.severity is Severity.NOTE


def test_without_prompt_ids_and_steps_it_names_the_column():
    found = check(without(bad(by_prompt, steps=1), "group_id"))
    assert isinstance(found, Skipped)
    assert found.record == ("group_id",)


def logged(mean, low, high, steps=10):
    scalars = {FACTOR: np.full(steps, mean), f"{SEQUENCE}min": np.full(steps, low), f"{SEQUENCE}max": np.full(steps, high)}
    return RULE.check(case(scalars=scalars))


def test_the_spread_over_responses_in_a_step_log():
    found = logged(35.0, 1.01, 670.0)
    assert (found.severity, found.certainty) == (Severity.WARNING, Certainty.INDICATED)
    assert logged(35.0, 1.01, 670.0, steps=2).severity is Severity.NOTE


@pytest.mark.parametrize(("mean", "low", "high"), [(1.01, 1.0, 1.1), (1.3, 1.0, 3.0), (1.5, 1.0, 300.0), (20.0, 5.0, 100.0)])
def test_other_spreads(mean, low, high):
    """Healthy; a third above; one response of hundreds; all of them bad."""
    assert isinstance(logged(mean, low, high), Passed)


def test_some_steps_only_are_spikes():
    steps = np.arange(10)
    values = {FACTOR: 1 + 34.0 * (steps % 3 == 0), f"{SEQUENCE}min": np.full(10, 1.0), f"{SEQUENCE}max": 1.1 + 600.0 * (steps % 3 == 0)}
    assert isinstance(RULE.check(case(scalars=values)), Passed)


def test_a_mean_alone_lacks_the_spread():
    assert RULE.missing(case(scalars={FACTOR: [1.0]})) == ("tokens",)


def test_healthy():
    assert isinstance(check(responses(sd=0.05)), Passed)
    assert not isinstance(check(responses(sd=0.3)), Finding)
