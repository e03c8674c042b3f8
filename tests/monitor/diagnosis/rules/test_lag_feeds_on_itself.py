"""Lag that feeds on itself: a generator without updates, not a queue that fills, not a level that wobbles."""

from __future__ import annotations

import math

import numpy as np
import pytest

from monitor.diagnosis.outcome import Certainty, Finding, Passed, Severity, Skipped
from monitor.diagnosis.rules.lag_feeds_on_itself import RULE
from tests.diagnosis_cases import case
from tests.lagging import lagging

STEPS = np.arange(24)
RATE = 0.08


def frozen(rate=RATE, steps=STEPS, noise=0.1, start=0.01):
    """The lag's KL of a generator that is never updated."""
    return start * np.exp(rate * steps + noise * np.random.default_rng(0).normal(size=len(steps)))


def test_a_generator_that_is_never_updated():
    kl = frozen()
    found = RULE.check(case(scalars={"kl.lag.k3": kl, "ess.lag.token": np.exp(-2 * kl), "version_lag.mean": STEPS}))
    assert isinstance(found, Finding)
    assert (found.severity, found.certainty) == (Severity.WARNING, Certainty.INDICATED)
    assert "an extrapolation" in found.what


def test_the_projected_step_is_that_of_the_growth():
    steps = np.arange(40)
    kl = frozen(steps=steps[:24], noise=0.02)
    found = RULE.check(case(scalars={"kl.lag.k3": kl, "ess.lag.token": np.exp(-2 * kl), "version_lag.mean": STEPS}))
    truth = math.log(math.log(2) / 2 / 0.01) / RATE + 1  # steps count from 1
    projected = next(one for one in found.evidence if one.metric == "ess.lag.token")
    assert f"step {truth:.0f}" in projected.says or abs(int(projected.says.rsplit(" ", 1)[1]) - truth) <= 2
    assert projected.origin == "estimated"
    fitted = np.array(projected.curve.expected)
    assert fitted[-1] == pytest.approx(0.5, abs=0.01)
    assert np.isnan(projected.curve.y[-1])


def test_a_kl_alone_is_enough():
    found = RULE.check(case(scalars={"kl.lag.k3": frozen()}))
    assert isinstance(found, Finding)
    assert "ess.lag.token falls under 1/2 at about step" in found.what
    assert any("cannot be ruled out" in one for one in found.apart_from)


def test_an_ess_that_has_crossed_is_not_projected():
    kl = frozen(start=0.1)
    found = RULE.check(case(scalars={"kl.lag.k3": kl, "ess.lag.token": np.exp(-2 * kl)}))
    assert "is under 1/2 since about step" in found.what


@pytest.mark.parametrize("queue", [4, 8, 11])
def test_a_queue_that_fills_is_bounded(queue):
    age = np.minimum(STEPS, queue)
    kl = 0.005 * age * np.exp(0.1 * np.random.default_rng(1).normal(size=len(age)))
    for scalars in ({"kl.lag.k3": kl, "version_lag.mean": age}, {"kl.lag.k3": kl}):
        assert isinstance(RULE.check(case(scalars=scalars)), Passed)


def test_a_level_that_wobbles_does_not_grow():
    kl = 0.02 * np.exp(0.5 * np.random.default_rng(2).normal(size=60))
    assert isinstance(RULE.check(case(scalars={"kl.lag.k3": kl})), Passed)


def test_eight_rising_steps_are_too_few():
    assert isinstance(RULE.check(case(scalars={"kl.lag.k3": frozen(rate=0.3, steps=STEPS[:8], noise=0.0)})), Passed)


def test_a_lag_that_shrinks_does_not_grow():
    assert isinstance(RULE.check(case(scalars={"kl.lag.k3": frozen(rate=-RATE)})), Passed)


def test_growth_at_a_bounded_version_lag_is_no_matter_of_the_generator():
    found = RULE.check(case(scalars={"kl.lag.k3": frozen(), "version_lag.mean": np.ones(24)}))
    assert isinstance(found, Passed)
    assert "bounded" in found.says


def test_a_generator_that_falls_behind_without_lag_is_a_note():
    kl = 0.03 * np.exp(0.1 * np.random.default_rng(3).normal(size=24))
    found = RULE.check(case(scalars={"kl.lag.k3": kl, "version_lag.max": STEPS}))
    assert found.severity is Severity.NOTE


def test_where_the_loss_never_sees_it_the_objective_has_the_word():
    idle = {"clip_rate.update.outside": [0.0] * 24, "ratio.update.mean": [1.0] * 24}
    assert RULE.check(case(scalars={"kl.lag.k3": frozen()} | idle)).severity is Severity.NOTE


def test_tokens_are_measured():
    found = RULE.check(case(tokens=lagging(range(16), drift=0.12)))
    assert isinstance(found, Finding)
    assert found.certainty is Certainty.MEASURED


def test_a_log_without_the_split_is_told_what_to_record():
    own = case(scalars={"kl.total.k3": frozen()})
    assert RULE.missing(own) == ("token:same_weights_logprob",)
    found = RULE.check(own)
    assert isinstance(found, Skipped)
    assert found.record == ("same_weights_logprob",)
