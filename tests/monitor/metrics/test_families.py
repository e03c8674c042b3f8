"""Every metric computed from tokens against its oracle, on logs with masked, non-finite and extreme tokens."""

import numpy as np
import pytest

from monitor.metrics import clip, ess, finite, kl, lag, log_ratio, ratio, shape, split
from monitor.metrics.bounds import ClipBounds
from monitor.metrics.histogram import WORST_RELATIVE_ERROR
from monitor.metrics.terms import RATIOS
from tests import oracles
from tests.token_tables import log_ratios, of_log_ratio, random_tokens, rows

BOUNDS = ClipBounds(eps_low=0.1, eps_high=0.25, sequence_eps_low=0.02, sequence_eps_high=0.05)
MILD = random_tokens(11, 300, steps=1, sd=0.2)
WILD = random_tokens(12, 300, steps=1, sd=6.0)
SHORT = random_tokens(13, 300, steps=1, sequences=150)  # about two tokens a response, so that some lie under one version only
CASES = [(tokens, term) for tokens in (MILD, WILD) for term in RATIOS]


def wanted(tokens, term):
    """Metric id -> value by the oracles, for one ratio."""
    kept = log_ratios(tokens)
    x, owner, gain = kept[term], kept["sample_id"], kept["advantage"]
    known = np.isfinite(gain)
    found = {
        "log_ratio.{}.mean": oracles.log_ratio_mean(x),
        "log_ratio.{}.abs_mean": oracles.log_ratio_abs_mean(x),
        "log_ratio.{}.sd": oracles.log_ratio_sd(x),
        "log_ratio.{}.min": oracles.log_ratio_min(x),
        "log_ratio.{}.max": oracles.log_ratio_max(x),
        "ratio.{}.mean": oracles.ratio_mean(x),
        "ratio.{}.z": oracles.ratio_z(x),
        "ratio.{}.largest_share": oracles.ratio_largest_share(x),
        "kl.{}.k1": oracles.k1(x),
        "kl.{}.k2": oracles.k2(x),
        "kl.{}.k3": oracles.k3(x),
        "clip_rate.{}.outside": oracles.clip_outside(x[np.abs(x) < 700], BOUNDS.eps_low, BOUNDS.eps_high),
        "clip_rate.{}.effective": oracles.clip_effective(x[known], gain[known], BOUNDS.eps_low, BOUNDS.eps_high),
        "clip_rate.{}.sequence": oracles.clip_sequence(x, owner, BOUNDS.sequence_eps_low, BOUNDS.sequence_eps_high),
        "ess.{}.token": oracles.ess(x),
        "ess.{}.sequence": oracles.ess_sequence(x, owner),
        "ess.{}.sequence_mean": oracles.ess_sequence_mean(x, owner),
    }
    return {name.format(term): value for name, value in found.items()}


@pytest.mark.parametrize(("tokens", "term"), CASES)
def test_values_are_those_of_the_oracles(tokens, term):
    found = rows(tokens, bounds=BOUNDS)
    for name, value in wanted(tokens, term).items():
        assert found[name, 0]["value"] == pytest.approx(value, rel=1e-9, abs=0), name


@pytest.mark.parametrize(("tokens", "term"), CASES)
def test_quantiles_are_within_their_stated_error(tokens, term):
    x, found = log_ratios(tokens)[term], rows(tokens)
    for q in log_ratio.QUANTILES:
        exact = oracles.log_ratio_quantile(x, q)
        value = found[f"log_ratio.{term}.p{round(q * 100):02d}", 0]["value"]
        assert abs(value - exact) <= abs(exact) * WORST_RELATIVE_ERROR * 1.0000001


@pytest.mark.parametrize("term", RATIOS)
def test_standard_errors_are_those_of_the_oracles(term):
    kept, found = log_ratios(MILD), rows(MILD, bounds=BOUNDS)
    x, n = kept[term], len(kept[term])
    outside = found[f"clip_rate.{term}.outside", 0]
    errors = {
        f"log_ratio.{term}.mean": oracles.mean_error(x),
        f"log_ratio.{term}.abs_mean": oracles.mean_error(np.abs(x)),
        f"ratio.{term}.mean": oracles.ratio_mean_error(x),
        f"kl.{term}.k1": oracles.mean_error(x),
        f"kl.{term}.k2": oracles.mean_error(x**2 / 2),
        f"kl.{term}.k3": oracles.k3_error(x),
        f"clip_rate.{term}.outside": np.sqrt(outside["value"] * (1 - outside["value"]) / n),
    }
    for name, error in errors.items():
        assert found[name, 0]["standard_error"] == pytest.approx(error, rel=1e-9, abs=0), name
        assert found[name, 0]["n"] == n
    for name in ("ess.{}.token", "log_ratio.{}.sd", "log_ratio.{}.p50", "ratio.{}.largest_share"):
        assert found[name.format(term), 0]["standard_error"] is None


