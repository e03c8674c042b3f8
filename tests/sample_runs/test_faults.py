"""Each fault leaves its signature, with the sign or the value that follows from what it does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from sample_runs.lab import fault_runs
from sample_runs.lab.faults import FAULTS, named, settings_of
from sample_runs.lab.folder import run_toml, train_and_log
from sample_runs.lab.runs import RUNS
from sample_runs.lab.settings import TrainerSettings
from sample_runs.lab.task import EOS, PAD
from sample_runs.lab.tokenizer import merges
from sample_runs.lab.warm_start import warm_start

STEPS = 4
SLOW, FAST = 1e-4, 1e-3  # learning rates: weights that hardly move show what else differs; fast ones what does not follow them
LAYERS = {"data", "semantics", "inference_path", "numerics", "lag", "objective"}
FLOOR = 0.012  # nats: the mean |discrepancy| of the bfloat16 engine on this barely trained model stays under it


class Ran:
    """The tokens of a short run, and its step log."""

    def __init__(self, settings, weights):
        parts = []
        self.lines, _ = train_and_log(
            settings, weights, lambda step, c, _age: parts.append({"step": np.full(len(c["reward"]), step), **c}), str
        )
        self.columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        self.engine, self.trainer, self.current = (
            self.columns[name].astype(np.float64) for name in ("rollout_logprob", "same_weights_logprob", "current_logprob")
        )
        self.gap, self.lag = self.trainer - self.engine, self.current - self.trainer
        self.step, self.position, self.ids = (self.columns[name] for name in ("step", "position", "token_id"))
        self.last = np.append(self.position[1:] == 0, True)

    def size(self, where=np.True_):
        return float(np.abs(self.gap)[np.broadcast_to(where, self.gap.shape)].mean())

    def ratio(self):
        """Mean ratio and its standard error."""
        ratio = np.exp(self.gap)
        return ratio.mean(), ratio.std(ddof=1) / np.sqrt(len(ratio))

    def kurtosis(self):
        off = self.gap - self.gap.mean()
        return (off**4).mean() / (off**2).mean() ** 2

    def correlation(self, shift):
        """Of the engine's with the trainer's log-probability so many tokens earlier, within responses."""
        a, b = (
            (self.engine[shift:], self.trainer[: len(self.trainer) - shift])
            if shift > 0
            else (self.engine[: shift or None], self.trainer[-shift:])
        )
        inside = (self.columns["sample_id"][abs(shift) :] == self.columns["sample_id"][: len(self.ids) - abs(shift)]) & np.isfinite(a)
        return np.corrcoef(a[inside], b[inside])[0, 1]


def settings(name, strength, steps, rate, **changes):
    run = replace(settings_of(named(name), strength, 7, steps), **changes)
    usual = run.trainer.learning_rate == TrainerSettings().learning_rate
    return replace(run, trainer=replace(run.trainer, learning_rate=rate)) if usual else run


@pytest.fixture(scope="module")
def starts():
    torch.set_num_threads(1)
    return {model: warm_start(0, model=model, scale=0.1, progress=str) for model in ("dense", "mixture")}


@pytest.fixture
def run(starts):
    def ran(name, strength="on", steps=STEPS, rate=SLOW, **changes):
        return Ran(settings(name, strength, steps, rate, **changes), starts[named(name).strengths[strength].get("model", "dense")])

    return ran


@pytest.fixture(scope="module")
def healthy(starts):
    return Ran(settings("healthy_v1", "on", STEPS, SLOW), starts["dense"])


def test_names_are_unique_and_layers_are_the_six():
    names = [fault.name for fault in FAULTS]
    assert len(set(names)) == len(names)
    assert all((fault.layer in LAYERS) is not fault.healthy and fault.strengths for fault in FAULTS)
    assert {fault.expected for fault in FAULTS if fault.healthy} == {"healthy"}


def test_a_switch_at_its_healthy_value_is_not_written_and_one_that_is_not_is():
    shipped = run_toml(RUNS[0])
    assert "[data]" not in shipped
    assert "sync_missing" not in shipped
    assert 'labels = "packed_roll"' in run_toml(settings_of(named("packed_boundary"), "packs_of_2", 1, 5))


def test_folders_are_written_once_and_the_warm_start_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(
        fault_runs, "warm_start", lambda seed, model, progress: warm_start(seed, model=model, scale=0.001, progress=progress)
    )
    fault_runs.start_of("dense", tmp_path)
    fault_runs.make_faults(tmp_path, ["fp8_body"], [9], 6, processes=1)
    folder = tmp_path / "fp8_body-on-seed9"
    assert sorted(path.name for path in folder.iterdir()) == ["expected.json", "run.toml", "steps.jsonl", "tokens.parquet"]
    before = folder.stat().st_mtime_ns
    fault_runs.make_faults(tmp_path, ["fp8_body-on"], [9], 6, processes=1)
    assert folder.stat().st_mtime_ns == before
    assert (tmp_path / "warm_start_dense.npz").exists()


@pytest.mark.parametrize("fault", [fault.name for fault in FAULTS if fault.healthy and fault.name != "healthy_lr0"])
def test_healthy_runs_agree(run, fault):
    ran = run(fault, steps=2)
    mean, error = ran.ratio()
    assert abs(mean - 1) < 4 * error + 1e-6
    assert ran.size() < FLOOR


# Data: something is wrong between the response and the labels.


@pytest.mark.parametrize(("strength", "shift"), [("next", 1), ("previous", -1), ("labels", None)])
def test_shifted_logprobs_fit_one_token_off(run, strength, shift):
    ran = run("shifted_logprobs", strength)
    fits = {by: ran.correlation(by) for by in (-1, 0, 1)}
    assert fits[0] < 0.5
    assert shift is None or (max(fits, key=fits.get) == shift and fits[shift] > 0.99)


def test_retokenised_rows_agree_up_to_the_merge_and_not_after(run, healthy):
    ran = run("retokenised_rows", "three_merges")
    pair = np.array([pair in merges(3) for pair in zip(ran.ids, np.append(ran.ids[1:], 0), strict=True)]) & ~ran.last
    response = np.cumsum(ran.position == 0) - 1
    merged_at = np.full(response[-1] + 1, 99)
    np.minimum.at(merged_at, response[pair], ran.position[pair])
    after, affected = ran.position >= merged_at[response], merged_at[response] < 99
    assert 0.005 < (merged_at < 99).mean() < 0.3
    assert (affected == np.isin(response, response[ran.trainer == 0.0])).all()  # short of a token, so the last one gets 0.0
    assert ran.size(~after) < 1.5 * healthy.size()
    assert ran.size(after) > 1


@pytest.mark.parametrize(("strength", "share"), [("packs_of_2", 0.5), ("packs_of_64", 63 / 64)])
def test_a_packed_boundary_costs_the_last_token_only(run, healthy, strength, share):
    ran = run("packed_boundary", strength)
    assert (ran.gap[ran.last] < -2).mean() == pytest.approx(share, abs=0.01)
    assert ran.size(~ran.last) < 1.5 * healthy.size(~healthy.last)


@pytest.mark.parametrize(("strength", "side"), [("engine", "engine"), ("trainer", "trainer")])
def test_zero_at_eos_is_exact_and_on_one_side(run, strength, side):
    ran = run("zero_at_eos", strength)
    values, others = getattr(ran, side), getattr(ran, {"engine": "trainer", "trainer": "engine"}[side])
    zero = values == 0.0
    assert set(ran.ids[zero]) == {EOS}
    assert zero.sum() > 0.4 * ran.last.sum()
    assert (others[zero] < 0).mean() > 0.9


def test_padding_in_the_mask_is_zero_in_the_engine_and_unlikely_in_the_trainer(run):
    ran = run("padding_in_mask", "to_16")
    padding = ran.engine == 0.0
    assert set(ran.ids[padding]) == {PAD}
    assert ran.columns["loss_mask"].all()
    assert (np.bincount(ran.columns["sample_id"]) % 16 == 0).all()
    assert ran.trainer[padding].max() < -1
    assert ran.ratio()[0] < 0.95


@pytest.mark.parametrize("strength", ["double_bos", "position"])
def test_a_wrong_context_start_is_there_before_any_update(run, healthy, strength):
    ran = run("wrong_context_start", strength)
    assert ran.size(ran.step == 1) > 10 * healthy.size(healthy.step == 1)
    assert ran.size(ran.position == 0) > 3 * healthy.size(healthy.position == 0)


def test_overlapping_updates_leave_nan_in_one_step_of_four(run):
    ran = run("nonfinite_engine", "1_in_4", steps=7)
    broken = np.isnan(ran.engine)
    assert 0 < broken.sum() < 40
    assert len(np.unique(ran.step[broken])) in (1, 2)  # a batch holds tokens of more than one push
    assert np.isfinite(ran.trainer).all()
    assert any(np.isnan(line["rl/loss"]) for line in ran.lines)


# Semantics: both sides are right about something else.


@pytest.mark.parametrize("strength", ["t07", "t13"])
def test_raw_logprobs_have_a_mean_ratio_over_1_and_a_positive_mean(run, strength):
    ran = run("raw_logprobs", strength)
    mean, error = ran.ratio()
    assert mean > 1 + 4 * error
    assert ran.gap.mean() > 0.01


@pytest.mark.parametrize("strength", ["t06", "t13"])
def test_a_forgotten_temperature_has_a_mean_ratio_of_1_and_a_negative_mean(run, strength):
    ran = run("trainer_forgets_temperature", strength)
    mean, error = ran.ratio()
    assert abs(mean - 1) < 4 * error
    assert ran.gap.mean() < -0.01


@pytest.mark.parametrize(("strength", "least"), [("p09", np.log(0.9)), ("k3", None)])
def test_truncated_sampling_has_the_kept_mass_as_mean_ratio(run, strength, least):
    ran = run("truncated_sampling", strength)
    assert (ran.gap < 3 * FLOOR).mean() > 0.99  # one side but for rounding
    if least is not None:
        assert (ran.gap > least - 5 * FLOOR).mean() > 0.99
        assert 0.9 < ran.ratio()[0] < 0.99
    assert ran.ratio()[0] < 0.99


def test_the_kept_mass_is_exact_in_float32(starts):
    settings = settings_of(named("truncated_sampling"), "p09", 7, 1)
    cut = Ran(replace(settings, engine=replace(settings.engine, dtype="float32")), starts["dense"])
    replayed = Ran(settings_of(named("healthy_top_p_replayed"), "on", 7, 1), starts["dense"])
    assert cut.gap.max() < 1e-4
    assert cut.gap.min() > np.log(0.9) - 1e-4
    first = cut.position == 0
    for group in np.unique(cut.columns["group_id"]):  # one prefix, one kept mass, whatever was drawn
        assert np.ptp(cut.gap[first & (cut.columns["group_id"] == group)]) < 1e-4
    assert abs(replayed.ratio()[0] - 1) < 4 * replayed.ratio()[1]


@pytest.mark.parametrize(("strength", "ranks"), [("2_ranks", 2), ("4_ranks", 4)])
def test_a_normaliser_summed_over_ranks_shifts_every_token_by_their_logarithm(run, strength, ranks):
    ran = run("constant_offset", strength)
    assert np.median(ran.gap) == pytest.approx(np.log(ranks), abs=0.005)
    assert ran.gap.std() < 3 * FLOOR


# Inference path: the engine does not hold what it says it holds.


@pytest.mark.parametrize(
    ("name", "strength"),
    [
        ("weights_not_synced", "all"),
        ("weights_not_synced", "layer"),
        ("stale_fp32_head", "for_ever"),
        ("stale_prefix_cache", "never_reset"),
    ],
)
def test_what_stays_behind_shows_after_the_first_push_and_grows(run, name, strength):
    ran = run(name, strength, steps=8, rate=FAST, prompts=8)
    assert ran.size(ran.columns["rollout_version"] == 0) < FLOOR
    assert ran.size(ran.step >= 7) > 2 * FLOOR
    assert ran.size(ran.step >= 7) > ran.size(ran.columns["rollout_version"] == 1) > ran.size(ran.columns["rollout_version"] == 0)


def test_engine_and_trainer_agree_again_when_the_head_is_copied_anew(run):
    ran = run("stale_fp32_head", "refreshed_every_8", steps=10, rate=FAST)
    version = ran.columns["rollout_version"]
    assert ran.size(version == 8) < 0.5 * ran.size(version == 7)


@pytest.mark.parametrize("strength", ["8_rows", "96_rows", "transposed", "experts"])
def test_damaged_weights_jump_at_the_first_push(run, strength):
    ran = run("weights_damaged", strength)
    version = ran.columns["rollout_version"]
    assert ran.size(version == 0) < FLOOR
    assert ran.size(version >= 1) > 2 * ran.size(version == 0)


def test_a_table_requantised_at_every_push_grows_though_nothing_is_learned(run):
    ran = run("grows_at_lr0", "every", steps=8)
    assert np.abs(ran.lag).max() < 1e-5
    assert ran.size(ran.step == 8) > 2 * ran.size(ran.step == 1)


def test_a_frozen_engine_says_so_and_only_the_lag_grows(run, healthy):
    ran = run("frozen_generator", "never")
    assert (ran.columns["rollout_version"] == 0).all()
    assert ran.size() < 1.5 * healthy.size()
    assert np.abs(ran.lag)[ran.step == STEPS].mean() > np.abs(ran.lag)[ran.step == 2].mean() > 0


# Numerics: the engine computes more coarsely.


@pytest.mark.parametrize(
    ("name", "strength", "times"),
    [("bf16_head", "on", 1.5), ("fp8_body", "on", 5), ("int4_body", "on", 10), ("fp8_kv_cache", "e4m3", 1.5), ("fp8_kv_cache", "e5m2", 2)],
)
def test_a_coarser_format_is_there_from_the_start_and_keeps_the_mean_ratio(run, healthy, name, strength, times):
    ran = run(name, strength)
    mean, error = ran.ratio()
    assert ran.size(ran.step == 1) > times * healthy.size(healthy.step == 1)
    assert abs(mean - 1) < 4 * error


def test_a_bfloat16_head_gives_differences_of_multiples_of_an_eighth(run):
    ran = run("bf16_head", "float32_body", steps=1)
    first = (ran.position == 0) & (ran.columns["rollout_version"] == 0)
    logits = [0.8 * ran.engine[first & (ran.columns["group_id"] == group)] for group in np.unique(ran.columns["group_id"])]
    steps = np.concatenate([np.diff(values) for values in logits]) * 8
    assert np.abs(steps - steps.round()).max() < 1e-4


def test_router_flips_are_few_and_large(run):
    ran, exact = run("moe_router_flips", "bf16"), run("healthy_moe")
    assert exact.size() < 1e-5
    assert np.quantile(np.abs(ran.gap), 0.5) < FLOOR
    assert ran.kurtosis() > 50


def test_growth_with_length_grows_along_the_response_more_than_entropy_explains(run, healthy):
    ran = run("growth_with_length", "8_bits")
    early, late = (ran.size(at(ran)) / healthy.size(at(healthy)) for at in (lambda r: r.position < 2, lambda r: r.position >= 6))
    assert late > 1.5 * early


def test_outliers_are_bound_to_prompts(run):
    ran = run("prompt_bound_outliers", "margin_13", steps=8, prompts=24)
    group, sample = ran.columns["group_id"], ran.columns["sample_id"]
    of_group = np.bincount(group, np.abs(ran.gap)) / np.maximum(np.bincount(group), 1)
    worst = np.argsort(of_group)[-8:]
    of_sample = np.array([ran.size(sample == s) for s in np.unique(sample[np.isin(group, worst)])])
    assert of_group.max() > 3 * np.median(of_group[of_group > 0])
    assert (of_sample > np.median(of_group[of_group > 0])).mean() > 0.8  # all samples of such a prompt


def test_spikes_are_rare_and_the_median_stays(run, healthy):
    narrow = replace(
        settings("rare_spikes", "headroom_17", STEPS, SLOW).engine_faults, mlp_accumulator=1.25
    )  # this model's sums are smaller
    ran = run("rare_spikes", "headroom_17", engine_faults=narrow)
    assert np.median(np.abs(ran.gap)) < 3 * np.median(np.abs(healthy.gap))
    assert ran.kurtosis() > 5 * healthy.kurtosis()
    assert (np.abs(ran.gap) > 0.5).mean() < 0.1


# Lag and objective: the engine is right.


def test_asynchrony_is_lag_only_and_more_with_depth(run, healthy):
    lags = []
    for strength in ("depth_2", "depth_4"):
        ran = run("async_lag", strength, steps=10)
        assert ran.size() < 1.5 * healthy.size()
        lags.append((ran.columns["trainer_version"] - ran.columns["rollout_version"])[ran.step > 8].mean())
    assert 2 < lags[0] < lags[1]


def test_the_objective_collapses_while_the_engine_agrees(run):
    ran = run("objective_collapse", "lr_40x", steps=8)
    mean, error = ran.ratio()
    assert np.abs(ran.lag).max() < 1e-5
    assert abs(mean - 1) < 4 * error + 1e-3
    assert ran.size() < 3 * FLOOR
    assert ran.lines[-1]["rl/entropy"] < 0.5 * ran.lines[0]["rl/entropy"]


@pytest.mark.parametrize("strength", ["depth_4", "frozen"])
def test_an_idle_clip_logs_a_ratio_of_1_while_the_engine_falls_behind(run, strength):
    ran = run("idle_clip", strength, steps=8)
    assert {(line["rl/ratio_new_old"], line["rl/clamp_log_ratio_new_old_indicator"], line["rl/kl_new_old"]) for line in ran.lines} == {
        (1.0, 0.0, 0.0)
    }
    assert (ran.columns["old_logprob"] == ran.columns["current_logprob"]).all()
    assert np.abs(ran.lag)[ran.step == 8].mean() > 0.01
