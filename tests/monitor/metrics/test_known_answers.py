"""Every case of tests/data/known_answers.yaml: inputs whose right answer is known by definition."""

import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import yaml

from ingest.schema import METRIC_FRAME
from monitor.metrics import ess, kernel, kernel_numpy, sanity
from monitor.metrics.bounds import ClipBounds
from monitor.metrics.frame import from_partials
from tests.token_tables import of_log_ratio, rows, table

CASES = {case["id"]: case for case in yaml.safe_load(Path("tests/data/known_answers.yaml").read_text(encoding="utf-8"))}
DEFERRED_TO = {"nothing_mapped": "the tests of the command line: no metric exists before a column is known"}
KERNELS = (kernel, kernel_numpy)


def test_every_case_has_a_test_here_or_a_named_place():
    here = {name.removeprefix("test_case_") for name in globals() if name.startswith("test_case_")}
    assert set(DEFERRED_TO) == {"nothing_mapped"}
    assert here | set(DEFERRED_TO) == set(CASES)
    assert not here & set(DEFERRED_TO)


def constant_terms(discrepancy, lag, tokens=640, version_lag=1):
    ones = np.ones(tokens)
    return table(
        rollout_logprob=-5 * ones,
        same_weights_logprob=-5 * ones + discrepancy,
        current_logprob=-5 * ones + discrepancy + lag,
        sample_id=np.arange(tokens) // 20,
        rollout_version=np.zeros(tokens),
        trainer_version=version_lag * ones,
    )


def values(tokens, **options):
    return {name: row["value"] for (name, _), row in rows(tokens, **options).items()}


@pytest.mark.parametrize("one", KERNELS)
def test_case_equal_split(one):
    expect, found = CASES["equal_split"]["expect"], values(constant_terms(0.1, 0.1), kernel=one)
    # The columns are float32: 0.1 on top of -5 is stored to within 2.4e-7.
    assert found["log_ratio.discrepancy.mean"] == pytest.approx(expect["discrepancy_mean"], abs=3e-7)
    assert found["log_ratio.lag.mean"] == pytest.approx(expect["lag_mean"], abs=5e-7)
    assert found["log_ratio.total.mean"] == pytest.approx(expect["total_mean"], abs=3e-7)
    shares = [found["split.discrepancy.share"], found["split.lag.share"]]
    assert shares == pytest.approx(expect["shares"], abs=3e-6)


@pytest.mark.parametrize("one", KERNELS)
def test_case_cancelling_split(one):
    expect, tokens = CASES["cancelling_split"]["expect"], constant_terms(0.1, -0.1)
    found = values(tokens, kernel=one)
    assert found["log_ratio.total.mean"] == expect["total_mean"]
    assert found["log_ratio.discrepancy.mean"] == pytest.approx(expect["discrepancy_mean"], abs=3e-7)
    assert found["log_ratio.lag.mean"] == pytest.approx(expect["lag_mean"], abs=3e-7)
    odd = sanity.check(from_partials(one.partials(tokens, ClipBounds())))
    assert any("discrepancy +0.1, lag -0.1, total +0 nats; the total alone says nothing" in oddity.text for oddity in odd)


def test_case_no_lag_zero_tokens_exact():
    case = CASES["no_lag_zero_tokens_exact"]
    tokens = constant_terms(0.1, 0.1, version_lag=3)
    assert set(case["given"]["columns"]) <= set(tokens.column_names)
    caveat = rows(tokens)["kl.lag.k3", 0]["caveat"]
    assert caveat == f"split: {case['expect']['provenance']}"


def test_case_no_lag_zero_tokens_without_same_weights():
    expect = CASES["no_lag_zero_tokens_without_same_weights"]["expect"]
    found = rows(constant_terms(0.1, 0.1, version_lag=3).drop_columns(["same_weights_logprob"]))
    caveat = found["kl.total.k3", 0]["caveat"]
    assert caveat.startswith(f"split: {expect['provenance']}")
    assert f"log {expect['names_column_to_log']}" in caveat
    assert not any(".lag." in name or ".discrepancy." in name for name, _ in found)


