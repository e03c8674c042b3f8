"""Samples older than they were meant to be: against the limit that is set, the reference, or what frameworks drop by default."""

from __future__ import annotations

import numpy as np
import pytest

from monitor.diagnosis.outcome import Certainty, Finding, Passed, Severity, Skipped
from monitor.diagnosis.rules.inference_path_async_lag import RULE
from tests.diagnosis_cases import case
from tests.engine_states import trained, without


def _ask(**more):
    return RULE.check(case(**more))


def test_fires_at_eight_versions():
    found = _ask(tokens=trained(behind=8, steps=20, drift=0.02))
    assert isinstance(found, Finding)
    assert (found.severity, found.certainty) == (Severity.WARNING, Certainty.MEASURED)
    assert found.evidence[0].value == 8
    assert found.since == 6
    assert "engine" in found.apart_from[0]


def test_one_or_two_versions_are_what_asynchronous_trainers_plan_for():
    assert isinstance(_ask(tokens=trained(behind=2)), Passed)
    assert isinstance(_ask(tokens=trained(behind=4, drift=0.02)), Passed)


@pytest.mark.parametrize(("limit", "outcome"), [(1, Finding), (2, Finding), (3, Passed), (8, Passed)])
def test_the_limit_that_is_set_decides(limit, outcome):
    found = _ask(tokens=trained(behind=4, drift=0.02), config={"staleness.max_versions": limit})
    assert isinstance(found, outcome)


def test_the_reference_decides_where_no_limit_is_set():
    references = {"seed0": case(tokens=trained(behind=1, drift=0.02)).frame}
    assert isinstance(_ask(tokens=trained(behind=4, drift=0.02), references=references), Finding)
    assert isinstance(_ask(tokens=trained(behind=3, drift=0.02), references=references), Passed)
    same = {"seed0": case(tokens=trained(behind=6, steps=20, drift=0.02)).frame}
    assert isinstance(_ask(tokens=trained(behind=6, steps=20, drift=0.02), references=same), Passed)


def test_a_lost_sample_counts_at_any_limit():
    columns = trained(behind=3, drift=0.8)
    found = _ask(tokens=columns, config={"staleness.max_versions": 10})
    assert isinstance(found, Finding)
    assert found.severity is Severity.CRITICAL
    assert "ESS(lag)" in found.what


@pytest.mark.parametrize(("drift", "outcome"), [(0.02, Passed), (0.4, Finding)])
def test_a_run_that_resynchronises_by_its_ess_may_be_as_old_as_that_lets_it_be(drift, outcome):
    columns, by_ess = trained(behind=8, steps=20, drift=drift), {"engine.weight_sync": "when_ess_is_low"}
    assert isinstance(_ask(tokens=columns, config=by_ess), outcome)
    assert isinstance(_ask(tokens=columns, config={"engine.weight_sync": "in_flight"}), Finding)
    assert isinstance(_ask(scalars={"version_lag.mean": np.full(20, 8.0)}, config=by_ess), Finding)  # no ESS: nothing keeps it


def test_a_frozen_generator_is_named():
    columns = trained(behind=100, steps=16, drift=0.02)
    assert set(columns["rollout_version"]) == {0}
    found = _ask(tokens=columns)
    assert found.what.startswith("the engine was never given new weights")
    scalars = {"version_lag.max": np.arange(20.0)}
    assert _ask(scalars=scalars).what.startswith("the engine was never given new weights")


def test_old_samples_of_weights_that_do_not_move_do_no_harm():
    told = _ask(tokens=trained(behind=8, steps=20, drift=0))
    assert isinstance(told, Passed)
    assert "do not move" in told.says


def test_a_step_log_alone():
    full = [min(step, 10) for step in range(50)]
    found = _ask(scalars={"version_lag.max": full})
    assert found.certainty is Certainty.INDICATED
    assert "not told apart" in found.apart_from[0]
    assert isinstance(_ask(scalars={"version_lag.max": [min(step, 8) for step in range(50)]}), Passed)
    samples = {"version_lag_samples.mean": [64.0 * min(step, 6) for step in range(50)]}
    assert _ask(scalars=samples, config={"trainer.samples_per_step": 64}).evidence[0].value == 6
    assert isinstance(_ask(scalars=samples), Skipped)


def test_the_queues_are_empty_at_first():
    assert isinstance(_ask(scalars={"version_lag.max": [0] * 26 + [10] * 24}), Finding)
    assert isinstance(_ask(scalars={"version_lag.max": [10] * 12 + [1] * 38}), Passed)


def test_without_versions_it_says_which_columns_to_record():
    found = case(tokens=without(trained(), "rollout_version"))
    assert RULE.missing(found) == ("version_lag.mean",)
    told = _ask(scalars={"version_lag.mean": [np.nan] * 3})
    assert isinstance(told, Skipped)
    assert told.record == ("rollout_version", "trainer_version")
