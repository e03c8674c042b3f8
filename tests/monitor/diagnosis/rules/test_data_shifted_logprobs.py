"""Shifted log-probabilities: both directions, two tokens, unshifted labels; not damaged weights, wrong places or another temperature."""

import functools

import numpy as np
import pytest

from monitor.diagnosis import diagnose
from monitor.diagnosis.outcome import Certainty, Finding, Passed, Severity, Skipped
from monitor.diagnosis.rules.data_shifted_logprobs import RULE
from tests.diagnosis_cases import case, sampled


@functools.cache
def healthy(temperature=1.0, trainer_temperature=None, steps=3):
    return sampled(3, steps=steps, groups=6, samples=4, temperature=temperature, trainer_temperature=trainer_temperature, noise=0.03)


def moved(columns, shift, steps=None):
    """The trainer's side stands `shift` tokens later in each response; the places left over keep the value of the response's end."""
    trainer = columns["same_weights_logprob"].copy()
    for sample in np.unique(columns["sample_id"]):
        rows = np.flatnonzero(columns["sample_id"] == sample)
        if steps is None or columns["step"][rows[0]] in steps:
            trainer[rows] = np.roll(trainer[rows], shift)
    return columns | {"same_weights_logprob": trainer, "current_logprob": trainer}


def shuffled(columns, steps=None):
    """The trainer's numbers are those of other tokens, further from the engine's, as with labels that were not shifted."""
    trainer = np.random.default_rng(0).permutation(columns["same_weights_logprob"]) - 6
    trainer = trainer if steps is None else np.where(np.isin(columns["step"], steps), trainer, columns["same_weights_logprob"])
    return columns | {"same_weights_logprob": trainer, "current_logprob": trainer}


@pytest.mark.parametrize(
    ("shift", "words"), [(1, "1 token later"), (-1, "1 token earlier"), (2, "2 tokens later"), (-2, "2 tokens earlier")]
)
def test_the_shift_is_found_with_its_sign(shift, words):
    found = RULE.check(case(tokens=moved(healthy(), shift)))
    assert isinstance(found, Finding)
    assert (found.severity, found.certainty) == (Severity.CRITICAL, Certainty.MEASURED)
    assert words in found.what
    curve = found.evidence[0].curve
    assert max(zip(curve.y, curve.x, strict=True))[1] == shift
    assert found.evidence[0].value < 0.3


def test_a_shift_in_some_steps_says_which():
    found = RULE.check(case(tokens=moved(healthy(steps=5), 1, steps=[2, 3])))
    assert (found.since, found.until) == (2, 3)
    assert "in 2 of 5 steps" in found.what


def test_a_few_dozen_tokens_are_enough():
    few = {name: values[:48] for name, values in moved(healthy(), 1).items()}
    assert isinstance(RULE.check(case(tokens=few)), Finding)
    assert isinstance(RULE.check(case(tokens={name: values[:48] for name, values in healthy().items()})), Passed)


def test_labels_that_were_not_shifted_correlate_nowhere():
    found = RULE.check(case(tokens=shuffled(healthy())))
    assert isinstance(found, Finding)
    assert "do not belong to the same tokens" in found.what


@pytest.mark.parametrize("temperatures", [(1.0, 1.0), (0.6, 1.0), (1.3, 1.0)], ids=str)
def test_healthy_and_wrong_temperature_pass(temperatures):
    found = RULE.check(case(tokens=healthy(*temperatures)))
    assert isinstance(found, Passed)
    assert found.evidence[0].value > 0.9


def test_weights_damaged_after_the_first_step_pass():
    assert isinstance(RULE.check(case(tokens=shuffled(healthy(steps=5), steps=[2, 3, 4, 5]))), Passed)