@pytest.mark.parametrize("one", KERNELS)
@pytest.mark.parametrize(("case", "x"), [("overflow", 999.0), ("underflow", -999.0)])
def test_case_overflow(case, x, one):
    found = values(of_log_ratio([x] * 2 + [0.0] * 665), kernel=one)
    assert found["ess.total.token"] == pytest.approx(CASES[case]["expect"]["ess_token"], rel=1e-14, abs=0)
    assert found["nonfinite.engine"] == found["nonfinite.trainer"] == CASES["overflow"]["expect"]["nonfinite"]


test_case_underflow = test_case_overflow


@pytest.mark.parametrize("one", KERNELS)
def test_case_lognormal(one):
    sd, n = 0.5, 10**6
    x = np.random.default_rng(20260727).normal(-(sd**2) / 2, sd, n)
    found = rows(of_log_ratio(x), kernel=one)
    # Standard error of the ESS by the delta method: gradient (2/m1, -1/m2) * ess at m1 = E w = 1, m2 = E w^2 = e^(sd^2).
    m2, m3, m4 = (math.exp(k * (k - 1) / 2 * sd**2) for k in (2, 3, 4))
    spread = 4 * (m2 - 1) - 4 * (m3 / m2 - 1) + (m4 / m2**2 - 1)
    error = math.exp(-(sd**2)) * math.sqrt(spread / n)
    assert error < 2e-3
    assert found["ess.total.token", 0]["value"] == pytest.approx(math.exp(-(sd**2)), abs=3 * error)
    mean, k3 = found["ratio.total.mean", 0], found["kl.total.k3", 0]
    assert mean["value"] == pytest.approx(1, abs=3 * mean["standard_error"])
    assert k3["value"] == pytest.approx(sd**2 / 2, abs=3 * k3["standard_error"])
    assert mean["standard_error"] == pytest.approx(math.sqrt((m2 - 1) / n), rel=0.01)


@pytest.mark.parametrize("one", KERNELS)
def test_case_constant_offset(one):
    expect = CASES["constant_offset"]["expect"]
    tokens = table(rollout_logprob=[-5.0] * 640, current_logprob=[-2.0] * 640)
    found = values(tokens, kernel=one)
    assert found["ratio.total.mean"] == pytest.approx(expect["mean_ratio"], rel=1e-14, abs=0)
    assert found["ess.total.token"] == pytest.approx(expect["ess_token"], abs=1e-12)
    odd = sanity.check(from_partials(one.partials(tokens, ClipBounds())))
    assert any(oddity.text.startswith(expect["finding"]) for oddity in odd)
    assert (found["kl.total.k1"], found["kl.total.k2"]) == (-3.0, 4.5)  # never KL 0
    assert found["kl.total.k3"] == pytest.approx(math.exp(3) - 4)


@pytest.mark.parametrize("one", KERNELS)
def test_case_kl_directions(one):
    case = CASES["kl_directions"]
    engine, trainer = case["given"]["rollout_logprob"], case["given"]["current_logprob"]
    forth = values(table(rollout_logprob=[engine], current_logprob=[trainer]), kernel=one)
    back = values(table(rollout_logprob=[trainer], current_logprob=[engine]), kernel=one)
    assert forth["kl.total.k3"] == pytest.approx(case["expect"]["k3_engine_to_trainer"], rel=1e-14, abs=0)
    assert back["kl.total.k3"] == pytest.approx(case["expect"]["k3_trainer_to_engine"], rel=1e-14, abs=0)


def test_case_ess_floor():
    case = CASES["ess_floor"]
    low, high = case["given"]["weights_truncated_to"]
    assert ess.truncation_floor(low, high) == pytest.approx(case["expect"]["floor"], rel=1e-14, abs=0)
    said = ess.floor_sentence("this key", low=low, high=high, threshold=0.5)
    assert case["expect"]["say"] in said
    assert ess.floor_sentence("this key", low=low, high=high, threshold=0.7) == ""
    assert ess.truncation_floor(0.0, 2.0) == 0.0
    with pytest.raises(ValueError, match="truncated to"):
        ess.truncation_floor(2.0, 1.0)


