"""Are rare giants found in tokens and in step logs, and heavy tails of healthy runs left alone?"""

import numpy as np
import pytest

from monitor.diagnosis.outcome import Certainty, Finding, Passed, Severity, Skipped
from monitor.diagnosis.rules.numerics_rare_spikes import RULE
from tests.diagnosis_cases import case
from tests.numerics_tokens import moved, responses, without

FACTOR, LARGEST = "log_ratio.discrepancy.exp_abs_mean", "log_ratio.discrepancy.abs_max"


def check(tokens):
    return RULE.check(case(tokens=tokens))


def giants(rows, size=9.0, **more):
    columns = responses(**more)
    return moved(columns, rows, -size)


def logged(metric, values, **more):
    return RULE.check(case(scalars={metric: values} | more))


def test_a_few_giants():
    found = check(giants([100, 2000, 5000]))
    assert (found.severity, found.certainty) == (Severity.WARNING, Certainty.MEASURED)
    assert "3 of 7680 tokens" in found.what


@pytest.mark.parametrize("size", [1.0, 3.0])
def test_healthy_tails_are_no_giants(size):
    """Runs of the lab with a kurtosis of 2,900 have a few tokens of 1 to 3 nats."""
    assert isinstance(check(giants([100, 2000, 5000], size)), Passed)


def test_giants_of_one_or_two_responses_are_an_accident():
    assert isinstance(check(giants([100, 101, 102, 103])), Passed)
    assert isinstance(check(giants([100, 2000])), Passed)


def test_last_tokens_are_a_boundary():
    found = check(giants(np.arange(19, 7680, 200), sd=0.005))
    assert "boundary" in found.says


def test_giants_that_come_late_are_not_of_kernels():
    late = giants(np.arange(5000, 7600, 31), sd=0.002)
    assert "first third" in check(late).says
    assert "first third" in check(moved(late, [100], 9.0)).says


def test_giants_over_a_coarse_floor():
    """The floor decides: the same giants over a noise of 0.2 nats belong to a coarse body."""
    assert isinstance(check(giants([100, 2000, 5000], sd=0.2)), Passed)


def test_giants_everywhere_are_not_rare():
    columns = responses(sd=0.002)
    rows = np.flatnonzero(np.isin(columns["position"], (1, 7)))
    assert isinstance(check(moved(columns, rows, 6.0)), Passed)


def test_broad_noise_has_giants_too():
    """int4: the others are no better than such a tail allows."""
    columns = responses(sd=0.0, steps=40)
    unsure = np.flatnonzero(columns["rollout_logprob"] < 0)
    found = check(moved(columns, unsure, 0.05 * np.random.default_rng(0).standard_t(2, size=len(unsure))))
    assert "such a tail" in found.says


def test_moderate_errors_at_certain_places():
    """An accumulator that overflows for inputs of a kind: 1 nat, always at the second token."""
    columns = responses(sd=0.01)
    rows = np.flatnonzero(columns["position"] == 1)[::5]
    assert isinstance(check(moved(columns, rows, 1.0)), Finding)


def test_moderate_errors_of_certain_prompts():
    columns = responses(sd=0.002)
    rows = np.flatnonzero((columns["group_id"] % 6 == 0) & (np.random.default_rng(0).random(7680) < 0.15))
    assert isinstance(check(moved(columns, rows, 1.0)), Finding)


def test_moderate_errors_spread_evenly_are_flips():
    columns = responses(sd=0.01)
    assert isinstance(check(moved(columns, np.arange(3, 7680, 97), 1.0)), Passed)


def test_a_few_moderate_errors_are_no_pattern():
    columns = responses(sd=0.01, steps=1)
    assert isinstance(check(moved(columns, [1, 201, 401, 601, 801], 1.0)), Passed)


def spiky(share, floor, largest, steps=100):
    """Values at the floor, a share of which are spikes up to the largest, in no order."""
    rng = np.random.default_rng(0)
    values = floor + 0.001 * rng.random(steps)
    rows = rng.choice(steps, round(share * steps), replace=False)
    values[rows] = np.exp(rng.uniform(np.log(1.2), np.log(largest), len(rows)))
    values[rows[0]] = largest
    return values


@pytest.mark.parametrize(("share", "floor", "largest"), [(0.064, 1.0116, 709), (0.246, 1.0116, 1.36e6), (0.06, 1.01, 6.55e9)])
def test_field_report_a45(share, floor, largest):
    found = logged(FACTOR, spiky(share, floor, largest))
    assert (found.severity, found.certainty) == (Severity.WARNING, Certainty.INDICATED)
    assert f"{largest:.3g}" in found.what


@pytest.mark.parametrize(
    "values", [np.full(20, 38565.0), np.r_[np.full(10, 1.01), np.full(10, 40.0)], 1.0121 + 0.002 * np.sin(np.arange(20))]
)
def test_levels_are_no_spikes(values):
    assert isinstance(logged(FACTOR, values), Passed)


def test_a_spike_is_large_against_the_usual_step():
    """1.5 over 1.01 is one; 1.12 over 1.03 is not."""
    assert isinstance(logged(FACTOR, np.r_[np.full(20, 1.01), 1.5, np.full(20, 1.01)]), Finding)
    assert isinstance(logged(FACTOR, np.r_[np.full(20, 1.03), 1.12, np.full(20, 1.03)]), Passed)


def test_the_largest_token_of_a_step():
    values = np.r_[np.full(20, 0.5), 8.0, np.full(20, 0.5), 12.0]
    level = np.full(42, 0.012)
    found = logged(LARGEST, values, **{"log_ratio.discrepancy.abs_mean": level})
    assert isinstance(found, Finding)
    assert isinstance(logged(LARGEST, values.clip(max=0.656), **{"log_ratio.discrepancy.abs_mean": level}), Passed)
    assert isinstance(logged(LARGEST, values, **{"log_ratio.discrepancy.abs_mean": 20 * level}), Passed)


def test_few_steps_cannot_tell():
    found = logged(FACTOR, [1.01, 700.0])
    assert isinstance(found, Skipped)
    assert FACTOR in found.record


def test_a_total_cannot_tell():
    tokens = without(giants([100, 2000, 5000]), "rollout_version", "trainer_version")
    tokens["current_logprob"] = tokens.pop("same_weights_logprob")
    assert isinstance(check(tokens), Skipped)
