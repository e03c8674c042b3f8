"""Is a gap that grows along the response told from one that grows with time, or with improbability?"""

import numpy as np
import pytest

from monitor.diagnosis.outcome import Certainty, Finding, Passed, Severity, Skipped
from monitor.diagnosis.rules.numerics_growth_with_length import RULE
from tests.diagnosis_cases import case
from tests.numerics_tokens import responses, without


def growing(scale, length=64, **more):
    """Responses whose noise is multiplied by a function of the columns."""
    columns = responses(sd=0.03, length=length, **more)
    gap = columns["same_weights_logprob"] - columns["rollout_logprob"]
    return columns | {"same_weights_logprob": columns["rollout_logprob"] + gap * scale(columns)}


def check(tokens):
    return RULE.check(case(tokens=tokens))


def along(columns):
    return (1 + columns["position"]) ** 0.75 / 2


def test_late_tokens_are_worse():
    found = check(growing(along))
    assert (found.severity, found.certainty) == (Severity.WARNING, Certainty.MEASURED)
    assert found.evidence[0].curve.y[-1] > 3 * found.evidence[0].curve.y[0]


def test_early_tokens_that_are_worse_are_a_stale_prefix():
    assert isinstance(check(growing(lambda columns: 1 / along(columns))), Passed)


def test_late_tokens_that_are_only_more_improbable():
    """Entropy that rises along the response makes the gap rise with it; that is no fault."""
    columns = responses(sd=0.03, length=64)
    engine = columns["rollout_logprob"] * (1 + columns["position"]) / 64
    rng = np.random.default_rng(1)
    gap = 0.2 * np.minimum(-engine, 1.0) * rng.normal(size=len(engine))
    assert isinstance(check(columns | {"rollout_logprob": engine, "same_weights_logprob": engine + gap}), Passed)


def test_growth_with_time_alone_is_not_growth_with_length():
    assert isinstance(check(growing(lambda columns: columns["step"])), Passed)


def test_late_tokens_that_wait_for_updates():
    assert isinstance(check(growing(lambda columns: np.where(columns["step"] > 3, 8 * along(columns), 0.1))), Passed)


def test_short_responses_rise_in_health():
    """Runs of the lab: 16 tokens, a factor of 2 to 4."""
    assert isinstance(check(growing(lambda columns: 0.3 + columns["position"] / 16, length=16)), Passed)
    assert isinstance(check(growing(lambda columns: (1 + columns["position"]) ** 2 / 50, length=16)), Finding)


def test_a_bump_is_no_growth():
    """High from the first eighth of the response on but lower again at its end than in the middle."""
    shape = np.r_[np.full(4, 0.2), np.full(28, 6.0), np.full(32, 1.0)]
    assert isinstance(check(growing(lambda columns: shape[columns["position"]])), Passed)


def test_growth_far_under_the_floor_does_not_matter():
    assert isinstance(check(growing(lambda columns: along(columns) / 20)), Passed)


def test_one_token_a_response_cannot_tell():
    assert isinstance(check(responses(length=2)), Skipped)


def logged(gap, length, metric="kl.discrepancy.k3"):
    return RULE.check(case(scalars={metric: gap, "response_length.mean": length}))


LENGTHS = np.tile([460.0, 1200.0, 3400.0, 2000.0], 5)
KL = 0.22 + (LENGTHS - 460) / (3400 - 460) * 1.1


def test_field_report_a52():
    """KL 0.22 at 460 tokens, 1.2 to 1.4 at 3,400, the same weights."""
    found = logged(KL, LENGTHS)
    assert (found.severity, found.certainty) == (Severity.WARNING, Certainty.INDICATED)
    assert "0.22 at 460 tokens" in found.what


def test_a_total_is_a_note():
    assert logged(KL, LENGTHS, "kl.update.k3").severity is Severity.NOTE


def test_lengths_that_only_rise_cannot_be_told_from_time():
    found = logged(np.sort(KL), np.sort(LENGTHS) + np.arange(20))
    assert isinstance(found, Skipped)


@pytest.mark.parametrize("gap", [np.full(20, 0.01), np.linspace(0.2, 1.3, 20), KL[::-1] * 0 + np.tile([1.3, 0.8, 0.2, 0.5], 5)])
def test_gaps_that_do_not_follow_the_length(gap):
    """Flat; rising with the steps; worse for short responses."""
    assert isinstance(logged(gap, LENGTHS), Passed)


def test_lengths_that_do_not_change():
    assert isinstance(logged(KL, 1000 + LENGTHS / 100), Passed)


def test_without_the_length_it_names_the_metric():
    found = RULE.check(case(scalars={"kl.discrepancy.k3": KL}))
    assert isinstance(found, Skipped)
    assert found.record == ("response_length.mean",)


def test_a_total_of_tokens_does_not_count():
    tokens = without(growing(along), "rollout_version", "trainer_version")
    tokens["current_logprob"] = tokens.pop("same_weights_logprob")
    assert not isinstance(check(tokens), Finding)
