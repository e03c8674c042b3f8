"""Wrong context: early tokens off before any update, in long and in short responses; not temperature, caches or hard first tokens."""

import functools

import numpy as np
import pytest

from monitor.diagnosis import diagnose
from monitor.diagnosis.outcome import Finding, Passed, Severity, Skipped
from monitor.diagnosis.rules.data_wrong_context_start import RULE
from tests.diagnosis_cases import case, sampled

VOCABULARY = 24


@functools.cache
def samples(length, seed=0, count=48, steps=2, harder=0.0):
    """Logits of the engine at each place (S, length, V), what was drawn from them, and the step of each response."""
    rng = np.random.default_rng(seed)
    spread = np.where(np.arange(length) < 8, 2.5, 2.5 + harder)
    z = spread[:, None] * rng.normal(size=(count * steps, length, VOCABULARY))
    drawn = (log_softmax(z) + rng.gumbel(size=z.shape)).argmax(axis=-1)
    return z, drawn, np.repeat(np.arange(1, steps + 1), count)


def log_softmax(z):
    return z - np.log(np.exp(z).sum(axis=-1, keepdims=True))


def tokens(length, effect, *, decay=6.0, steps=(1, 2), first_version=0, harder=0.0, noise=0.03):
    """Token columns: in the steps named the trainer's logits are off by `effect` nats at the first token, and less further on."""
    z, drawn, step = samples(length, harder=harder)
    rng = np.random.default_rng(9)
    size = effect * np.exp(-np.arange(length) / decay) * np.isin(step, steps)[:, None]
    own, other = log_softmax(z), log_softmax(z + size[..., None] * rng.normal(size=z.shape) + noise * rng.normal(size=z.shape))
    engine, trainer = (np.take_along_axis(side, drawn[..., None], axis=-1).ravel() for side in (own, other))
    count = len(step)
    versions = np.repeat(step - 1 + first_version, length)
    columns = {
        "step": np.repeat(step, length),
        "sample_id": np.repeat(np.arange(count), length),
        "position": np.tile(np.arange(length), count),
    }
    columns |= {"rollout_logprob": engine, "same_weights_logprob": trainer, "current_logprob": trainer}
    return columns | {"rollout_version": versions, "trainer_version": versions}


def test_long_responses_fall_back_to_the_floor():
    found = RULE.check(case(tokens=tokens(96, 0.6)))
    assert isinstance(found, Finding)
    assert found.severity is Severity.CRITICAL
    assert found.since == 1
    curve = found.evidence[0].curve.y
    assert curve[0] > 0.3
    assert curve[12] < 0.1


def test_short_responses_stay_off():
    found = RULE.check(case(tokens=tokens(12, 3.0, decay=100.0)))
    assert isinstance(found, Finding)
    assert "correlate at only" in found.what


@pytest.mark.parametrize("noise", [0.03, 0.1])
@pytest.mark.parametrize("length", [12, 96])
def test_noise_alone_passes(length, noise):
    assert isinstance(RULE.check(case(tokens=tokens(length, 0.0, noise=noise))), Passed)


def test_first_tokens_that_are_harder_pass():
    """Chat models are least sure of their first tokens, so noise of logits is seen most there."""
    looked = case(tokens=tokens(96, 0.0, harder=20.0, noise=0.4))
    early, late = (looked.portrait.whole.place[part].sum(axis=0) for part in (slice(0, 4), slice(9, None)))
    assert early[2] / early[0] > 4 * late[2] / late[0]
    assert isinstance(RULE.check(looked), Passed)


def test_a_stale_prefix_cache_is_not_there_at_the_first_step():
    assert isinstance(RULE.check(case(tokens=tokens(96, 0.6, steps=(2,)))), Passed)


@pytest.mark.parametrize("pair", [(0.6, 1.0), (1.0, 0.6)], ids=["trainer forgets 0.6", "trainer divides by 0.6"])
def test_a_wrong_temperature_passes(pair):
    temperature, trainer = pair
    columns = sampled(3, steps=2, groups=6, samples=6, temperature=temperature, trainer_temperature=trainer, noise=0.03)
    assert isinstance(RULE.check(case(tokens=columns)), Passed)


