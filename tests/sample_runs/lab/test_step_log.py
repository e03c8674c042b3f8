import math

import numpy as np
import pytest

from sample_runs.lab.pipeline import train
from sample_runs.lab.settings import Objective, RunSettings
from sample_runs.lab.step_log import StepLog, clamped, rl_keys


@pytest.fixture
def batch(tiny, weights):
    *_, last = train(tiny(steps=3, logprobs_mode="raw_logprobs"), weights)
    return last


def responses(batch):
    """Log ratios new - old of each response, as lists."""
    groups = {}
    for sample, new, old in zip(*(batch.columns[name] for name in ("sample_id", "current_logprob", "rollout_logprob")), strict=True):
        groups.setdefault(int(sample), []).append(float(new) - float(old))
    return list(groups.values())


def mean_of_means(values):
    return math.fsum(math.fsum(each) / len(each) for each in values) / len(values)


def test_token_statistics_are_means_over_responses_of_means_over_tokens(batch, tiny):
    line, per_response = rl_keys(batch, tiny()), responses(batch)
    assert len({len(each) for each in per_response}) > 1  # otherwise the two ways of averaging agree
    k3 = mean_of_means([[math.exp(x) - x - 1 for x in each] for each in per_response])
    outside = mean_of_means([[not 0.8 <= math.exp(x) <= 1.2 for x in each] for each in per_response])
    assert line["rl/kl_new_old"] == pytest.approx(k3, rel=1e-9)
    assert line["rl/clamp_log_ratio_new_old_indicator"] == pytest.approx(outside, rel=1e-9)
    assert line["rl/mean_abs_log_ratio_new_old"] == pytest.approx(
        mean_of_means([[abs(x) for x in each] for each in per_response]), rel=1e-9
    )


def test_ess_is_of_the_raw_ratio_over_tokens(batch, tiny):
    ratios = [math.exp(x) for each in responses(batch) for x in each]
    oracle = math.fsum(ratios) ** 2 / math.fsum(r * r for r in ratios) / len(ratios)
    assert rl_keys(batch, tiny())["rl/ess"] == pytest.approx(oracle, rel=1e-9)


def test_without_a_reference_model_kl_is_the_mismatch_the_other_way_round(batch, tiny):
    line = rl_keys(batch, tiny())
    clamped_to_five = [[max(-5.0, min(5.0, x)) for x in each] for each in responses(batch)]
    oracle = mean_of_means([[math.exp(-x) + x - 1 for x in each] for each in clamped_to_five])
    assert line["rl/kl"] == pytest.approx(oracle, rel=1e-9)
    assert line["rl/ref_logprobs"] == line["rl/old_logprobs"]
    assert line["rl/ratio_ref_old"] == 1


def test_versions_and_lag_are_counted_in_samples(batch, tiny):
    line = StepLog(tiny()).line(batch)
    assert line["stats/completed_steps"] == 3
    assert line["stats/samples"] == 24
    assert line["stats/min_actor_version"] == batch.started_versions.min() * 8
    assert line["stats/lag"] == 2 * 8 - line["stats/min_actor_version"]


def test_tokens_add_up_over_steps(tiny, weights):
    log = StepLog(tiny())
    lines = [log.line(batch) for batch in train(tiny(steps=2), weights)]
    assert lines[0]["stats/tokens"] < lines[1]["stats/tokens"]


def test_with_gspo_the_whole_response_is_inside_or_outside():
    settings = RunSettings(name="g", title="g", seed=0, objective=Objective(loss="gspo"))
    log_ratio, position = np.array([0.01, -0.0095, 0.5, -0.5]), np.array([0, 1, 0, 1])
    assert clamped(log_ratio, position, settings).tolist() == [False, False, False, False]
    assert clamped(log_ratio + np.array([0, 0, 0.001, 0.001]), position, settings).tolist() == [False, False, True, True]
