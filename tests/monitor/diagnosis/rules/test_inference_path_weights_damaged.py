"""Weights that are wrong after the first push: the gap jumps at once, and stays."""

from __future__ import annotations

import numpy as np
import pytest

from monitor.diagnosis.outcome import Certainty, Finding, Passed, Severity, Skipped
from monitor.diagnosis.rules.inference_path_weights_damaged import RULE
from tests.diagnosis_cases import case
from tests.engine_states import VOCABULARY, cached, never_sent, trained, without

LEVEL = "log_ratio.discrepancy.abs_mean"


def _ask(**more):
    return RULE.check(case(**more))


def _permuted(rows):
    return lambda z: np.where(np.arange(VOCABULARY) < rows, np.roll(z, 1, -1), z)


@pytest.mark.parametrize("rows", [1, 3, VOCABULARY])
def test_fires_where_rows_are_in_another_order_from_the_first_push_on(rows):
    found = _ask(tokens=trained(distort=_permuted(rows)))
    assert isinstance(found, Finding)
    assert (found.severity, found.certainty, found.since) == (Severity.CRITICAL, Certainty.MEASURED, 2)
    levels = found.evidence[0].curve.y
    assert levels[0] < 0.01
    assert levels[1] > 0.1


def test_seen_by_step_too():
    columns = without(trained(distort=_permuted(VOCABULARY)), "rollout_version", "trainer_version")
    assert _ask(tokens=columns).since == 2


def test_a_step_that_begins_under_the_first_weights_and_ends_under_the_second():
    columns = without(trained(distort=_permuted(VOCABULARY)), "rollout_version", "trainer_version")
    columns["step"] = (columns["group_id"] + 4) // 8 + 1
    assert _ask(tokens=columns).since == 2


@pytest.mark.parametrize(("holds", "drift"), [(cached, 0.1), (never_sent, 0.1), (never_sent, 0.5)])
def test_what_grows_is_not_damage(holds, drift):
    assert isinstance(_ask(tokens=trained(holds, drift=drift)), Passed)


def test_coarse_from_the_start_is_not_damage():
    assert isinstance(_ask(tokens=trained(noise=0.4)), Passed)


def test_a_jump_under_a_tenth_of_a_nat_may_be_a_format():
    assert isinstance(_ask(tokens=trained(noise_of=lambda version: 0.12 if version else 0.012)), Passed)


def test_one_version_says_nothing():
    told = _ask(tokens=trained(steps=1))
    assert isinstance(told, Skipped)
    assert told.record == ("rollout_version",)


@pytest.mark.parametrize("steps", [2, 3, 12])
def test_r7_broken_after_the_first_sync(steps):
    found = _ask(scalars={LEVEL: [0.06, *[3.83] * (steps - 1)]})
    assert (found.certainty, found.since) == (Certainty.INDICATED, 2)


def test_a_step_log_of_one_spike_or_of_a_rise_is_none():
    assert isinstance(_ask(scalars={LEVEL: [0.06] * 5 + [3.83] + [0.06] * 6}), Passed)
    assert isinstance(_ask(scalars={LEVEL: np.linspace(0.011, 0.036, 30)}), Passed)
