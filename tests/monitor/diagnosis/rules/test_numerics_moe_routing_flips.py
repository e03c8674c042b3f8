"""Are routing flips told from broad noise and from faults that are tied to places, prompts and times?"""

import numpy as np
import pytest

from monitor.diagnosis.outcome import Certainty, Finding, Passed, Severity, Skipped
from monitor.diagnosis.rules.numerics_moe_routing_flips import RULE
from tests.diagnosis_cases import case
from tests.numerics_tokens import moved, responses, without


def flips(share, seed=1, where=None, sd=0.03, size=1.2):
    """Some tokens, at random or among those of `where`, jump by about `size` nats."""
    rng = np.random.default_rng(seed)
    columns = responses(sd=sd)
    allowed = np.ones(len(columns["step"]), bool) if where is None else where(columns)
    rows = np.flatnonzero(allowed & (rng.random(len(allowed)) < share))
    return moved(columns, rows, size * rng.normal(size=len(rows)))


def check(tokens):
    return RULE.check(case(tokens=tokens))


@pytest.mark.parametrize(("share", "severity"), [(0.005, Severity.WARNING), (0.06, Severity.CRITICAL), (0.1, Severity.CRITICAL)])
def test_flips(share, severity):
    """Field reports A49 and A50: about a tenth of the routers disagree; the share beyond ln 2 is what to count."""
    found = check(flips(share, sd=0.015))
    assert isinstance(found, Finding)
    assert (found.severity, found.certainty) == (severity, Certainty.MEASURED)


def test_simulated_six_per_cent_of_flips():
    """Field reports, C1: kurtosis 138."""
    found = check(flips(0.06, sd=0.012, size=0.8))
    assert isinstance(found, Finding)
    assert found.evidence[1].value > 20


@pytest.mark.parametrize("sd", [0.05, 0.3, 0.6])
def test_broad_noise_is_one_kind_of_token(sd):
    """The nearest neighbour, a coarse body: as many tokens beyond ln 2 at 0.6 nats, and no floor below them."""
    assert isinstance(check(responses(sd=sd)), Passed)


@pytest.mark.parametrize(
    ("where", "share", "said"),
    [
        (lambda columns: columns["position"] == 19, 0.8, "last"),
        (lambda columns: columns["position"] == 1, 0.3, "places"),
        (lambda columns: columns["group_id"] % 8 == 0, 0.5, "prompts"),
        (lambda columns: columns["step"] > 4, 0.05, "at first"),
    ],
)
def test_far_tokens_that_are_tied_to_something(where, share, said):
    found = check(flips(share, where=where, sd=0.01))
    assert isinstance(found, Passed)
    assert said in found.says


def test_a_handful_is_no_pattern():
    """Five of 1,280 tokens; twenty of 25,600; nearly all."""
    few = responses(steps=1, sd=0.01)
    assert isinstance(check(moved(few, [10, 300, 500, 800, 1100], 1.5)), Passed)
    rare = responses(steps=20, sd=0.005)
    assert isinstance(check(moved(rare, np.arange(7, 25600, 1283), 1.5)), Passed)
    assert "of 7680 tokens" in check(flips(0.6, size=3, sd=0.001)).says


def test_heavy_tails_of_one_kind():
    """int4 and fp8 of the lab have such tails: many tokens beyond ln 2, and no floor far below them."""
    columns = responses(sd=0.0)
    unsure = np.flatnonzero(columns["rollout_logprob"] < 0)
    found = check(moved(columns, unsure, 0.1 * np.random.default_rng(0).standard_t(2, size=len(unsure))))
    assert "a noise of that breadth" in found.says


def test_many_flips_of_low_kurtosis_are_another_policy():
    assert "a noise of that breadth" in check(flips(0.3, sd=0.005)).says


def test_flips_that_hardly_were_there_at_first():
    late = flips(0.05, where=lambda columns: columns["step"] > 4, sd=0.01)
    assert "at first" in check(moved(late, [50, 900, 2000], 1.0)).says


def test_a_total_cannot_tell():
    tokens = without(flips(0.06), "rollout_version", "trainer_version")
    tokens["current_logprob"] = tokens.pop("same_weights_logprob")
    found = check(tokens)
    assert isinstance(found, Skipped)
    assert found.record == ("same_weights_logprob",)


def test_the_step_log_alone_lacks_tokens():
    assert RULE.missing(case(scalars={"log_ratio.discrepancy.abs_mean": [0.1]})) == ("tokens",)