def test_growth_with_the_place_passes():
    columns = tokens(96, 0.0)
    trainer = columns["same_weights_logprob"] - 0.01 * columns["position"] * (columns["sample_id"] % 2 * 2 - 1)
    assert isinstance(RULE.check(case(tokens=columns | {"same_weights_logprob": trainer})), Passed)


def test_a_log_that_begins_late_cannot_exclude_a_stale_cache():
    late = tokens(96, 0.6, first_version=500)
    found = RULE.check(case(tokens=late))
    assert found.severity is Severity.NOTE
    assert "stale prefix cache" in found.what
    assert RULE.check(case(tokens=late, config={"engine.enable_prefix_caching": False})).severity is Severity.CRITICAL


@pytest.mark.parametrize(("dtype", "severity"), [("fp8_e5m2", Severity.NOTE), ("auto", Severity.CRITICAL)])
def test_a_coarse_cache_is_as_likely_in_short_responses(dtype, severity):
    found = RULE.check(case(tokens=tokens(12, 3.0, decay=100.0), config={"engine.kv_cache_dtype": dtype}))
    assert found.severity is severity


def test_too_few_responses_are_not_judged():
    few = {name: values[:36] for name, values in tokens(12, 3.0).items()}
    assert isinstance(RULE.check(case(tokens=few)), Skipped)


def test_without_the_trainers_side_it_is_skipped():
    columns = {name: values for name, values in tokens(12, 3.0).items() if name not in ("current_logprob", "same_weights_logprob")}
    found = diagnose._ask(RULE, case(tokens=columns), {})
    assert isinstance(found, Skipped)
    assert found.record == ("current_logprob",)


def two_sides(correlation, nats, length=12, count=60):
    """Responses whose sides correlate so much and lie about so many nats apart."""
    rng = np.random.default_rng(13)
    one, two = rng.normal(size=(2, count * length))
    other = correlation * one + np.sqrt(1 - correlation**2) * two
    scale = nats / np.abs(other - one).mean()
    columns = {"sample_id": np.repeat(np.arange(count), length), "position": np.tile(np.arange(length), count)}
    return columns | {"rollout_logprob": scale * one - 9, "current_logprob": scale * other - 9}


@pytest.mark.parametrize(
    ("columns", "kind"),
    [
        (two_sides(0.5, 0.9), Finding),
        (two_sides(0.5, 0.9, length=60), Passed),
        (two_sides(0.5, 0.35), Passed),
        (two_sides(0.84, 0.9), Passed),
        (tokens(96, 0.15, noise=0.003), Passed),
    ],
    ids=["another context", "no less in long responses", "near", "alike", "within the noise of bfloat16"],
)
def test_how_far_and_how_unlike(columns, kind):
    assert isinstance(RULE.check(case(tokens=columns)), kind)


@pytest.mark.parametrize(
    ("slope", "level", "bend", "kind"),
    [(0.4, 1.0, 0.0, Passed), (1.0, 5.0, 0.3, Passed), (0.4, 1.0, 2.0, Finding)],
    ids=["a line", "a constant", "neither"],
)
def test_a_line_or_a_constant_at_each_prefix_is_no_other_context(slope, level, bend, kind):
    """First tokens of many samples a prompt; the two sides hardly correlate over prompts."""
    rng = np.random.default_rng(14)
    engine, at_prompt = rng.normal(size=(12, 20)), level * rng.normal(size=(12, 1))
    trainer = slope * engine + at_prompt + bend * rng.normal(size=engine.shape)
    columns = {"sample_id": np.arange(240), "group_id": np.repeat(np.arange(12), 20), "position": np.zeros(240)}
    columns |= {"rollout_logprob": engine.ravel() - 20, "current_logprob": trainer.ravel() - 20}
    looked = case(tokens=columns)
    assert looked.portrait.whole.correlation_at(0) < 0.5
    assert isinstance(RULE.check(looked), kind)
