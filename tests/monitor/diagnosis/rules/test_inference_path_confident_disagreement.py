"""Tokens that the engine was sure of and the trainer finds unlikely: a warning where they begin later, a note where they always were."""

from __future__ import annotations

import numpy as np

from monitor.diagnosis.outcome import Finding, Passed, Severity, Skipped
from monitor.diagnosis.rules.inference_path_confident_disagreement import RULE
from tests.diagnosis_cases import case
from tests.engine_states import trained, without


def _ask(**more):
    return RULE.check(case(**more))


def _sure(columns, *, share, after=0):
    """The columns with a fifth of the tokens certain on both sides, of which a share after a step is unlikely to the trainer."""
    rng = np.random.default_rng(0)
    n = len(columns["step"])
    sure = rng.random(n) < 0.2
    doubt = sure & (columns["step"] > after) & (rng.random(n) < share)
    engine = np.where(sure, -1e-3, columns["rollout_logprob"])
    trainer = np.where(sure, -1.2e-3, columns["same_weights_logprob"])
    return columns | {"rollout_logprob": engine, "same_weights_logprob": np.where(doubt, -4.0, trainer)}


def test_a_warning_where_it_begins_later():
    found = _ask(tokens=_sure(trained(), share=0.05, after=8))
    assert isinstance(found, Finding)
    assert found.severity is Severity.WARNING
    assert found.since == 9
    assert "none in the first steps" in found.what


def test_a_note_where_it_is_there_from_the_start():
    assert _ask(tokens=_sure(trained(), share=0.05)).severity is Severity.NOTE


def test_a_note_where_too_few_were_to_be_expected_at_first():
    assert _ask(tokens=_sure(trained(), share=0.01, after=8)).severity is Severity.NOTE


def test_noise_never_does_it():
    assert isinstance(_ask(tokens=_sure(trained(noise=0.3), share=0)), Passed)


def test_one_in_a_thousand_is_asked_for():
    assert isinstance(_ask(tokens=_sure(trained(steps=24, samples=40, noise=0.05), share=5e-4)), Passed)


def test_needs_tokens_at_equal_weights():
    assert RULE.missing(case(scalars={"log_ratio.discrepancy.abs_mean": [0.01] * 5})) == ("tokens",)
    told = _ask(tokens=without(trained(behind=3), "same_weights_logprob"))
    assert isinstance(told, Skipped)
    assert told.record == ("same_weights_logprob",)
    unsure = trained()
    kept = unsure["rollout_logprob"] < -0.05
    told = _ask(tokens={name: values[kept] for name, values in unsure.items()})
    assert isinstance(told, Skipped)
