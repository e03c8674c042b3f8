"""Values that are no numbers: the trainer's tokens, steps of the log; the engine's own are left to the inference path."""

import numpy as np
import pytest

from monitor.diagnosis.outcome import Certainty, Finding, Passed, Severity
from monitor.diagnosis.rules.data_nonfinite import RULE
from tests.diagnosis_cases import case

SIX = ("kl.total.k1", "kl.total.k3", "ratio.total.mean", "clip_rate.total.outside", "ess.total.token", "log_ratio.total.abs_mean")


def tokens(bad=(), side="current_logprob", value=np.nan, **more):
    columns = {"step": np.repeat([1, 2, 3, 4], 100), "sample_id": np.arange(400) // 10, "position": np.arange(400) % 10}
    columns |= {"rollout_logprob": np.full(400, -1.0), "current_logprob": np.full(400, -1.1)}
    columns[side] = columns[side].copy()
    columns[side][list(bad)] = value
    return columns | more


def log(bad_steps, metrics=SIX, steps=50, value=np.nan):
    return {name: {step: value if step in bad_steps else 0.01 for step in range(1, steps + 1)} for name in metrics}


def test_one_token_is_counted_with_its_step():
    found = RULE.check(case(tokens=tokens([250])))
    assert isinstance(found, Finding)
    assert (found.severity, found.certainty, found.since) == (Severity.WARNING, Certainty.MEASURED, 3)
    assert "1 of 400 tokens (1 NaN, 0 infinite), in 1 of 4 steps" in found.what


def test_many_tokens_are_critical():
    assert RULE.check(case(tokens=tokens(range(10)))).severity is Severity.CRITICAL


@pytest.mark.parametrize(("value", "top_p", "explained"), [(-np.inf, 0.9, True), (-np.inf, 1.0, False), (np.nan, 0.9, False)])
def test_a_replayed_cut_explains_few_infinite_tokens_and_nothing_else(value, top_p, explained):
    found = RULE.check(case(tokens=tokens([250], value=value), config={"sampling.top_p": top_p}))
    assert ("A6" in found.why) is explained
    assert ("kept" in found.why) is explained
    assert ("replays" in found.fixes[0].change) is explained


def test_both_kinds_together_are_not_explained_by_a_cut():
    columns = tokens([250], value=-np.inf)
    columns["current_logprob"][251] = np.nan
    assert "A6" not in RULE.check(case(tokens=columns, config={"sampling.top_p": 0.9})).why


def test_masked_tokens_do_not_count():
    mask = np.arange(400) != 250
    assert isinstance(RULE.check(case(tokens=tokens([250], loss_mask=mask))), Passed)


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_the_engines_tokens_are_left_to_the_inference_path(value):
    assert isinstance(RULE.check(case(tokens=tokens([250], side="rollout_logprob", value=value))), Passed)


def test_the_engines_tokens_explain_the_step_log_too():
    looked = case(tokens=tokens([250], side="rollout_logprob"), scalars=log({3}, steps=4))
    assert isinstance(RULE.check(looked), Passed)


def test_r21_is_left_to_the_inference_path_where_the_settings_show_why():
    config = {"engine.pipeline_parallel_size": 2, "engine.weight_sync": "in_flight"}
    found = RULE.check(case(scalars=log({17}), config=config))
    assert isinstance(found, Passed)
    assert "1 of 50 steps" in found.says


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"engine.pipeline_parallel_size": 1, "engine.weight_sync": "in_flight"},
        {"engine.pipeline_parallel_size": 2, "engine.weight_sync": "blocking"},
        {"policy.generation.vllm_cfg.pipeline_parallel_size": 2, "grpo.async_grpo.in_flight_weight_updates": False},
    ],
    ids=["nothing said", "one stage", "no update in flight", "switched off"],
)
def test_r21_without_these_settings_is_counted_not_dropped(config):
    found = RULE.check(case(scalars=log({17}), config=config))
    assert isinstance(found, Finding)
    assert (found.severity, found.certainty) == (Severity.WARNING, Certainty.INDICATED)
    assert "1 of 50 steps (2.0%)" in found.what
    assert "6 metrics" in found.what
    assert (found.since, found.until) == (17, 17)
    assert found.evidence[0].value == 6


def test_a_run_that_ends_in_them_is_critical():
    found = RULE.check(case(scalars=log(set(range(40, 51)))))
    assert found.severity is Severity.CRITICAL
    assert "from step 40 to the end" in found.what
    assert found.until is None


def test_one_metric_alone_is_a_note():
    assert RULE.check(case(scalars=log({17}, SIX[:1]) | log(set(), SIX[1:]))).severity is Severity.NOTE


def test_infinite_values_count():
    assert isinstance(RULE.check(case(scalars=log({17}, value=np.inf))), Finding)


def test_a_metric_that_never_is_a_number_was_never_computed():
    assert isinstance(RULE.check(case(scalars=log(set(range(51)), SIX[:2]) | log(set(), SIX[2:]))), Passed)


def test_numbers_throughout_pass():
    assert isinstance(RULE.check(case(tokens=tokens(), scalars=log(set(), steps=4))), Passed)


def test_a_bad_last_step_is_not_yet_an_end():
    assert RULE.check(case(scalars=log({50}))).severity is Severity.WARNING


def test_where_most_are_the_engines_the_trainers_are_a_note():
    columns = tokens(range(250, 253))
    columns["rollout_logprob"][240:250] = np.nan
    assert RULE.check(case(tokens=columns)).severity is Severity.NOTE
    columns["rollout_logprob"][242:250] = -1.0
    assert RULE.check(case(tokens=columns)).severity is Severity.WARNING


@pytest.mark.parametrize(("entropy", "kind"), [(set(), Passed), ({17}, Finding)])
def test_where_the_trainers_own_metrics_are_numbers_it_is_the_engine(entropy, kind):
    assert isinstance(RULE.check(case(scalars=log({17}) | log(entropy, ["entropy.mean"]))), kind)


def test_both_settings_are_understood_in_a_frameworks_own_words():
    config = {"policy.generation.vllm_cfg.pipeline_parallel_size": 2, "grpo.async_grpo.in_flight_weight_updates": True}
    assert isinstance(RULE.check(case(scalars=log({17}), config=config)), Passed)
