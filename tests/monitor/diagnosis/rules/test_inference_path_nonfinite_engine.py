"""Log-probabilities of the engine that are no numbers: counted, dated, and told from those of the trainer."""

from __future__ import annotations

import numpy as np
import pytest

from monitor.diagnosis.outcome import Certainty, Finding, Passed, Severity, Skipped
from monitor.diagnosis.rules.inference_path_nonfinite_engine import RULE
from tests.diagnosis_cases import case
from tests.engine_states import trained

GAP = ("log_ratio.discrepancy.abs_mean", "kl.discrepancy.k3", "ratio.total.mean")
OVERLAP = {"engine.pipeline_parallel_size": 2, "engine.weight_sync": "in_flight"}


def _ask(**more):
    return RULE.check(case(**more))


def _broken(value, *, column="rollout_logprob", steps=(7,), tokens=3):
    columns = trained(steps=16)
    for step in steps:
        columns[column][np.flatnonzero(columns["step"] == step)[:tokens]] = value
    return columns


@pytest.mark.parametrize("value", [np.nan, -np.inf, np.inf])
def test_fires_on_a_single_token(value):
    found = _ask(tokens=_broken(value, tokens=1))
    assert isinstance(found, Finding)
    assert (found.severity, found.certainty) == (Severity.WARNING, Certainty.MEASURED)
    assert (found.since, found.until, found.evidence[0].value) == (7, 7, 1)


def test_critical_where_it_is_no_accident():
    found = _ask(tokens=_broken(np.nan, steps=(3, 9, 15)))
    assert found.severity is Severity.CRITICAL
    assert (found.since, found.until, found.evidence[0].value) == (3, 15, 9)


def test_a_healthy_log_has_none():
    assert isinstance(_ask(tokens=trained()), Passed)


def test_the_trainer_is_another_question():
    assert isinstance(_ask(tokens=_broken(np.nan, column="same_weights_logprob")), Passed)
    both = _broken(np.nan)
    both["same_weights_logprob"] = np.where(np.isnan(both["rollout_logprob"]), np.nan, both["same_weights_logprob"])
    assert isinstance(_ask(tokens=both), Passed)


def _scalars(*names, bad=(20,), steps=50):
    values = np.full(steps, 0.01)
    values[list(bad)] = np.nan
    return dict.fromkeys(names, values)


def test_r21_six_metrics_at_two_percent_of_the_steps():
    names = (*GAP, "kl_swapped.discrepancy.k3", "js.discrepancy", "log_ratio.discrepancy.exp_abs_mean")
    found = _ask(scalars=_scalars(*names), config=OVERLAP)
    assert (found.certainty, found.severity, found.since) == (Certainty.INDICATED, Severity.WARNING, 21)
    assert "6 metrics" in found.what
    assert "1 of 50 steps (2%)" in found.what
    assert len(found.evidence) == 6


def test_a_trainer_that_is_fine_at_those_steps_shows_the_side():
    found = _ask(scalars=_scalars(*GAP) | {"entropy.mean": np.ones(50)})
    assert isinstance(found, Finding)
    assert "entropy.mean" in found.apart_from[0]


def test_without_a_side_it_is_not_claimed():
    told = _ask(scalars=_scalars(*GAP))
    assert isinstance(told, Skipped)
    assert "rollout_logprob" in told.record
    told = _ask(scalars=_scalars(*GAP, "entropy.mean"), config=OVERLAP | {"engine.pipeline_parallel_size": 1})
    assert isinstance(told, Skipped)


def test_a_step_log_of_numbers_passes_and_one_without_the_engine_is_skipped():
    assert isinstance(_ask(scalars=_scalars(*GAP, bad=())), Passed)
    told = _ask(scalars=_scalars("entropy.mean"))
    assert isinstance(told, Skipped)
    assert told.record == ("rollout_logprob",)
