"""Figures people posted with the cause they found (`tests/data/field_cases.yaml`): the smallest log with them gets that verdict."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
import yaml

from ingest.run import ProblemKind, ReadProblem
from monitor.diagnosis.diagnose import diagnose
from monitor.metrics.bounds import ClipBounds
from tests.diagnosis_cases import case, sampled
from tests.token_tables import of_log_ratio, rows, table

CASES = {row["id"]: row for row in yaml.safe_load((Path(__file__).parents[2] / "data" / "field_cases.yaml").read_text())}


def _verdict(found):
    """Layer, and ids of everything found above a note."""
    told = diagnose(found)
    return told.layer, [one.rule.id for one in told.answers if one.at_fault], told


def _gap(columns):
    return columns["same_weights_logprob"] - columns["rollout_logprob"]


def _healthy(sd, n, seed=0):
    """Token columns of n tokens whose gap is the logit noise of a real sampler with the standard deviation asked for."""
    steps = -(-n // (8 * 8 * 12))
    noise = sd * 0.065 / 0.0512
    return {name: values[:n] for name, values in sampled(seed, noise=noise, steps=steps).items()}


def test_r1_truncation_at_top_p_08():
    told = CASES["R1_topp08"]
    columns = sampled(top_p=told["top_p"], spread=4.5, noise=0.02, steps=3)
    w = np.exp(_gap(columns))
    assert w.mean() == pytest.approx(told["ratio_mean"], abs=0.01)
    assert (w < 0.9).mean() == pytest.approx(told["outside_0.9_1.1"], abs=0.1)
    layer, ids, _ = _verdict(case(tokens=columns))
    assert (layer, ids[0]) == ("semantics", "semantics_truncated_sampling")


def test_r1_after_both_sides_cut_alike_there_is_nothing():
    told = CASES["R1_topp08"]["after_renormalise"]
    columns = sampled(top_p=0.8, spread=4.5, noise=0.09, steps=3, trainer_replays=True)
    w = np.exp(_gap(columns))
    assert w.mean() == pytest.approx(told["ratio_mean"], abs=0.005)
    assert ((w < 0.9) | (w > 1.1)).mean() == pytest.approx(told["outside"], abs=0.03)
    assert _verdict(case(tokens=columns))[0] is None


@pytest.mark.parametrize("figures", ["R3_floor_bf16", "control_trainer_vs_trainer"])
def test_r3_the_floor_of_bfloat16_is_no_fault(figures):
    told = CASES["R3_floor_bf16"] | CASES["R3_floor_bf16"].get(figures, {})
    columns = _healthy(told["d_sd"], told["n_tokens"])
    d = _gap(columns)
    assert d.std() == pytest.approx(told["d_sd"], rel=0.1)
    assert np.quantile(np.abs(d), 0.95) == pytest.approx(told["d_p95abs"], rel=0.2)
    layer, ids, _ = _verdict(case(tokens=columns, config={"sampling.temperature": 1.0, "sampling.top_p": 1.0}))
    assert (layer, ids) == (None, [])


def test_r4_a_ratio_on_its_cap_is_the_temperature():
    told = CASES["R4_temperature_capped"]
    ratios = told["first_token_ratio"]
    scalars = {f"ratio.total.{name}": [ratios[0]] for name in ("mean", "max", "min")}
    layer, ids, found = _verdict(case(scalars=scalars, config={"sampling.temperature": told["T"]}))
    assert (layer, ids[0]) == ("semantics", "semantics_raw_logprobs")
    assert "cap" in " ".join(each.says for one in found.findings for each in one.outcome.evidence)
    tokens = {"sample_id": [0, 1], "position": [0, 0], "rollout_logprob": [-2.0, -3.0]}
    tokens["current_logprob"] = np.array(tokens["rollout_logprob"]) + np.log(ratios)
    assert _verdict(case(tokens=tokens, config={"sampling.temperature": told["T"]}))[0] == "semantics"


def test_r4_the_control_at_temperature_1_is_none():
    low, high = CASES["R4_temperature_capped"]["control_T1_range"]
    scalars = {"ratio.total.mean": [1.001], "ratio.total.min": [low], "ratio.total.max": [high]}
    assert _verdict(case(scalars=scalars, config={"sampling.temperature": 1.0}))[0] is None


def _scored_text(temperature, noise):
    """Eight texts that the engine did not sample, scored at T = 1 by one side and divided by T by the other; they share a prompt."""
    columns = sampled(7, steps=1, groups=8, samples=8, length=40, temperature=1.7, vocabulary=50, noise=0.0)
    again = sampled(
        7,
        steps=1,
        groups=8,
        samples=8,
        length=40,
        temperature=1.7,
        vocabulary=50,
        engine_reports_raw=True,
        trainer_temperature=temperature,
        noise=noise,
    )
    assert np.array_equal(columns["token_id"], again["token_id"])
    return again


def test_r5_the_temperature_is_fitted_without_a_sign_rule():
    told = CASES["R5_tau_fit"]
    columns = _scored_text(told["tau"], 0.02)
    assert _gap(columns).mean() < -0.5
    layer, ids, found = _verdict(case(tokens=columns, config={"tokens.sampled": False}))
    assert layer == "semantics"
    assert set(ids) & {"semantics_raw_logprobs", "semantics_trainer_forgets_temperature"}
    assert "0.7" in found.verdict
    assert _verdict(case(tokens=_scored_text(1.0, 0.02), config={"tokens.sampled": False}))[0] is None


@pytest.mark.parametrize("steps", [2, 12])
def test_r7_broken_after_the_first_sync(steps):
    told = CASES["R7_first_sync"]
    values = [told["abs_gap_before"], *[told["abs_gap_after"]] * (steps - 1)]
    layer, ids, _ = _verdict(case(scalars={"log_ratio.discrepancy.abs_mean": values}))
    assert (layer, ids) == ("inference_path", ["inference_path_weights_damaged"])


def test_r8_the_same_start_and_another_slope_is_the_path():
    told = CASES["R8_drift"]
    rng = np.random.default_rng(0)
    steps = told["steps"]
    flat = told["a_flat"] * (1 + 0.05 * rng.normal(size=steps))
    drift = np.linspace(told["b_start"], told["b_end"], steps)
    assert _verdict(case(scalars={"log_ratio.discrepancy.abs_mean": flat}))[0] is None
    layer, ids, _ = _verdict(case(scalars={"log_ratio.discrepancy.abs_mean": drift}))
    assert layer == "inference_path"
    assert not [name for name in ids if name.startswith("semantics")]


def test_r10_some_prompts_are_always_bad():
    told = CASES["R10_sequence_outliers"]
    rng = np.random.default_rng(1)
    count, length, samples = told["sequences"], 20, 2
    bad = np.repeat(rng.permutation(count // samples) < told["outliers"] // samples, samples)
    size = np.where(bad, np.log(rng.uniform(*told["outlier_value"], count)), 0.02)
    x = (size[:, None] * rng.choice([-1, 1], (count, length))).ravel()
    engine = np.where(x > 0, -np.abs(x) - 1, -1.0)
    columns = {"sample_id": np.repeat(np.arange(count), length), "group_id": np.repeat(np.arange(count) // samples, length)}
    columns |= {"position": np.tile(np.arange(length), count), "rollout_logprob": engine, "same_weights_logprob": engine + x}
    layer, ids, _ = _verdict(case(tokens=columns))
    assert (layer, ids[0]) == ("numerics", "numerics_prompt_bound_outliers")


def test_r11_a_percent_of_rows_extreme_from_a_token_on():
    told = CASES["R11_retokenise"]
    rng = np.random.default_rng(2)
    count, length = told["rows"], 30
    x = rng.normal(0, np.sqrt(2 * told["kld_ok"]) / 5, (count, length))
    for row, onset in ((17, 11), (80, 4)):
        x[row, onset:] = -rng.uniform(5, told["kld_spike"] / 6, length - onset)
    x = x.ravel()
    columns = {"sample_id": np.repeat(np.arange(count), length), "group_id": np.repeat(np.arange(count), length)}
    columns |= {
        "position": np.tile(np.arange(length), count),
        "rollout_logprob": np.full(x.size, -1.0),
        "same_weights_logprob": np.minimum(x - 1, 0),
    }
    layer, ids, _ = _verdict(case(tokens=columns))
    assert (layer, ids) == ("data", ["data_retokenised_rows"])


@pytest.mark.parametrize("name", ["R11_retokenise", "R12_length_mismatch"])
def test_r12_lengths_that_differ(name):
    told = CASES[name]
    more = told.get("len_diff") or told["extra"]
    what = "the lists of this response differ in length, or one is missing; the response is left out"
    what += f": current_logprob {73 + more}, token_id 73"
    problems = [
        ReadProblem(path="dump.parquet", place=f"row group 0, row {row}", what=what, rows=1, kind=ProblemKind.LOST) for row in range(20)
    ]
    layer, ids, _ = _verdict(case(problems=problems))
    assert (layer, ids) == ("data", ["data_length_mismatch"])


@pytest.mark.parametrize("gap", ["kl.total.k3", "log_ratio.total.abs_mean"])
def test_r13_an_idle_clip_while_the_gap_grows(gap):
    told = CASES["R13_idle_clip"]
    idle = {"clip_rate.update.outside": [told["clip"]] * 33, "ratio.update.mean": [told["ratio"]] * 33}
    grown = np.geomspace(1e-6, 1e-6 * told["gap_growth"], 33)
    layer, ids, _ = _verdict(case(scalars=idle | {gap: grown}))
    assert (layer, ids) == ("objective", ["objective_idle_clip"])
    flat = 1e-6 * (1 + 0.05 * np.random.default_rng(0).normal(size=33))
    assert _verdict(case(scalars=idle | {gap: flat}))[0] is None


def test_r15_an_ess_above_1():
    layer, ids, _ = _verdict(case(scalars={"ess.total.token": [CASES["R15_ess_range"]["logged_ess"]]}))
    assert (layer, ids) == ("data", ["data_metric_out_of_range"])


def test_r16_a_ratio_outside_its_bounds_is_rejected():
    told = CASES["R16_k1_bounds"]
    low, high = told["bounds"]
    found = rows(of_log_ratio([-told["k1"]]), bounds=ClipBounds(eps_low=1 - low, eps_high=high - 1))
    assert found["clip_rate.total.outside", 0]["value"] == 1
    assert [-np.log(high), -np.log(low)] == pytest.approx(told["right_interval"], abs=1e-4)
    assert not told["right_interval"][0] <= told["k1"] <= told["right_interval"][1]


def test_r17_only_the_last_token_of_each_packed_response():
    told = CASES["R17_packed_roll"]
    rng = np.random.default_rng(3)
    starts, ids, wrong = told["cu_seqlens"], np.array(told["ids"]), np.array(told["wrong_labels"])
    right = np.concatenate([np.append(ids[low + 1 : high], -1) for low, high in itertools.pairwise(starts)])
    assert (wrong != right).tolist() == [place + 1 in starts for place in range(len(ids))]
    lengths = np.diff(starts)
    sample, position = np.repeat(np.arange(2), lengths), np.concatenate([np.arange(n) for n in lengths])
    copies = 32
    last = np.tile(np.isin(np.arange(1, len(ids) + 1), starts), copies)
    x = np.where(last, -rng.uniform(4, 9, last.size), rng.normal(0, 0.02, last.size))
    columns = {"sample_id": np.concatenate([sample + 2 * k for k in range(copies)]), "position": np.tile(position, copies)}
    columns |= {"rollout_logprob": np.full(x.size, -1.0), "same_weights_logprob": x - 1}
    layer, found, _ = _verdict(case(tokens=columns))
    assert (layer, found) == ("data", ["data_packed_boundary"])


@pytest.mark.parametrize("side", ["trainer32_engine16", "trainer16_engine32"])
def test_r18_a_one_sided_head_adds_a_third(side):
    told = CASES["R18_head_matrix"]
    assert 0.27 < told[side] / told["fp32_fp32"] - 1 < 0.34
    references = {f"seed{seed}": case(tokens=_healthy(told["fp32_fp32"], 9000, seed)).frame for seed in (1, 2)}
    layer, _, found = _verdict(case(tokens=_healthy(told[side], 9000, 3), references=references))
    assert layer == "numerics"
    assert "27 to 33" in " ".join(
        f"{one.outcome.what} {one.outcome.why} {[e.says for e in one.outcome.evidence]}" for one in found.findings
    )
    assert _verdict(case(tokens=_healthy(told["fp32_fp32"], 9000, 4), references=references))[0] is None


def test_r19_a_policy_that_did_not_move_does_not_lag():
    told = CASES["R19_unmoved"]
    low, high = told["ratio_range"]
    scalars = {
        "ratio.total.min": [low] * 5,
        "ratio.total.max": [high] * 5,
        "ratio.total.abs_deviation": [told["mean_abs_ratio_minus_1"]] * 5,
    }
    scalars |= {"clip_rate.total.outside": [told["clip"]] * 5, "grad_norm.global": [told["grad_norm"]] * 5}
    layer, ids, found = _verdict(case(scalars=scalars))
    assert (layer, ids) == (None, [])
    said = {one.rule.id: str(one.outcome) for one in found.answers}["lag_policy_lag"]
    assert "did not move" in said


def test_r21_nan_of_the_engine_is_counted_not_dropped():
    told = CASES["R21_nan_steps"]
    share, steps = told["nan_step_share"], 50
    here = np.where(np.arange(steps) == 20, np.nan, 1.0)
    assert np.isnan(here).mean() == share
    names = ("kl.discrepancy.k3", "kl_swapped.discrepancy.k3", "js.discrepancy", "log_ratio.discrepancy.abs_mean")
    scalars = dict.fromkeys(names, 0.01 * here) | dict.fromkeys(("log_ratio.discrepancy.exp_abs_mean", "ratio.discrepancy.mean"), here)
    assert len(scalars) == told["metrics_hit"]
    config = {"engine.pipeline_parallel_size": told["pipeline_parallel"], "engine.weight_sync": "in_flight"}
    layer, ids, found = _verdict(case(scalars=scalars, config=config))
    assert (layer, ids) == ("inference_path", ["inference_path_nonfinite_engine"])
    assert found.first.outcome.since == 21
    columns = sampled(steps=steps, groups=2, samples=2, length=4)
    columns["rollout_logprob"][np.flatnonzero(columns["step"] == 21)[:3]] = np.nan
    assert _verdict(case(tokens=columns))[0] == "inference_path"


def test_r22_both_directions_of_the_kl():
    told = CASES["R22_kl_directions"]
    one = rows(table(rollout_logprob=[told["engine_lp"]], current_logprob=[told["trainer_lp"]]))
    other = rows(table(rollout_logprob=[told["trainer_lp"]], current_logprob=[told["engine_lp"]]))
    assert one["kl.total.k3", 0]["value"] == pytest.approx(told["gen_kl"], rel=1e-6)
    assert other["kl.total.k3", 0]["value"] == pytest.approx(told["policy_kl"], rel=1e-6)


def test_r23_a_constant_bias():
    told = CASES["R23_constant_bias"]
    rng = np.random.default_rng(4)
    n = 4000
    x = told["d_constant"] + rng.uniform(told["measured"][0] - told["d_constant"], told["measured"][1] - told["d_constant"], n)
    engine = -rng.exponential(1.0, n) - 0.02
    columns = {
        "sample_id": np.arange(n) // 20,
        "position": np.arange(n) % 20,
        "rollout_logprob": engine,
        "same_weights_logprob": engine + x,
    }
    layer, ids, _ = _verdict(case(tokens=columns))
    assert (layer, ids) == ("semantics", ["semantics_constant_offset"])


@pytest.mark.parametrize("replay", ["off", "on"])
def test_r25_mild_truncation(replay):
    told = CASES["R25_truncation_mild"][replay == "on"]  # YAML reads on and off as truth values
    noise, n = 0.025, 40_000
    rng = np.random.default_rng(5)
    engine = -rng.exponential(1.0, n) - 0.3
    kept = np.where(rng.random(n) < 0.05, rng.uniform(0.9, 1.0, n), 1.0)
    cut = np.log(kept) - np.log(kept).mean() + told["d_mean"] + noise**2 / 2 if replay == "off" else np.zeros(n)
    x = cut + rng.normal(-(noise**2) / 2, noise, n)
    columns = {
        "sample_id": np.arange(n) // 40,
        "position": np.arange(n) % 40,
        "rollout_logprob": engine,
        "same_weights_logprob": engine + x,
    }
    assert x.mean() == pytest.approx(told["d_mean"], abs=6e-4)
    assert np.exp(x).mean() == pytest.approx(told["ratio_mean"], abs=6e-4)
    layer, ids, _ = _verdict(case(tokens=columns))
    assert (layer, ids) == (("semantics", ["semantics_truncated_sampling"]) if replay == "off" else (None, []))
