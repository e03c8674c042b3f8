"""A gap that grows while the weights stay: something in the engine changes by itself."""

from __future__ import annotations

import numpy as np
import pytest

from monitor.diagnosis.outcome import Certainty, Finding, Passed, Skipped
from monitor.diagnosis.rules.inference_path_grows_at_lr0 import RULE
from tests.diagnosis_cases import case
from tests.engine_states import trained, without

LEVEL = "log_ratio.discrepancy.abs_mean"
DRIFT = np.linspace(0.011, 0.036, 30)


def _ask(**more):
    return RULE.check(case(**more))


def _requantised(version):
    return 0.012 * (1 + 0.5 * version)


@pytest.mark.parametrize(
    "rest",
    [
        {"config": {"trainer.learning_rate": 0.0}},
        {"scalars": {"learning_rate.value": [0.0] * 16}},
        {"scalars": {"grad_norm.global": [0.0] * 16}},
    ],
)
def test_fires_where_the_log_says_that_nothing_is_learned(rest):
    found = _ask(tokens=trained(drift=0, noise_of=_requantised), **rest)
    assert isinstance(found, Finding)
    assert found.certainty is Certainty.MEASURED
    assert "0" in found.what


def test_fires_where_old_tokens_have_no_lag():
    found = _ask(tokens=trained(drift=0, behind=2, noise_of=_requantised))
    assert isinstance(found, Finding)
    assert "lag term of exactly 0" in found.what


def test_a_gap_that_stays_is_none():
    told = _ask(tokens=trained(drift=0), config={"trainer.learning_rate": 0.0})
    assert isinstance(told, Passed)
    assert "do not move" in told.says


def test_growth_with_moving_weights_has_other_causes():
    told = _ask(tokens=trained(noise_of=_requantised))
    assert isinstance(told, Passed)
    assert "the weights move" in told.says
    assert isinstance(_ask(scalars={LEVEL: DRIFT, "learning_rate.value": [1e-6] * 30}), Passed)


def test_a_jump_is_not_growth():
    columns = trained(drift=0, distort=lambda z: np.roll(z, 1, -1))
    assert isinstance(_ask(tokens=columns, config={"trainer.learning_rate": 0.0}), Passed)


def test_a23_a_step_log_at_learning_rate_0():
    longer = {"response_length.mean": np.linspace(100, 250, 30)}
    found = _ask(scalars={LEVEL: DRIFT, "learning_rate.value": [0.0] * 30} | longer)
    assert found.certainty is Certainty.INDICATED
    assert any("2.1 times as long" in each for each in found.apart_from)


def test_the_total_alone_says_nothing():
    told = _ask(tokens=without(trained(behind=3), "same_weights_logprob"), config={"trainer.learning_rate": 0.0})
    assert isinstance(told, Skipped)
    assert told.record == ("same_weights_logprob",)
