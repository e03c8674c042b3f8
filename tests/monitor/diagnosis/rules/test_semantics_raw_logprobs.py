"""Raw log-probabilities: found and fitted at temperatures on both sides of 1, and not found where the mean ratio is 1."""

import functools
from pathlib import Path

import numpy as np
import pytest

from ingest.load import load
from monitor.diagnosis.diagnose import case_of
from monitor.diagnosis.outcome import Certainty, Finding, Passed, Severity, Skipped
from monitor.diagnosis.rules.semantics_raw_logprobs import RULE
from tests.diagnosis_cases import case, sampled

SAMPLES = Path(__file__).parents[4] / "sample_runs"
_IDS = ("group_id", "token_id")


@functools.cache
def raw(temperature, noise=0.03):
    return sampled(1, steps=3, temperature=temperature, engine_reports_raw=True, noise=noise)


@functools.cache
def healthy(noise=0.03, temperature=0.8):
    return sampled(2, steps=3, temperature=temperature, noise=noise)


def without(columns, *names):
    return {name: values for name, values in columns.items() if name not in names}


def evidence(found, metric):
    return next(one for one in found.evidence if one.metric == metric)


def step_log(run):
    return case_of(load(SAMPLES / run / "steps.jsonl")[0])


@pytest.mark.parametrize("temperature", [0.7, 1.3])
def test_the_temperature_is_fitted_on_both_sides_of_1(temperature):
    found = RULE.check(case(tokens=raw(temperature), config={"sampling.temperature": temperature}))
    assert isinstance(found, Finding)
    assert found.severity is Severity.CRITICAL
    assert found.certainty is Certainty.MEASURED
    assert evidence(found, "portrait.slope").value == pytest.approx(1 / temperature, rel=0.01)
    assert "as set" in found.what
    assert found.since == 1
    assert (evidence(found, "portrait.slope").value > 1) is (temperature < 1)
    assert evidence(found, "log_ratio.discrepancy.mean").value > 0, "the mean gap is positive for any temperature"


def test_a_setting_that_says_otherwise_is_named():
    found = RULE.check(case(tokens=raw(0.7), config={"sampling.temperature": 1.0}))
    assert "though 1 is set" in found.what


@pytest.mark.parametrize("columns", [healthy(), healthy(0.08)], ids=["little noise", "more noise than a bfloat16 body"])
def test_noise_alone_passes(columns):
    assert isinstance(RULE.check(case(tokens=columns)), Passed)


def test_a_trainer_that_forgets_the_temperature_passes():
    columns = sampled(3, steps=3, temperature=0.7, trainer_temperature=1.0)
    assert isinstance(RULE.check(case(tokens=columns)), Passed)


def test_truncated_sampling_passes():
    assert isinstance(RULE.check(case(tokens=sampled(4, steps=3, top_p=0.9))), Passed)


def test_a_constant_offset_passes():
    columns = healthy(0.001)
    assert isinstance(RULE.check(case(tokens=columns | {"rollout_logprob": columns["rollout_logprob"] - 0.3})), Passed)


def test_without_ids_the_finding_stays_and_says_what_to_record():
    found = RULE.check(case(tokens=without(raw(0.7), *_IDS)))
    assert isinstance(found, Finding)
    assert "T =" not in found.what
    assert "under 1" in found.what
    assert any("group_id and token_id" in sentence for sentence in found.apart_from)


def test_without_ids_a_temperature_over_1_is_told_from_one_under_it():
    assert "over 1" in RULE.check(case(tokens=without(raw(1.3), *_IDS))).what


