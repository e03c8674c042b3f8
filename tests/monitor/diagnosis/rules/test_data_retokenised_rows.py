"""Retokenised rows: a few responses wrong from a token on; not whole ones, not single tokens, not all of them."""

import functools

import numpy as np
import pytest

from monitor.diagnosis import diagnose
from monitor.diagnosis.outcome import Finding, Passed, Severity, Skipped
from monitor.diagnosis.rules.data_retokenised_rows import RULE
from tests.diagnosis_cases import case

LENGTH = 30


@functools.cache
def rows(count=120, noise=0.05):
    """Responses of LENGTH tokens, group by group of 4, with independent normal noise of a trainer."""
    rng = np.random.default_rng(4)
    engine = -rng.exponential(1.0, count * LENGTH)
    sample = np.repeat(np.arange(count), LENGTH)
    columns = {"sample_id": sample, "group_id": sample // 4, "position": np.tile(np.arange(LENGTH), count), "rollout_logprob": engine}
    return columns | {"current_logprob": engine + noise * rng.normal(size=len(engine))}


def wrong(columns, samples, start=10, end=LENGTH, size=8.0):
    """The trainer scores other tokens in these responses, from one place on: numbers that have nothing to do with the engine's."""
    at = np.isin(columns["sample_id"], samples) & (columns["position"] >= start) & (columns["position"] < end)
    other = -np.random.default_rng(5).exponential(size, len(at))
    return columns | {"current_logprob": np.where(at, other, columns["current_logprob"])}


def test_r11_two_rows_of_120_with_spikes_to_60():
    floor = np.sqrt(2 * 0.028)  # nats: the noise whose mean k3 is 0.028
    columns = wrong(rows(noise=floor), [17, 80])
    x = (columns["current_logprob"] - columns["rollout_logprob"])[columns["position"] < 10]
    assert np.mean(np.expm1(x) - x) == pytest.approx(0.028, rel=0.2)
    found = RULE.check(case(tokens=columns))
    assert isinstance(found, Finding)
    assert found.severity is Severity.WARNING
    assert "2 of 120 responses (1.7%)" in found.what
    assert found.evidence[0].curve.x[0] in range(10, 16)
    assert "response 17 of step 0" in found.look_at or "response 80 of step 0" in found.look_at


@pytest.mark.parametrize(("count", "severity"), [(1, Severity.WARNING), (4, Severity.WARNING), (24, Severity.CRITICAL)])
def test_from_one_row_to_a_fifth_of_them(count, severity):
    found = RULE.check(case(tokens=wrong(rows(), range(0, 5 * count, 5))))
    assert isinstance(found, Finding)
    assert found.severity is severity
    after, before = (next(one.value for one in found.evidence if one.metric.endswith(name)) for name in ("after", "before"))
    assert after > 4
    assert before < 1


def test_the_usual_noise_passes():
    assert isinstance(RULE.check(case(tokens=rows())), Passed)


def test_prompts_that_are_always_bad_pass():
    assert isinstance(RULE.check(case(tokens=wrong(rows(), range(20), start=0))), Passed)


def test_spikes_with_ordinary_tokens_behind_them_pass():
    columns = rows()
    for sample, place in ((3, 4), (40, 12), (77, 20), (100, 8)):
        columns = wrong(columns, [sample], start=place, end=place + 1, size=100.0)
    looked = case(tokens=columns)
    assert np.isfinite(looked.portrait.whole.sequences.onset).sum() == 4
    assert isinstance(RULE.check(looked), Passed)


def test_a_wrong_last_token_passes():
    assert isinstance(RULE.check(case(tokens=wrong(rows(), range(0, 120, 10), start=LENGTH - 1, size=100.0))), Passed)


def test_where_most_rows_are_wrong_it_is_not_some_rows():
    assert isinstance(RULE.check(case(tokens=wrong(rows(), range(60)))), Passed)


def test_padding_counted_at_the_end_is_another_fault():
    columns = rows()
    padded = np.isin(columns["sample_id"], range(0, 120, 10)) & (columns["position"] >= 15)
    filled = columns | {"rollout_logprob": np.where(padded, 0.0, columns["rollout_logprob"])}
    found = RULE.check(case(tokens=filled | {"current_logprob": np.where(padded, -9.0, columns["current_logprob"])}))
    assert isinstance(found, Passed)
    assert "exact zeros" in found.says


def test_without_the_trainers_side_it_is_skipped():
    columns = {name: values for name, values in rows().items() if name != "current_logprob"}
    found = diagnose._ask(RULE, case(tokens=columns), {})
    assert isinstance(found, Skipped)
    assert found.record == ("current_logprob",)


def test_what_lies_behind_must_be_far_and_far_above_the_usual():
    hits = range(0, 40, 5)

    def behind(nats, noise):
        columns = rows(noise=noise)
        at, first = np.isin(columns["sample_id"], hits) & (columns["position"] > 10), columns["position"] == 10
        gap = np.where(first & np.isin(columns["sample_id"], hits), -6.0, np.where(at, -nats, 0.0))
        return RULE.check(case(tokens=columns | {"current_logprob": columns["current_logprob"] + gap}))

    assert isinstance(behind(0.8, 0.02), Finding)
    assert isinstance(behind(0.3, 0.02), Passed)
    assert isinstance(behind(1.5, 0.25), Passed)


def test_two_spikes_in_one_short_response_are_chance():
    columns = rows()
    one = columns["sample_id"] == 7
    spiky = one & np.isin(columns["position"], [24, 28])
    short = ~one | (columns["position"] >= 22)
    kept = {name: values[short] for name, values in columns.items()}
    looked = case(tokens=kept | {"current_logprob": np.where(spiky, -12.0, columns["current_logprob"])[short]})
    assert np.nanmax(looked.portrait.whole.sequences.after) > 1
    assert isinstance(RULE.check(looked), Passed)
