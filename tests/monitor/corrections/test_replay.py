"""The replay of a whole log: its ESS is the metric frame's, every row is counted, and what a log cannot give is said."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.load import load
from ingest.tokens import open_piece, token_log
from monitor.corrections._replay_recipes import NONE, Action, Family, cispo, dlc, gspo, icepop, mis, ppo_clip, tis
from monitor.corrections._replay_tokens import sides, synchronous
from monitor.corrections.replay import DEFAULT, LEVELS, MEASURES, replayed
from monitor.metrics import kernel
from monitor.metrics.bounds import ClipBounds
from monitor.metrics.frame import metric_frame
from monitor.metrics.provenance import provenance
from monitor.metrics.series import series
from monitor.metrics.terms import Level, Provenance, Ratio
from tests.diagnosis_cases import run_of
from tests.monitor.corrections.replayed import run_with
from tests.token_tables import random_tokens, table

SAMPLES = Path(__file__).parents[3] / "sample_runs"


@pytest.mark.parametrize("seed", range(4))
def test_the_ess_is_that_of_the_metric_frame_on_hostile_tokens_too(seed):
    run = run_of(tokens=random_tokens(seed))
    found, frame = replayed(run, [NONE]), metric_frame(run)
    for level in LEVELS:
        told = series(frame, f"ess.lag.{level}")
        assert found.steps.tolist() == told.steps.tolist()
        np.testing.assert_allclose(found.ess[level], told.values, rtol=1e-10)


def test_every_counted_row_is_replayed_or_left_out():
    tokens = random_tokens(7)
    found, frame = replayed(run_of(tokens=tokens), [NONE]), metric_frame(run_of(tokens=tokens))
    masked_in = int(series(frame, "tokens.count").values.sum())
    assert int(found.tokens.sum()) + found.left_out == masked_in
    assert found.left_out > 0


def test_rows_in_any_order_and_a_step_in_several_files_are_one_step(tmp_path):
    del tmp_path
    tokens = random_tokens(3)
    order = np.random.default_rng(0).permutation(tokens.num_rows)
    one, other = replayed(run_of(tokens=tokens)), replayed(run_of(tokens=tokens.take(pa.array(order))))
    for first, second in zip(one.results, other.results, strict=True):
        for name in MEASURES:
            np.testing.assert_allclose(first.values(name), second.values(name), rtol=1e-9, atol=1e-12)


def test_masked_tokens_enter_nothing_and_an_empty_step_is_nan():
    columns = {
        "step": [0, 0, 1],
        "current_logprob": [-1.0, -9.0, -1.0],
        "same_weights_logprob": [-1.0] * 3,
        "loss_mask": [True, False, False],
    }
    found = replayed(run_of(tokens=table(**columns)))
    assert found.tokens.tolist() == [1, 0]
    (kept,) = (one for one in found.results if one.recipe == tis(Level.SEQUENCE, 2.0))
    assert kept.values("ess")[0] == 1.0
    assert np.isnan(kept.values("ess")[1])
    assert found.resync(Level.SEQUENCE) == ()


def test_steps_come_in_order_and_resync_is_strictly_under_one_half():
    x = np.log([3.0 + 2 * np.sqrt(2.0), 1.0])  # (w + 1)^2 / (2 (w^2 + 1)) of this is 2/3
    columns = {"step": [5, 5, 2, 2], "sample_id": [0, 1, 0, 1], "same_weights_logprob": np.zeros(4), "current_logprob": [0, -60, *x]}
    found = replayed(run_of(tokens=table(**columns)))
    assert found.steps.tolist() == [2, 5]
    assert found.ess[Level.SEQUENCE][1] == 0.5
    assert found.resync(Level.SEQUENCE) == ()


@pytest.mark.parametrize(
    ("columns", "ratio", "word"),
    [
        ({"same_weights_logprob": [-1.1] * 2, "current_logprob": [-1.2] * 2}, Ratio.LAG, "those that sampled the token"),
        ({"current_logprob": [-1.2] * 2}, Ratio.TOTAL, "record same_weights_logprob"),
        ({"same_weights_logprob": [-1.1] * 2}, Ratio.DISCREPANCY, "current_logprob is not in this log"),
        ({"old_logprob": [-1.1] * 2, "current_logprob": [-1.2] * 2}, Ratio.TOTAL, "cannot separate the lag"),
        (
            {"old_logprob": [-1.1] * 2, "current_logprob": [-1.2] * 2, "rollout_version": [3, 3], "old_version": [3, 3]},
            Ratio.LAG,
            "old_logprob",
        ),
        (
            {"old_logprob": [-1.1] * 2, "current_logprob": [-1.2] * 2, "rollout_version": [3, 2], "old_version": [3, 3]},
            Ratio.TOTAL,
            "cannot separate the lag",
        ),
    ],
)
def test_which_ratio_a_log_gives_and_says_so(columns, ratio, word):
    found = replayed(run_of(tokens=table(**columns)))
    assert found.ratio is ratio
    assert word in found.says
    assert (found.interval(Level.SEQUENCE).cannot_tell == "") is False
    assert ("same_weights_logprob" in found.record) == (ratio is not Ratio.LAG)


def test_one_asynchronous_step_takes_the_split_from_the_whole_run():
    columns = {"step": [0, 0, 1, 1], "old_logprob": [-1.1] * 4, "current_logprob": [-1.2] * 4}
    versions = {"rollout_version": [0, 0, 0, 1], "trainer_version": [0, 0, 1, 1]}
    assert replayed(run_of(tokens=table(**columns, **versions))).ratio is Ratio.TOTAL


def test_files_in_any_order_are_replayed_by_rising_step(tmp_path):
    pieces = []
    for step, gap in ((5, 0.5), (2, 0.25)):
        columns = {"step": [step] * 2, "sample_id": [0, 1], "same_weights_logprob": [-1.0] * 2, "current_logprob": [-1.0, -1.0 - gap]}
        pq.write_table(table(**columns), tmp_path / f"{step}.parquet")
        pieces.append(open_piece(tmp_path / f"{step}.parquet")[0])
    found = replayed(replace(run_of(), tokens=token_log(pieces)))
    assert found.steps.tolist() == [2, 5]
    told = found.result(tis(Level.TOKEN, 2.0)).values("ess")
    np.testing.assert_allclose(told, found.ess[Level.TOKEN])
    assert told[0] > told[1]


def test_old_under_the_first_of_two_versions_does_not_stand_for_both():
    columns = {"old_logprob": [-1.1] * 2, "current_logprob": [-1.2] * 2, "rollout_version": [4, 5], "trainer_version": [4, 5]}
    assert replayed(run_of(tokens=table(**columns))).ratio is Ratio.TOTAL


@pytest.mark.parametrize("seed", range(6))
def test_what_stands_in_for_the_generator_is_what_the_metrics_take(seed):
    rng = np.random.default_rng(seed)
    rollout = np.full(6, 4) if seed % 2 else rng.integers(3, 5, 6)
    columns = {"old_logprob": [-1.1] * 6, "current_logprob": [-1.2] * 6, "rollout_version": rollout, "trainer_version": np.full(6, 4)}
    if seed > 2:
        columns["old_version"] = np.full(6, 4)
    run = run_of(tokens=table(**columns))
    (step,) = sides(run.tokens)
    (partial,) = kernel.partials(table(**columns), ClipBounds()).values()
    assert synchronous(step.columns) == (provenance(partial) is Provenance.SYNCHRONOUS)


def test_without_tokens_or_without_two_sides_it_says_what_to_record():
    bare = replayed(run_of(scalars={"reward.mean": [1.0, 2.0]}))
    assert (bare.ratio, bare.says) == (None, "there is no token log")
    assert bare.record == ("rollout_logprob", "same_weights_logprob", "current_logprob")
    one_sided = replayed(run_of(tokens=table(rollout_logprob=[-1.0, -2.0])))
    assert one_sided.ratio is None
    assert one_sided.record == ("same_weights_logprob", "current_logprob")


def test_without_advantages_clips_say_what_to_record_and_all_others_are_told():
    found = replayed(run_with([1, 2], without=("advantage",)))
    told = {one.recipe.family for one in found.results if one.measures}
    assert told == set(Family) - {Family.PPO_CLIP, Family.GSPO, Family.REJECTION}
    assert {one.record for one in found.results if not one.measures} == {("advantage",)}


def test_progress_counts_the_steps():
    seen = []
    replayed(run_with([1, 2, 3]), [NONE], progress=seen.append)
    assert seen == [1, 2, 3]


OWN = [
    ("pipelinerl", {"objective.loss": "ppo", "objective.eps_low": 0.1, "objective.eps_high": 0.3}, ppo_clip(0.1, 0.3), Ratio.TOTAL),
    ("pipelinerl", {"objective.loss": "reinforce", "objective.eps_high": 0.02}, cispo(1.02), Ratio.TOTAL),
    ("verl", {"objective.loss": "gspo"}, gspo(), Ratio.LAG),
    ("pipelinerl", {"objective.loss": "ppo", "objective.anchor": "recomputed"}, ppo_clip(), Ratio.LAG),
    ("plain", {"objective.loss": "reinforce"}, NONE, Ratio.LAG),
    ("pipelinerl", {"objective.loss": "dlc_sequence"}, dlc(Level.SEQUENCE, 2.0), Ratio.LAG),
    ("verl", {"correction.kind": "token_tis", "correction.cap": 2.0}, tis(Level.TOKEN, 2.0), Ratio.DISCREPANCY),
    ("trl", {"correction.kind": "mis", "correction.cap": 3.0}, mis(Level.SEQUENCE, 3.0, 0.0), Ratio.DISCREPANCY),
    ("trl", {"correction.kind": "sequence_tis"}, tis(Level.SEQUENCE, 3.0), Ratio.DISCREPANCY),
    (
        "nemo_rl",
        {"correction.kind": "mis", "correction.cap": 1.002, "correction.floor": 0.999},
        mis(Level.SEQUENCE_MEAN, 1.002, 0.999),
        Ratio.DISCREPANCY,
    ),
    ("openrlhf", {"correction.kind": "icepop", "correction.cap": 5, "correction.floor": 0.5}, icepop(5.0), Ratio.DISCREPANCY),
    ("verl", {"correction.kind": "none"}, NONE, Ratio.LAG),
]


@pytest.mark.parametrize(("dialect", "config", "recipe", "ratio"), OWN, ids=lambda value: str(value)[:40])
def test_the_runs_own_choice_is_replayed_on_the_ratio_its_framework_weighs(dialect, config, recipe, ratio):
    run = run_with([1, 2], config=config, dialect=dialect, sources=dict.fromkeys(config, "a key of the framework"))
    found = replayed(run, [NONE])
    (own,), (result,) = found.own, found.own_results
    assert own.recipe == recipe == result.recipe
    assert result.ratio is ratio
    assert len(result.values("ess")) == 2


def test_what_a_framework_rejects_keeps_weight_one():
    settings = {
        "algorithm.rollout_correction.rollout_rs": "seq_mean_k1",
        "algorithm.rollout_correction.rollout_rs_threshold": "0.999_1.002",
    }
    found = replayed(run_with([4], config=settings | {"correction.kind": "mis"}, dialect="verl"), [NONE])
    recipe = found.own[0].recipe
    assert (recipe.action, recipe.level, recipe.low, recipe.high) == (Action.REJECT, Level.SEQUENCE_MEAN, 0.999, 1.002)
    assert 0 < found.own_results[0].values("second_moment")[0] < 1


@pytest.mark.parametrize(
    "config", [{"correction.kind": "vespo"}, {"correction.kind": "mis"}, {"correction.kind": "token_tis", "correction.cap": "x"}]
)
def test_a_choice_that_cannot_be_replayed_is_named_all_the_same(config):
    found = replayed(run_with([1], config=config), [NONE])
    assert found.own_results == (None,)
    assert "not replayed" in found.own[0].says


def test_settings_that_say_nothing_are_no_choice():
    assert replayed(run_with([1]), [NONE]).own == ()


def test_the_sample_runs_own_objective_is_found():
    (run,) = load(SAMPLES / "v1_fixed")
    found = replayed(run, [NONE])
    assert [each.recipe for each in found.own] == [ppo_clip()]
    assert found.own_results[0].ratio is Ratio.TOTAL


def test_recipes_have_names_of_their_own():
    assert len({recipe.id for recipe in DEFAULT}) == len(DEFAULT)
    assert replace(tis(Level.TOKEN, 2.0), low=0.5).bounds == "0.5 to 2"


def test_replaying_needs_no_torch():
    code = "import sys, monitor.corrections.replay, monitor.corrections.snippets; assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], cwd=SAMPLES.parent, check=False).returncode == 0
