"""Zeros in the mask: padding, tool tokens, an end token set by hand; not certainty, rounding or truncation."""

import functools

import numpy as np
import pytest

from monitor.diagnosis import diagnose
from monitor.diagnosis.outcome import Finding, Passed, Severity, Skipped
from monitor.diagnosis.rules.data_zeros_in_mask import RULE
from tests.diagnosis_cases import case, sampled

LENGTH, COUNT = 12, 200
SIDES = {"engine": "rollout_logprob", "trainer": "current_logprob"}


@functools.cache
def rows(noise=0.03):
    """Responses with an end token that is nearly certain, more so in some than in others."""
    rng = np.random.default_rng(11)
    position = np.tile(np.arange(LENGTH), COUNT)
    last = position == LENGTH - 1
    engine = np.where(last, -(10.0 ** rng.uniform(-6, -3, COUNT * LENGTH)), -rng.exponential(1.0, COUNT * LENGTH) - 1e-3)
    trainer = engine * np.exp(noise * rng.normal(size=len(engine)))
    return {"sample_id": np.repeat(np.arange(COUNT), LENGTH), "position": position, "rollout_logprob": engine, "current_logprob": trainer}


def zero(columns, side, where):
    return columns | {SIDES[side]: np.where(where, 0.0, columns[SIDES[side]])}


@pytest.mark.parametrize("side", SIDES)
def test_an_end_token_set_by_hand(side):
    columns = rows()
    found = RULE.check(case(tokens=zero(columns, side, columns["position"] == LENGTH - 1)))
    assert isinstance(found, Finding)
    assert found.severity is Severity.WARNING
    assert f"0.0 on the {side}'s side" in found.what
    assert "end token" in found.why
    assert found.evidence[0].value == 1


def test_an_end_token_set_by_hand_where_many_responses_end_by_their_length():
    columns = rows()
    last, ended = columns["position"] == LENGTH - 1, columns["sample_id"] % 3 == 0
    other = np.where(last & (~ended | (columns["sample_id"] < 12)), -2.0, columns["current_logprob"])
    found = RULE.check(case(tokens=zero(columns, "engine", last & ended) | {"current_logprob": other}))
    assert isinstance(found, Finding)
    assert "last token" in found.what


@pytest.mark.parametrize("side", SIDES)
def test_padding_that_counts(side):
    columns = rows()
    other = next(name for name in SIDES if name != side)
    padding = columns["position"] >= 8 + columns["sample_id"] % 4
    columns = columns | {SIDES[other]: np.where(padding, -12.0, columns[SIDES[other]])}
    found = RULE.check(case(tokens=zero(columns, side, padding)))
    assert isinstance(found, Finding)
    assert found.severity is Severity.CRITICAL
    assert "towards the end" in found.what
    assert f"on the {side}'s side" in found.what
    assert f"({padding.mean():.1%})" in found.what


def test_tool_output_that_counts():
    columns = rows()
    observed = (columns["position"] >= 3) & (columns["position"] < 5) & (columns["sample_id"] % 4 == 0)
    found = RULE.check(case(tokens=zero(columns, "engine", observed)))
    assert "inside responses" in found.what
    assert "tool output" in found.why


def test_a_side_that_was_filled_with_zeros():
    found = RULE.check(case(tokens=zero(rows(), "engine", True)))
    assert "nearly everywhere" in found.what
    assert "not recorded" in found.why


def test_masked_zeros_do_not_count():
    columns = rows()
    observed = columns["position"] == 3
    assert isinstance(RULE.check(case(tokens=zero(columns, "engine", observed))), Finding)
    assert isinstance(RULE.check(case(tokens=zero(columns, "engine", observed) | {"loss_mask": ~observed})), Passed)


def test_certainty_on_both_sides_passes():
    columns = rows()
    certain = columns["rollout_logprob"] > -1e-5
    assert isinstance(RULE.check(case(tokens=zero(zero(columns, "engine", certain), "trainer", certain))), Passed)


def test_a_low_temperature_makes_only_the_more_certain_end_tokens_zeros():
    columns = rows()
    sharp = (columns["position"] == LENGTH - 1) & (columns["rollout_logprob"] > -1e-4)
    looked = case(tokens=zero(columns, "engine", sharp))
    assert looked.portrait.whole.singular.exact_engine_last > 50
    assert isinstance(RULE.check(looked), Passed)


@pytest.mark.parametrize("top_p", [0.8, 0.95])
def test_truncation_that_leaves_one_token_passes(top_p):
    looked = case(tokens=sampled(3, steps=2, groups=6, samples=6, top_p=top_p, spread=4.0, noise=0.03))
    assert looked.portrait.whole.singular.exact_engine > 50
    assert isinstance(RULE.check(looked), Passed)


def test_a_log_softmax_in_low_precision_passes():
    columns = rows()
    rounded = np.round(columns["rollout_logprob"] * 4) / 4
    assert isinstance(RULE.check(case(tokens=columns | {"rollout_logprob": rounded})), Passed)


def test_without_the_trainers_side_it_is_skipped():
    columns = {name: values for name, values in rows().items() if name != "current_logprob"}
    found = diagnose._ask(RULE, case(tokens=columns), {})
    assert isinstance(found, Skipped)
    assert found.record == ("current_logprob",)


@pytest.mark.parametrize(("every", "severity"), [(20, Severity.WARNING), (4, Severity.CRITICAL)])
def test_the_share_decides_how_grave_it_is(every, severity):
    columns = rows()
    observed = (columns["position"] == 3) & (columns["sample_id"] % every == 0)
    filled = columns | {"current_logprob": np.where(observed, -7.0, columns["current_logprob"])}
    assert RULE.check(case(tokens=zero(filled, "engine", observed))).severity is severity


def test_a_handful_among_thousands_of_tokens_passes():
    columns = {
        name: np.concatenate([values + (COUNT * k if name == "sample_id" else 0) for k in range(3)]) for name, values in rows().items()
    }
    observed = (columns["position"] == 3) & (columns["sample_id"] % 200 == 7)
    filled = columns | {"current_logprob": np.where(observed, -7.0, columns["current_logprob"])}
    looked = case(tokens=zero(filled, "engine", observed))
    assert looked.portrait.whole.singular.zero_engine == 3
    assert isinstance(RULE.check(looked), Passed)


@pytest.mark.parametrize(("share", "kind"), [(0.5, Finding), (0.1, Passed)])
def test_some_last_tokens_are_enough_only_where_a_few_contradict_clearly(share, kind):
    columns = {
        name: np.concatenate([values + (COUNT * k if name == "sample_id" else 0) for k in range(3)]) for name, values in rows().items()
    }
    last = columns["position"] == LENGTH - 1
    hand = last & (columns["sample_id"] < 3 * COUNT * share)
    other = np.where(hand & (columns["sample_id"] < 4), -3.0, np.where(last, -1e-3, columns["current_logprob"]))
    assert isinstance(RULE.check(case(tokens=zero(columns, "engine", hand) | {"current_logprob": other})), kind)


@pytest.mark.parametrize(("elsewhere", "kind"), [(0.02, Finding), (0.2, Passed)])
def test_zeros_of_certain_tokens_elsewhere_are_rounding(elsewhere, kind):
    columns = rows()
    last = columns["position"] == LENGTH - 1
    certain = ~last & (np.random.default_rng(15).random(len(last)) < elsewhere)
    filled = columns | {"current_logprob": np.where(certain, -1e-3, columns["current_logprob"])}
    assert isinstance(RULE.check(case(tokens=zero(filled, "engine", last | certain))), kind)