@pytest.mark.parametrize("tokens", [WILD, SHORT])
def test_what_describes_the_batch_is_that_of_the_oracles(tokens):
    found = rows(tokens)
    columns = {name: np.array(tokens[name].to_pylist()) for name in tokens.column_names}
    mask = columns.pop("loss_mask")
    kept = {name: column[mask] for name, column in columns.items()}
    mean_lag, max_lag, shares = oracles.version_lag(kept["trainer_version"], kept["rollout_version"])
    lengths = np.unique(kept["sample_id"], return_counts=True)[1]
    expected = {
        "entropy.mean": oracles.mean(kept["entropy"]),
        "reward.mean": oracles.reward(kept["reward"], kept["sample_id"]),
        "response_length.mean": oracles.mean(lengths),
        "tokens.count": mask.sum(),
        "sequences.count": len(lengths),
        "version_lag.mean": mean_lag,
        "version_lag.max": max_lag,
        "version_lag.spanning": oracles.version_spanning(kept["rollout_version"], kept["sample_id"]),
        "positive.engine": oracles.positive(kept["rollout_logprob"]),
        "positive.trainer": oracles.positive(kept["same_weights_logprob"], kept["current_logprob"]),
        "repeated.rows": oracles.repeated(kept["sample_id"], kept["position"]),
        "nonfinite.engine": oracles.nonfinite(kept["rollout_logprob"]),
        "nonfinite.trainer": oracles.nonfinite(kept["same_weights_logprob"], kept["current_logprob"]),
        "split.discrepancy.share": oracles.split_share(log_ratios(tokens)["discrepancy"], log_ratios(tokens)["lag"])[0],
        "split.lag.share": oracles.split_share(log_ratios(tokens)["discrepancy"], log_ratios(tokens)["lag"])[1],
    }
    for name, value in expected.items():
        assert found[name, 0]["value"] == pytest.approx(value, rel=1e-12, abs=0), name
    assert found["entropy.mean", 0]["standard_error"] == pytest.approx(oracles.mean_error(kept["entropy"]))
    named = {f"version_lag.share_{lag_ if 0 <= lag_ <= 64 else 'negative' if lag_ < 0 else 'over_64'}": 0.0 for lag_ in shares}
    for lag_, value in shares.items():
        named[f"version_lag.share_{lag_ if 0 <= lag_ <= 64 else 'negative' if lag_ < 0 else 'over_64'}"] += value
    assert {name: row["value"] for (name, _), row in found.items() if name.startswith("version_lag.share")} == pytest.approx(named)


def test_every_computed_metric_is_compared_with_an_oracle_here():
    compared = {name for term in RATIOS for name in wanted(MILD, term)}
    others = {metric.id for family in (split, lag, shape, finite) for metric in family.METRICS}
    quantiles = {f"log_ratio.{term}.p{round(q * 100):02d}" for term in RATIOS for q in log_ratio.QUANTILES}
    families = (log_ratio, ratio, kl, clip, ess, split, lag, shape, finite)
    assert {metric.id for family in families for metric in family.METRICS} == compared | others | quantiles


def test_what_overflows_is_infinite_and_visible():
    found = rows(of_log_ratio([999.0, 0.0, 0.1, -0.1]))
    assert found["ratio.total.mean", 0]["value"] == np.inf
    assert found["kl.total.k3", 0]["value"] == np.inf
    assert found["kl.total.k3", 0]["standard_error"] == np.inf
    assert found["ess.total.token", 0]["value"] == pytest.approx(0.25)
    assert "saturated" in found["ess.total.token", 0]["caveat"]


def test_tokens_without_a_finite_advantage_or_entropy_are_named_in_the_caveat():
    found = rows(MILD)
    left_out = int((~np.isfinite(log_ratios(MILD)["advantage"])).sum())
    assert left_out
    assert f"{left_out} tokens without a finite advantage left out" in found["clip_rate.total.effective", 0]["caveat"]


def test_a_share_of_nothing_is_not_emitted():
    same = rows(of_log_ratio([0.0, 0.0], same_weights_logprob=[0.0, 0.0]))
    assert ("split.lag.share", 0) not in same
    assert ("split.lag.share", 0) in rows(of_log_ratio([0.0, 0.5], same_weights_logprob=[0.0, 0.0]))


def test_responses_without_a_finite_reward_are_left_out_and_named():
    found = rows(of_log_ratio([0.0] * 3, sample_id=[0, 1, 1], reward=[2.0, np.nan, np.nan]))["reward.mean", 0]
    assert (found["value"], found["n"]) == (2.0, 1)
    assert found["caveat"] == "1 responses without a finite value left out"


def test_non_finite_tokens_are_told_apart_by_side():
    found = rows(of_log_ratio([np.nan, np.inf, 0.0, 0.0], rollout_logprob=[0.0, 0.0, 0.0, -np.inf]))
    assert (found["nonfinite.engine", 0]["value"], found["nonfinite.trainer", 0]["value"]) == (1.0, 2.0)
    assert found["nonfinite.engine", 0]["n"] == 4


def test_a_response_under_one_version_does_not_span():
    versions = {"rollout_version": [1, 1, 1, 2], "sample_id": [0, 0, 1, 1], "trainer_version": [2] * 4}
    assert rows(of_log_ratio([0.0] * 4, **versions))["version_lag.spanning", 0]["value"] == 0.5
