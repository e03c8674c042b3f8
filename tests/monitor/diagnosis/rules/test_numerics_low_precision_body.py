"""Is an engine that computes too coarsely found by its level, and is a healthy bfloat16 left alone?"""

import numpy as np
import pytest

from monitor.diagnosis.outcome import Certainty, Finding, Passed, Severity, Skipped
from monitor.diagnosis.rules.numerics_low_precision_body import RULE
from monitor.metrics.frame import metric_frame
from tests.diagnosis_cases import case, run_of, sampled
from tests.numerics_tokens import moved, responses, without
from tests.token_tables import table

FLAT = np.full(12, 1.0)


def logged(metric, values, **more):
    return RULE.check(case(scalars={metric: values}, **more))


def test_coarse_from_the_first_step_on():
    found = RULE.check(case(tokens=responses(sd=0.25)))
    assert (found.severity, found.certainty) == (Severity.WARNING, Certainty.MEASURED)
    assert found.since == 1


def test_a_setting_that_says_so_is_named_and_lowers_the_limit():
    tokens = responses(sd=0.08)
    assert isinstance(RULE.check(case(tokens=tokens)), Passed)
    found = RULE.check(
        case(tokens=tokens, config={"engine.kv_cache_dtype": "fp8_e4m3"}, sources={"engine.kv_cache_dtype": "kv-cache-dtype"})
    )
    assert "kv-cache-dtype is fp8_e4m3" in found.what
    assert len(found.fixes) == 1


def test_a_setting_that_does_no_harm_is_passed():
    found = RULE.check(case(tokens=responses(sd=0.02), config={"engine.quantization": "fp8"}))
    assert isinstance(found, Passed)
    assert "does no harm" in found.says


@pytest.mark.parametrize(("sd", "worst"), [(0.0499, 0.477), (0.0554, 0.656)])
def test_field_case_r3_bfloat16_is_healthy(sd, worst):
    """Field report A8: 3,916 tokens at temperature 1, and the same between two passes of one trainer."""
    rng = np.random.default_rng(0)
    engine = -rng.exponential(size=3916)
    gap = sd * rng.normal(size=3916)
    gap[0] = worst
    tokens = {"sample_id": np.arange(3916) // 40, "rollout_logprob": engine, "same_weights_logprob": engine + gap}
    assert isinstance(RULE.check(case(tokens=tokens)), Passed)


def test_r3_beside_a_reference_like_it():
    reference = metric_frame(run_of(tokens=table(**responses(1, sd=0.05))))
    assert isinstance(RULE.check(case(tokens=responses(2, sd=0.0554), references={"r": reference})), Passed)


def test_twice_the_reference():
    reference = metric_frame(run_of(tokens=table(**responses(1, sd=0.02))))
    found = RULE.check(case(tokens=responses(2, sd=0.04), references={"r": reference}))
    assert isinstance(found, Finding)
    assert "times the reference's" in found.what


def test_a_gap_that_waits_is_not_precision():
    """A stale cache: the first versions are at the floor."""
    tokens = responses(sd=0.02)
    late = np.flatnonzero((tokens["step"] > 2) & (tokens["rollout_logprob"] < 0))
    rng = np.random.default_rng(1)
    assert isinstance(RULE.check(case(tokens=moved(tokens, late, 0.4 * rng.normal(size=len(late))))), Passed)


def test_a_mean_ratio_off_1_is_not_precision():
    assert isinstance(RULE.check(case(tokens=sampled(temperature=0.6, engine_reports_raw=True))), Passed)


def test_a_total_with_lag_cannot_tell():
    tokens = without(responses(sd=0.3), "rollout_version", "trainer_version")
    tokens["current_logprob"] = tokens.pop("same_weights_logprob")
    found = RULE.check(case(tokens=tokens))
    assert isinstance(found, Skipped)
    assert "same_weights_logprob" in found.record


def test_a_total_at_lag_0_can_tell():
    scalars = {"log_ratio.total.abs_mean": [0.17, 0.2, 0.2], "version_lag.max": [0, 3, 4]}
    found = RULE.check(case(scalars=scalars))
    assert "0.17" in found.what
    assert found.certainty is Certainty.INDICATED


def test_a_total_that_never_is_at_lag_0_is_skipped():
    assert isinstance(RULE.check(case(scalars={"log_ratio.total.abs_mean": [0.17, 0.2], "version_lag.max": [3, 4]})), Skipped)


@pytest.mark.parametrize(
    ("metric", "healthy", "coarse"),
    [
        ("log_ratio.discrepancy.exp_abs_mean", 1.0121, 1.08),
        ("log_ratio.discrepancy.abs_mean", 0.07, 0.3),
        ("log_ratio.discrepancy.sd", 0.05, 0.3),
        ("prob_diff.discrepancy.abs_mean", 0.004, 0.1),
        ("kl.discrepancy.k3", 0.001, 0.05),
    ],
)
def test_levels_of_the_step_log(metric, healthy, coarse):
    assert isinstance(logged(metric, healthy * FLAT), Passed)
    found = logged(metric, coarse * FLAT)
    assert (found.severity, found.certainty) == (Severity.WARNING, Certainty.INDICATED)


def test_field_report_a45_every_step_is_a_spike():
    """Fused kernels: 100 % of the steps, median 38,565."""
    found = logged("log_ratio.discrepancy.exp_abs_mean", 38565 * np.exp(np.random.default_rng(0).normal(size=20)))
    assert found.severity is Severity.CRITICAL


@pytest.mark.parametrize("values", [[0.06, 0.06, 3.83, 3.83, 3.83], np.linspace(0.011, 0.036, 30), [0.018, 0.01, 0.201]])
def test_field_cases_r7_r8_a27_are_of_the_inference_path(values):
    assert isinstance(logged("log_ratio.discrepancy.abs_mean", values), Passed)


def test_nothing_to_go_by_names_the_column():
    assert RULE.missing(case(scalars={"reward.mean": [1.0]})) == ("tokens",)
