"""Alerts that can never fire: floors, too few responses, no numbers; never more than a note."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from ingest.dialect import Key
from ingest.run import Run
from ingest.schema import SCALARS
from monitor.diagnosis.diagnose import case_of
from monitor.diagnosis.outcome import Finding, Passed, Severity, Skipped
from monitor.diagnosis.rules.lag_alert_never_fires import RULE
from monitor.metrics.ess import truncation_floor
from tests.diagnosis_cases import case, sampled


def logged(values, *, floor=None, metric="ess.discrepancy.token", dialect="verl"):
    """A case whose ESS carries what a dialect says of its floor."""
    caveat = Key(raw="ess", quantity=metric, floor=floor).all_caveats
    rows = [
        {"step": step, "quantity": metric, "value": float(value), "source_key": "ess", "caveat": caveat, "wall_time": None}
        for step, value in enumerate(values, 1)
    ]
    scalars = pa.Table.from_pylist(rows, schema=SCALARS)
    return case_of(
        Run(id="a", name="a", path="a", dialect=dialect, old_is="", scalars=scalars, tokens=None, config={}, problems=(), config_sources={})
    )


def test_weights_truncated_on_both_sides_have_a_floor():
    floor = truncation_floor(0.5, 2.0)
    found = RULE.check(logged([0.7, 0.66], floor=floor))
    assert isinstance(found, Finding)
    assert found.severity is Severity.NOTE
    assert "can never fire on ess.discrepancy.token: it cannot fall under 0.64" in found.what
    assert found.evidence[0].value == 0.66
    assert "chi2_token" in found.fixes[0].change


def test_a_floor_under_the_threshold_is_none():
    assert isinstance(RULE.check(logged([0.9], floor=truncation_floor(0.1, 2.0))), Passed)


def test_a_value_without_a_floor_is_none():
    assert isinstance(RULE.check(logged([0.7, 0.66])), Passed)


def test_a_value_that_was_under_it_can_be_under_it():
    assert isinstance(RULE.check(logged([0.7, 0.4], floor=0.64)), Passed)


def test_no_number_is_not_under_anything():
    found = RULE.check(case(scalars={"ess.total.token": [np.nan, np.nan]}))
    assert isinstance(found, Finding)
    assert "no number" in found.what


@pytest.mark.parametrize(("responses", "outcome"), [(2, Finding), (8, Passed)])
def test_two_responses_cannot_lose_more_than_half(responses, outcome):
    columns = sampled(steps=2, groups=1, samples=responses, length=6)
    found = RULE.check(case(tokens=columns))
    assert isinstance(found, outcome)
    if outcome is Finding:
        assert "ess.lag.sequence" in found.what


def test_an_ess_at_its_floor_cannot_get_worse():
    columns = sampled(steps=1, groups=1, samples=8, length=6)
    columns["current_logprob"] = columns["same_weights_logprob"] + np.where(columns["sample_id"] == columns["sample_id"][0], 60.0, 0.0)
    found = RULE.check(case(tokens=columns))
    assert found.severity is Severity.NOTE
    assert "1/n" in found.what


def test_without_any_ess_it_says_what_to_record():
    found = RULE.check(case(scalars={"reward.mean": [0.1, 0.2]}))
    assert isinstance(found, Skipped)
    assert found.record == ("same_weights_logprob", "current_logprob")