def logged(**series):
    rest = {"n": None, "standard_error": None, "origin": "logged", "source_key": "", "caveat": ""}
    found = [{"metric": name, "step": step, "value": value} | rest for name, steps in series.items() for step, value in enumerate(steps)]
    return pa.Table.from_pylist(found, schema=METRIC_FRAME)


def test_case_ess_out_of_range():
    case = CASES["ess_out_of_range"]
    (odd,) = sanity.check(logged(**{"ess.total.token": [case["given"]["logged_ess"]]}))
    assert case["expect"]["finding"] in odd.text
    assert case["expect"]["never"] not in odd.text


def test_case_nonfinite_metrics():
    expect = CASES["nonfinite_metrics"]["expect"]["finding"].removesuffix(" ...")
    bad = set(range(37, 197, 16))
    norm = [math.nan if step in bad else 1.0 for step in range(200)]
    kl = [math.inf if step in bad else 0.01 for step in range(200)]
    odd = sanity.check(logged(**{"grad_norm.global": norm, "kl.total.k3": kl}))
    assert [oddity.metric for oddity in odd if oddity.what == "non-finite"] == ["grad_norm.global", "kl.total.k3"]
    assert all(f"{expect} step 37" in oddity.text for oddity in odd if oddity.what == "non-finite")


@pytest.mark.parametrize("one", KERNELS)
def test_case_empty_mask(one):
    tokens = table(step=[3, 3, 4], current_logprob=[-1.0] * 3, loss_mask=[False, False, True])
    found = rows(tokens, kernel=one)
    empty = {name: row for (name, step), row in found.items() if step == 3}
    assert {"kl.total.k3", "ess.total.sequence", "clip_rate.total.outside", "ratio.total.mean"} <= set(empty)
    for name, row in empty.items():
        assert row["n"] == 0
        assert math.isnan(row["value"]) or name.endswith(".count") or name.startswith(("nonfinite.", "positive."))


@pytest.mark.parametrize("one", KERNELS)
def test_case_clip_sides(one):
    case = CASES["clip_sides"]
    tokens = of_log_ratio(np.log(case["given"]["ratios"]), advantage=case["given"]["advantages"])
    bounds = ClipBounds(eps_low=case["given"]["eps"], eps_high=case["given"]["eps"])
    found = values(tokens, bounds=bounds, kernel=one)
    assert found["clip_rate.total.outside"] == case["expect"]["outside"]
    assert found["clip_rate.total.effective"] == case["expect"]["effective"]


@pytest.mark.parametrize("one", KERNELS)
def test_case_two_levels(one):
    sequences, length, sd = 4096, CASES["two_levels"]["given"]["tokens_per_sequence"], 0.03
    x = np.random.default_rng(20260727).normal(0, sd, sequences * length)
    found = values(of_log_ratio(x, sample_id=np.repeat(np.arange(sequences), length)), kernel=one)
    assert found["ess.total.token"] == pytest.approx(math.exp(-(sd**2)), rel=1e-4)
    # The sample ESS of 4096 log-normal weights with sd^2 = 0.9 scatters by about 0.02.
    assert found["ess.total.sequence"] == pytest.approx(math.exp(-length * sd**2), abs=0.05)


@pytest.mark.parametrize("one", KERNELS)
def test_case_masked_zeros(one):
    clean = table(rollout_logprob=[-1.0, -2.0], current_logprob=[-1.5, -2.25])
    tool = table(rollout_logprob=[-1.0, 0.0, -2.0], current_logprob=[-1.5, -9.0, -2.25], loss_mask=[True, False, True])
    assert values(tool, kernel=one) == values(clean, kernel=one)


def test_case_fixed_text():
    tokens = table(rollout_logprob=[-5.0] * 64, current_logprob=[-2.0] * 64)
    found = rows(tokens, void="the tokens were not sampled by the engine (scored text)")
    assert "mean-ratio test void: the tokens were not sampled by the engine" in found["ratio.total.mean", 0]["caveat"]
    assert ("ratio.total.z", 0) not in found
