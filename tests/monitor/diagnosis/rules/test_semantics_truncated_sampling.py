"""Truncated sampling: the kept mass is found, mild or strong, and wrong tokens, offsets and noise are not taken for it."""

import functools
from pathlib import Path

import numpy as np
import pytest

from ingest.load import load
from monitor.diagnosis.diagnose import case_of
from monitor.diagnosis.outcome import Certainty, Finding, Passed, Severity, Skipped
from monitor.diagnosis.rules.semantics_truncated_sampling import RULE
from tests.diagnosis_cases import case, sampled

SAMPLES = Path(__file__).parents[4] / "sample_runs"


@functools.cache
def truncated(top_p, noise=0.02):
    return sampled(1, steps=3, top_p=top_p, noise=noise)


def gaps(x, engine=None, length=20, **columns):
    """Tokens with these gaps, twenty to a response."""
    n = len(x)
    engine = -1 - np.random.default_rng(9).exponential(1.0, n) if engine is None else engine
    return {"sample_id": np.arange(n) // length, "rollout_logprob": engine, "same_weights_logprob": engine + x} | columns


def value(found, metric):
    return next(one.value for one in found.evidence if one.metric == metric)


@pytest.mark.parametrize("top_p", [0.8, 0.95])
def test_the_kept_mass_of_a_real_sampler(top_p):
    columns = truncated(top_p)
    found = RULE.check(case(tokens=columns, config={"sampling.top_p": top_p}))
    assert isinstance(found, Finding)
    assert found.severity is Severity.CRITICAL
    assert found.certainty is Certainty.MEASURED
    kept = np.exp(columns["same_weights_logprob"] - columns["rollout_logprob"]).mean()
    assert value(found, "ratio.discrepancy.mean") == pytest.approx(kept)
    assert kept >= top_p - 0.01
    assert value(found, "portrait.one_sided") < -0.9
    assert value(found, "portrait.between") > 0.75
    assert f"top_p {top_p:g} set" in found.what


def test_without_truncation_it_passes():
    assert isinstance(RULE.check(case(tokens=truncated(1.0))), Passed)


def test_field_case_of_top_p_08():
    """Field report A4: mean 0.896, median 0.895, 51.8 % outside [0.9, 1.1]."""
    rng = np.random.default_rng(0)
    w = rng.uniform(0.802, 0.99, 2048)
    assert w.mean() == pytest.approx(0.896, abs=0.005)
    assert (w < 0.9).mean() == pytest.approx(0.518, abs=0.03)
    assert isinstance(RULE.check(case(tokens=gaps(np.log(w)))), Finding)


def test_field_case_after_renormalising():
    """The same report with the kept set replayed: mean 1.001, 4.3 % outside."""
    x = np.random.default_rng(0).normal(-0.0012, 0.049, 2048)
    assert (np.abs(np.expm1(x)) > 0.1).mean() == pytest.approx(0.043, abs=0.015)
    assert isinstance(RULE.check(case(tokens=gaps(x))), Passed)


def mild(lost):
    rng = np.random.default_rng(1)
    kept = np.where(rng.random(20_000) < 0.1, 1 - rng.uniform(0, 20 * lost, 20_000), 1.0)
    return gaps(np.log(kept) + rng.normal(-0.00031, 0.0249, 20_000))


def test_the_mild_field_case_is_a_warning():
    """Field report A5: ratio 0.99752, mean gap -0.00279; 1.00000 and -0.00031 with the kept set replayed."""
    found = RULE.check(case(tokens=mild(0.00248)))
    assert isinstance(found, Finding)
    assert found.severity is Severity.WARNING
    assert value(found, "ratio.discrepancy.mean") == pytest.approx(0.99752, abs=5e-4)
    assert value(found, "log_ratio.discrepancy.mean") == pytest.approx(-0.00279, abs=5e-4)
    assert isinstance(RULE.check(case(tokens=mild(0.0))), Passed)


def test_settings_that_cut_nothing_are_named():
    found = RULE.check(case(tokens=mild(0.005), config={"sampling.top_p": 1.0, "sampling.top_k": -1}))
    assert "top_p and top_k are off" in found.what


def test_a_few_wrong_tokens_are_no_truncation():
    """Last tokens scored by the wrong label: the mean gap falls far more than the mean ratio."""
    x = np.random.default_rng(0).normal(0, 0.01, 4000)
    x[19::20] -= 8
    found = RULE.check(case(tokens=gaps(x)))
    assert isinstance(found, Passed)
    assert "no truncation" in found.says


def test_a_constant_below_0_passes_unless_the_settings_cut():
    columns = gaps(np.random.default_rng(0).normal(-0.1, 0.003, 4000))
    assert isinstance(RULE.check(case(tokens=columns)), Passed)
    assert isinstance(RULE.check(case(tokens=columns, config={"sampling.top_p": 0.9})), Finding)


def test_raw_log_probabilities_pass():
    assert isinstance(RULE.check(case(tokens=sampled(2, steps=3, temperature=0.7, engine_reports_raw=True))), Passed)


@pytest.mark.parametrize("setting", [{"tokens.filtered": True}, {"tokens.sampled": False}])
def test_filtered_or_unsampled_rows_are_skipped(setting):
    assert isinstance(RULE.check(case(tokens=truncated(0.8), config=setting)), Skipped)


def scalars(mean, gap, size, steps=12):
    wobble = 1 + 0.001 * np.resize([1, -1, 0.5, -0.5], steps)
    logged = {
        "ratio.discrepancy.mean": mean * wobble,
        "log_ratio.discrepancy.mean": gap * wobble,
        "log_ratio.discrepancy.abs_mean": size * wobble,
    }
    return {name: list(values) for name, values in logged.items()}


def test_a_step_log_is_enough_where_the_gap_is_bounded():
    found = RULE.check(case(scalars=scalars(0.9, -0.11, 0.11)))
    assert isinstance(found, Finding)
    assert found.certainty is Certainty.INDICATED


def test_a_step_log_of_wrong_tokens_passes():
    assert isinstance(RULE.check(case(scalars=scalars(0.9, -0.6, 0.6))), Passed)


def test_a_single_logged_mean_needs_the_settings():
    logged = {"ratio.discrepancy.mean": [0.896]}
    assert isinstance(RULE.check(case(scalars=logged)), Skipped)
    assert isinstance(RULE.check(case(scalars=logged, config={"sampling.top_p": 0.8})), Finding)
    control = {"ratio.discrepancy.mean": [0.994]}
    assert not isinstance(RULE.check(case(scalars=control, config={"sampling.top_p": 1.0})), Finding)


def test_a_mean_of_cut_ratios_is_not_believed():
    """PipelineRL may cap the ratio before it sums: then noise alone lowers the mean, and tokens are needed."""
    run = load(SAMPLES / "v1_fixed" / "steps.jsonl")[0]
    frame = case_of(run).frame
    values = np.array(frame["value"].to_pylist(), float)
    values[[name == "ratio.total.sum" for name in frame["metric"].to_pylist()]] *= 0.95
    lowered = frame.set_column(frame.schema.get_field_index("value"), "value", [values])
    found = RULE.check(case_of(run, lowered))
    assert isinstance(found, Skipped)
    assert found.record == ("rollout_logprob", "same_weights_logprob")


@pytest.mark.parametrize("run", ["v1_fixed", "v1_bf16_head_only", "v1_async_only", "v1_broken"])
def test_step_logs_of_the_sample_runs_pass(run):
    assert isinstance(RULE.check(case_of(load(SAMPLES / run / "steps.jsonl")[0])), Passed)


def test_a_log_without_a_ratio_names_the_columns():
    assert RULE.missing(case(scalars={"kl.total.k1": [0.1]})) == ("tokens",)


def test_the_text_has_its_five_parts():
    assert set(RULE.text) == {"looks like", "why", "next", "neighbours", "source"}