def gaps(x):
    """Tokens with these gaps, twenty to a response, without ids."""
    engine = -1 - np.random.default_rng(9).exponential(1.0, len(x))
    return {"sample_id": np.arange(len(x)) // 20, "rollout_logprob": engine, "same_weights_logprob": engine + x}


def test_few_tokens_are_enough_where_the_slope_is_sure():
    columns = {name: values[:144] for name, values in sampled(3, steps=1, temperature=0.7, engine_reports_raw=True).items()}
    assert isinstance(RULE.check(case(tokens=columns)), Finding)
    columns = {name: values[:144] for name, values in sampled(3, steps=1, temperature=0.7, trainer_temperature=1.0).items()}
    assert isinstance(RULE.check(case(tokens=columns)), Passed), "the same slope turned round has the other sign"


def test_a_mean_ratio_above_1_by_chance_passes():
    x = np.random.default_rng(3).normal(0.005, 0.35, 400)
    assert x.mean() > 0
    assert np.exp(x).mean() > 1.03
    assert isinstance(RULE.check(case(tokens=gaps(x))), Passed)


def test_a_mean_ratio_above_1_with_a_mean_gap_below_0_passes():
    """Shifted or wrong tokens: most are far less probable, some far more, which no temperature does."""
    x = np.where(np.random.default_rng(3).random(4000) < 0.3, 1.5, -1.0)
    assert isinstance(RULE.check(case(tokens=gaps(x))), Passed)
    logged = {"ratio.discrepancy.mean": [1.6, 1.61] * 6, "log_ratio.discrepancy.mean": [-0.2] * 12}
    assert isinstance(RULE.check(case(scalars=logged)), Skipped)


def test_other_faults_that_come_later_do_not_blur_the_temperature():
    """Four faults at once: the prefix cache goes stale after the first steps."""
    found = RULE.check(case_of(load(SAMPLES / "v1_broken")[0]))
    assert evidence(found, "portrait.slope").value == pytest.approx(1 / 0.8, abs=0.01)
    assert "as set" in found.what


def test_with_lag_in_the_gap_the_first_steps_are_fitted():
    columns = without(raw(0.7), "same_weights_logprob", "rollout_version", "trainer_version")
    sharper = sampled(1, steps=3, temperature=0.7, engine_reports_raw=True, trainer_temperature=0.6, noise=0.03)
    drifted = np.where(columns["step"] > 1, sharper["current_logprob"], columns["current_logprob"])
    found = RULE.check(case(tokens=columns | {"current_logprob": drifted}))
    assert evidence(found, "portrait.slope").value == pytest.approx(1 / 0.7, rel=0.02)
    assert evidence(found, "log_ratio.total.mean").value > 0


def test_text_that_was_not_sampled_has_no_sign_and_is_fitted_all_the_same():
    """Field report A3: the same text scored by both sides, the trainer's logits divided by 0.7."""
    columns = fixed_text()
    x = columns["same_weights_logprob"] - columns["rollout_logprob"]
    assert x.mean() == pytest.approx(-0.998, abs=0.1)
    assert np.corrcoef(columns["same_weights_logprob"], columns["rollout_logprob"])[0, 1] == pytest.approx(0.99245, abs=0.002)
    found = RULE.check(case(tokens=columns, config={"tokens.sampled": False, "sampling.temperature": 0.7}))
    assert isinstance(found, Finding)
    assert "T = 0.700" in found.what
    assert "as set" in found.what
    assert not any(one.metric.startswith(("ratio.", "log_ratio.")) for one in found.evidence), "mean ratio and sign are void"
    assert any("no sign" in sentence for sentence in found.apart_from)


def test_text_that_was_not_sampled_needs_no_ids_to_be_suspected():
    found = RULE.check(case(tokens=without(fixed_text(), *_IDS), config={"tokens.sampled": False}))
    assert isinstance(found, Finding)
    assert "two temperatures" in found.what


def test_text_that_was_not_sampled_passes_where_both_sides_agree():
    columns = fixed_text()
    same = columns["rollout_logprob"] + np.random.default_rng(0).normal(0.0094, 0.02, len(columns["step"]))
    assert isinstance(RULE.check(case(tokens=columns | {"same_weights_logprob": same}, config={"tokens.sampled": False})), Passed)


@functools.cache
def fixed_text(texts=8, groups=24, length=8, vocabulary=60):
    """Texts of another author, eight to a prompt; the engine's side at temperature 1, the trainer's at 0.7."""
    rng, rows = np.random.default_rng(5), []
    for sample in range(groups * texts):
        prefix = (sample // texts,)
        for place in range(length):
            own = np.random.default_rng(prefix)
            z = own.uniform(0.3, 3.0) * own.normal(size=vocabulary)
            author = np.exp(z / 4)
            token = int(rng.choice(vocabulary, p=author / author.sum()))
            scores = [z[token] / t - np.log(np.exp(z / t).sum()) for t in (1.0, 0.7)]
            rows.append((1, sample, sample // texts, place, token, *scores))
            prefix = (*prefix, token)
    names = ("step", "sample_id", "group_id", "position", "token_id", "rollout_logprob", "same_weights_logprob")
    return dict(zip(names, map(np.array, zip(*rows, strict=True)), strict=True))


def test_filtered_rows_without_ids_and_without_a_slope_pass_only_on_the_slope():
    found = RULE.check(case(tokens=without(healthy(), *_IDS), config={"tokens.filtered": True}))
    assert "no temperature" in found.says


def test_too_few_tokens_of_filtered_rows_are_skipped_with_the_columns():
    columns = {name: values[:30] for name, values in without(healthy(), *_IDS).items()}
    found = RULE.check(case(tokens=columns, config={"tokens.filtered": True}))
    assert isinstance(found, Skipped)
    assert found.record == _IDS


@pytest.mark.parametrize("run", ["v1_broken", "v1_raw_logprobs_only"])
def test_step_logs_of_raw_runs_are_found(run):
    found = RULE.check(step_log(run))
    assert isinstance(found, Finding)
    assert found.certainty is Certainty.INDICATED
    assert evidence(found, "log_ratio.total.mean").value > 0


@pytest.mark.parametrize(
    "run", ["v0_reference_seed1", "v1_fixed", "v1_processed_logprobs", "v1_prefix_cache_only", "v1_async_only", "v1_bf16_head_only"]
)
def test_step_logs_of_other_runs_pass(run):
    assert isinstance(RULE.check(step_log(run)), Passed)


def test_capped_ratios_at_the_first_step_are_a_lower_bound():
    """Field report A2: T = 0.6, ratio 2.0 at the first tokens, which is the cap."""
    ends = {f"ratio.discrepancy.{end}": [2.0] for end in ("mean", "min", "max")}
    found = RULE.check(case(scalars=ends | {"version_lag.max": [0.0]}, config={"sampling.temperature": 0.6}))
    assert isinstance(found, Finding)
    assert found.certainty is Certainty.INDICATED
    assert "sit on the cap 2" in found.what
    assert "0.6 is set" in found.what


def test_capped_ratios_of_two_tokens():
    columns = {"sample_id": [0, 1], "rollout_logprob": [-1.0, -2.0], "same_weights_logprob": np.log(2.0) - np.array([1.0, 2.0])}
    found = RULE.check(case(tokens=columns, config={"sampling.temperature": 0.6}))
    assert isinstance(found, Finding)
    assert "sit on the cap 2" in found.what


def test_the_control_of_the_capped_case_is_no_finding():
    logged = {"ratio.discrepancy.mean": [1.0], "ratio.discrepancy.min": [0.85], "ratio.discrepancy.max": [1.15]}
    assert not isinstance(RULE.check(case(scalars=logged, config={"sampling.temperature": 1.0})), Finding)


def test_a_policy_that_did_not_move_is_no_finding():
    """Field report A31: ratios in [0.9988, 1.0329], mean |ratio - 1| 0.00493, nothing learned."""
    logged = {"ratio.total.min": [0.9988], "ratio.total.max": [1.0329], "ratio.total.abs_deviation": [0.00493], "grad_norm.global": [0.0]}
    assert not isinstance(RULE.check(case(scalars=logged)), Finding)
    assert not isinstance(RULE.check(case(scalars=logged | {"ratio.total.mean": [1.0040 + 1e-4 * k for k in range(12)]})), Finding)
    rng = np.random.default_rng(0)
    w = np.clip(0.9988 + rng.exponential(0.0056, 800), 0.9988, 1.0329)
    engine = -rng.exponential(1.0, 800)
    tokens = {"sample_id": np.arange(800) // 20, "rollout_logprob": engine, "same_weights_logprob": engine + np.log(w)}
    assert not isinstance(RULE.check(case(tokens=tokens)), Finding)


def test_drift_of_the_gap_is_not_semantics():
    """Field report A11: 0.011 to 0.036 over thirty steps."""
    found = RULE.check(case(scalars={"log_ratio.discrepancy.abs_mean": np.linspace(0.011, 0.036, 30)}))
    assert isinstance(found, Skipped)
    assert "rollout_logprob" in found.record


def test_settings_alone_only_raise_a_suspicion():
    logged = {"kl.total.k3": [0.01] * 5}
    config = {"engine.logprobs_mode": "raw_logprobs", "sampling.temperature": 0.8}
    found = RULE.check(case(scalars=logged, config=config))
    assert found.certainty is Certainty.SUSPECTED
    assert isinstance(RULE.check(case(scalars=logged, config=config | {"sampling.temperature": 1.0})), Skipped)
    assert isinstance(RULE.check(case(scalars=logged, config=config | {"engine.logprobs_mode": "processed_logprobs"})), Skipped)


def test_a_log_without_any_gap_names_the_columns():
    assert RULE.missing(case(scalars={"reward.mean": [0.5]})) == ("tokens",)


def test_the_text_has_its_five_parts():
    assert set(RULE.text) == {"looks like", "why", "next", "neighbours", "source"}
