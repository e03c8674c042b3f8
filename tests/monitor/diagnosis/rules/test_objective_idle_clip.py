"""A clip that never acts: a fault where engine and trainer drift apart, and none where each batch is used once."""

from __future__ import annotations

import numpy as np
import pytest

from monitor.diagnosis.outcome import Certainty, Finding, Passed, Severity, Skipped
from monitor.diagnosis.rules.objective_idle_clip import RULE
from tests.diagnosis_cases import case
from tests.lagging import lagging

STEPS = 33
IDLE = {"clip_rate.update.effective": [0.0] * STEPS, "ratio.update.mean": [1.0] * STEPS}
GROWN = np.geomspace(1e-6, 1e-2, STEPS)
FLAT = 0.01 * (1 + 0.1 * np.random.default_rng(0).normal(size=STEPS))


@pytest.mark.parametrize("gap", ["kl.discrepancy.k3", "log_ratio.discrepancy.abs_mean", "log_ratio.total.abs_mean", "kl.discrepancy.k1"])
def test_r13_a_gap_that_grows_ten_thousand_times(gap):
    found = RULE.check(case(scalars=IDLE | {gap: GROWN}))
    assert isinstance(found, Finding)
    assert (found.severity, found.certainty) == (Severity.WARNING, Certainty.INDICATED)
    assert gap in found.what
    assert found.evidence[1].value > 1000


def test_r13_a_flat_gap_is_one_update_per_batch():
    found = RULE.check(case(scalars=IDLE | {"kl.discrepancy.k3": FLAT}))
    assert isinstance(found, Passed)
    assert "one update per batch" in found.says
    assert "correct, not a fault" in found.says


@pytest.mark.parametrize(
    "moving",
    [
        {"clip_rate.update.effective": [*[0.0] * (STEPS - 1), 0.001]},
        {"clip_rate.update.outside": [0.1] * STEPS},  # what is counted by the advantage's sign is not all there is
        {"ratio.update.mean": [*[1.0] * (STEPS - 1), 1.001]},
    ],
)
def test_a_clip_or_a_ratio_that_moves_once_is_not_idle(moving):
    assert isinstance(RULE.check(case(scalars=IDLE | moving | {"kl.discrepancy.k3": GROWN})), Passed)


def test_a_gap_that_doubles_is_no_fault_of_the_clip():
    assert isinstance(RULE.check(case(scalars=IDLE | {"kl.discrepancy.k3": np.linspace(0.01, 0.02, STEPS)})), Passed)


def test_a_gap_that_shrinks_is_flat():
    assert isinstance(RULE.check(case(scalars=IDLE | {"kl.discrepancy.k3": GROWN[::-1]})), Passed)


def test_the_idle_ratio_is_not_its_own_gap():
    idle = {"clip_rate.total.outside": [0.0] * 8, "ratio.total.mean": [1.0] * 8, "kl.total.k3": np.geomspace(1e-12, 1e-7, 8)}  # rounding
    found = RULE.check(case(scalars=idle))
    assert isinstance(found, Skipped)
    assert "log_ratio.discrepancy.abs_mean" in found.record


@pytest.mark.parametrize(("versions", "outcome"), [(1.0, Passed), (4.0, Finding)])
def test_old_samples_are_a_drift_where_nothing_else_shows_it(versions, outcome):
    idle = {"clip_rate.total.outside": [0.0] * 8, "ratio.total.mean": [1.0] * 8}
    assert isinstance(RULE.check(case(scalars=idle | {"version_lag.mean": [versions] * 8})), outcome)


def test_tokens_show_what_the_loss_does_not():
    """What was logged of the loss says that nothing moves; the tokens say that half of the sample is lost."""
    idle = {"clip_rate.total.outside": [0.0] * 4, "ratio.total.mean": [1.0] * 4}
    found = RULE.check(case(tokens=lagging([0, 8, 8, 8], drift=0.4), scalars=idle))
    assert (found.severity, found.certainty) == (Severity.CRITICAL, Certainty.MEASURED)
    assert "ess.lag.token" in found.what
    near = RULE.check(case(tokens=lagging([0, 0, 0, 0], drift=0.4), scalars=idle))
    assert isinstance(near, Passed)


def test_tokens_alone_never_make_a_clip_idle():
    assert isinstance(RULE.check(case(tokens=lagging([0, 0, 0, 0], drift=0.0))), Passed)


def test_two_steps_are_too_few():
    idle = {"clip_rate.update.effective": [0.0] * 2, "ratio.update.mean": [1.0] * 2, "kl.discrepancy.k3": [1e-6, 1e-2]}
    assert isinstance(RULE.check(case(scalars=idle)), Passed)


def test_without_a_clip_rate_it_says_what_to_record():
    found = RULE.check(case(scalars={"kl.discrepancy.k3": GROWN}))
    assert isinstance(found, Skipped)
    assert "clip_rate.update.outside" in found.record