def test_wrong_last_tokens_alone_pass_though_the_correlation_is_low():
    columns = healthy()
    trainer = np.where(columns["position"] == 11, -18.0, columns["same_weights_logprob"])
    looked = case(tokens=columns | {"same_weights_logprob": trainer})
    assert looked.portrait.whole.correlation_at(0) < 0.3
    assert isinstance(RULE.check(looked), Passed)


def test_sides_that_do_not_vary_cannot_be_correlated():
    found = RULE.check(case(tokens={"rollout_logprob": [-1.0] * 20, "current_logprob": [-1.0] * 20}))
    assert isinstance(found, Skipped)
    assert "current_logprob" in found.record


def test_without_the_trainers_side_it_is_skipped():
    found = diagnose._ask(RULE, case(tokens={"rollout_logprob": [-1.0, -2.0]}), {})
    assert isinstance(found, Skipped)
    assert "current_logprob" in found.record


@pytest.mark.parametrize(("pearson", "kind"), [(0.03, Finding), (0.4, Finding), (0.97, Passed), (0.998, Passed)])
def test_a_step_log_with_a_correlation(pearson, kind):
    found = RULE.check(case(scalars={"prob_correlation.discrepancy.pearson": [pearson] * 4}))
    assert isinstance(found, kind)
    assert kind is Passed or found.certainty is Certainty.INDICATED


def test_a_correlation_lost_later_is_no_shift():
    assert isinstance(RULE.check(case(scalars={"prob_correlation.total.pearson": [0.99] * 5 + [0.1] * 20})), Passed)


@pytest.mark.parametrize(
    "scalars",
    [
        {"log_ratio.discrepancy.abs_mean": [0.011, 0.012]},
        {"log_ratio.discrepancy.exp_abs_mean": [1.012, 1.013]},
        {"kl.total.k3": [0.001, 0.002], "entropy.mean": [0.8, 0.8]},
    ],
    ids=lambda scalars: next(iter(scalars)),
)
def test_a_small_gap_in_the_step_log_rules_a_shift_out(scalars):
    assert isinstance(RULE.check(case(scalars=scalars)), Passed)


@pytest.mark.parametrize("scalars", [{"log_ratio.discrepancy.abs_mean": [1.4]}, {"kl.total.k3": [11.0], "entropy.mean": [0.8]}])
def test_a_large_gap_in_the_step_log_does_not_say_why(scalars):
    found = RULE.check(case(scalars=scalars))
    assert isinstance(found, Skipped)
    assert "rollout_logprob" in found.record


def mixed(own, neighbour, noise, count=400, offset=0.0):
    """Responses whose trainer's side is made of the engine's at the same place, at the one before, and of chance."""
    rng = np.random.default_rng(12)
    z = rng.normal(size=(count // 20, 20))
    other = own * z + neighbour * np.roll(z, 1, axis=1) + noise * rng.normal(size=z.shape) - offset
    columns = {"sample_id": np.repeat(np.arange(count // 20), 20), "position": np.tile(np.arange(20), count // 20)}
    return columns | {"rollout_logprob": z.ravel() - 5, "current_logprob": other.ravel() - 5}


@pytest.mark.parametrize(
    ("columns", "kind"),
    [
        (mixed(0.0, 1.0, 0.1), Finding),
        (mixed(0.2, 1.0, 0.5), Finding),
        (mixed(0.0, 0.5, 1.0), Passed),
        (mixed(0.6, 0.75, 0.1, count=2000), Passed),
        (mixed(0.0, 1.0, 1.0, count=20), Passed),
        (mixed(0.2, 0.0, 1.0, offset=4.0), Finding),
        (mixed(0.6, 0.0, 1.0, offset=6.0), Passed),
        (mixed(0.0, 0.0, 0.1), Passed),
    ],
    ids=["clear", "noisy", "weakly related", "hardly better than none", "too few", "unrelated", "related", "unrelated, but near"],
)
def test_how_much_better_and_how_far(columns, kind):
    assert isinstance(RULE.check(case(tokens=columns)), kind)
