"""One experiment in several runs becomes one, on the trainer's steps where the runs say how; nothing else is joined."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from ingest._experiments import join
from ingest.load import load
from ingest.readers import nemo_rl_tokens, prime_rl_tokens, torch_file
from ingest.run import ProblemKind, RawLog
from ingest.schema import RAW_SCALARS

DATA = Path(__file__).resolve().parents[1] / "data"


def log(name, values, group="", **config):
    """Make a log of {key: {step: value}}."""
    rows = [{"key": key, "step": step, "value": value, "wall_time": None} for key, steps in values.items() for step, value in steps.items()]
    config |= {"group": group} if group else {}
    return RawLog(name=name, path=f"runs/{name}", container="wandb_run", scalars=pa.Table.from_pylist(rows, RAW_SCALARS), config=config)


def finetune(name="exp/finetune", **more):
    return log(name, {"rl/reward": {1: 0.1, 2: 0.2, 3: 0.3}, "stats/samples": {1: 64, 2: 128, 3: 192}}, **more)


def actor(name="exp/actor", versions=None, **more):
    versions = versions or {0: 64, 1: 128}
    return log(name, {"actor/reward_mean": dict.fromkeys(versions, 0.5), "actor/trainer_model_version": versions}, **more)


def series(raw, key):
    return {row["step"]: row["value"] for row in raw.scalars.to_pylist() if row["key"] == key}


def lost(raw):
    return [problem for problem in raw.problems if problem.kind is ProblemKind.LOST]


def said(raw):
    return " | ".join(problem.what for problem in raw.problems)


def test_runs_of_one_experiment_are_one_on_the_trainers_steps():
    preprocess = log("exp/preprocess", {"preprocessor/published_samples": {7: 1.0}, "preprocessor/published_model_version": {7: 192.0}})
    (raw,) = join([actor(), preprocess, finetune()])
    assert raw.name == "exp"
    assert series(raw, "rl/reward") == {1: 0.1, 2: 0.2, 3: 0.3}
    assert series(raw, "actor/reward_mean") == {1: 0.5, 2: 0.5}
    assert series(raw, "preprocessor/published_samples") == {3: 1.0}
    assert lost(raw) == []


def test_rows_in_are_rows_out_and_lost():
    logs = [finetune(), actor(versions={0: 0, 1: 100, 2: 192, 3: 256, 4: 320})]
    (raw,) = join(logs)
    assert series(raw, "actor/reward_mean") == {0: 0.5, 1: 0.5, 3: 0.5}  # before the first step; between two steps; at the last
    assert sum(each.scalars.num_rows for each in logs) == raw.scalars.num_rows + sum(problem.rows for problem in lost(raw))
    assert "the trainer's log" in said(raw)


def test_several_reports_of_one_version_are_all_kept():
    (raw,) = join([finetune(), actor(versions={0: 64, 1: 64})])
    rows = [row for row in raw.scalars.to_pylist() if row["key"] == "actor/reward_mean"]
    assert [row["step"] for row in rows] == [1, 1]


@pytest.mark.parametrize(
    ("trainer", "other", "why"),
    [
        (log("exp/finetune", {"rl/reward": {1: 0.1}}), actor(), "has no stats/samples"),
        (finetune(), log("exp/actor", {"actor/reward_mean": {0: 0.5}}), "has no actor/trainer_model_version"),
        (log("exp/finetune", {"rl/reward": {1: 0.1}, "stats/samples": {1: 9, 2: 5}}), actor(), "has no stats/samples"),
    ],
)
def test_where_nothing_says_which_step_the_values_keep_their_own_and_that_is_said(trainer, other, why):
    (raw,) = join([trainer, other])
    assert set(series(raw, "actor/reward_mean")) == set(series(other, "actor/reward_mean"))
    assert "on its own steps" in said(raw)
    assert why in said(raw)


def test_the_trainers_steps_are_those_it_counts_not_those_of_its_log():
    trainer = log("exp/finetune", {"stats/completed_steps": {5: 1, 6: 2}, "stats/samples": {5: 64, 6: 128}, "rl/reward": {5: 0.1, 6: 0.2}})
    other = log("exp/actor", {"actor/reward_mean": {0: 0.5}, "actor/late": {5: 1.0}, "actor/trainer_model_version": {0: 128}})
    (raw,) = join([trainer, other])
    assert series(raw, "rl/reward") == {1: 0.1, 2: 0.2}
    assert series(raw, "actor/reward_mean") == {2: 0.5}
    assert series(raw, "actor/late") == {5: 1.0}


def test_a_key_logged_where_no_version_is_keeps_its_own_steps():
    other = log("exp/actor", {"actor/reward_mean": {0: 0.5}, "actor/late": {0: 1.0, 9: 2.0}, "actor/trainer_model_version": {0: 128}})
    (raw,) = join([finetune(), other])
    assert series(raw, "actor/reward_mean") == {2: 0.5}
    assert series(raw, "actor/late") == {0: 1.0, 9: 2.0}
    assert "so on its own steps: actor/late" in said(raw)


def test_runs_named_by_ids_are_joined_by_their_group():
    (raw,) = join([finetune("ab12", group="exp"), actor("cd34", group="exp")])
    assert raw.name == "ab12"
    assert series(raw, "actor/reward_mean") == {1: 0.5, 2: 0.5}


def test_an_id_has_underscores_for_slashes():
    (raw,) = join([finetune("my_exp_finetune"), actor("my_exp_actor")])
    assert raw.name == "my_exp"


def test_seeds_of_one_group_are_two_experiments_by_their_names():
    logs = [maker(f"{seed}/{process}", group="both") for seed in "ab" for maker, process in ((finetune, "finetune"), (actor, "actor"))]
    assert [raw.name for raw in join(logs)] == ["a", "b"]


def test_two_runs_of_one_process_in_a_group_are_not_joined_and_that_is_said():
    logs = join([finetune("ab", group="sweep"), finetune("cd", group="sweep"), actor("ef", group="sweep")])
    assert [raw.name for raw in logs] == ["ab", "cd", "ef"]
    assert all("not joined" in said(raw) for raw in logs)
    assert series(logs[2], "actor/reward_mean") == {0: 0.5, 1: 0.5}


@pytest.mark.parametrize(
    "logs",
    [
        [finetune("a/finetune"), actor("b/actor")],
        [finetune("a/finetune", group="g"), actor("cd", group="g")],
        [finetune("ab"), actor("cd")],
        [actor("exp/actor"), log("exp/preprocess", {"preprocessor/queue": {1: 1.0}})],
        [log("exp/finetune", {"train/loss": {1: 1.0}}), actor("exp/actor")],
        [finetune("x", group="g"), log("y", {"train/loss": {1: 1.0}}, group="g")],
        [log("exp/finetune", {"actor/reward_mean": {1: 1.0}}), finetune("exp/actor")],
    ],
)
def test_what_is_not_surely_one_experiment_stays_apart(logs):
    assert join(logs) == tuple(logs)


def test_settings_are_the_trainers_where_both_have_one():
    (raw,) = join([finetune(lr=1, group="g"), actor(lr=2, engine="v1", group="g")])
    assert raw.config == {"lr": 1, "engine": "v1", "group": "g"}


def test_values_that_are_not_finite_place_nothing():
    (raw,) = join([finetune(), actor(versions={0: float("nan"), 1: 128})])
    assert set(series(raw, "actor/reward_mean")) == {0, 1}


def test_a_chart_export_of_the_two_runs_is_one_run(tmp_path):
    lines = [
        "Step,exp/finetune - rl/reward,exp/finetune - stats/samples,exp/actor - actor/reward_mean,exp/actor - actor/trainer_model_version"
    ]
    lines += ["0,,,0.5,64", "1,0.1,64,0.6,128", "2,0.2,128,,"]
    (tmp_path / "chart.csv").write_text("\n".join(lines) + "\n")
    (run,) = load(tmp_path / "chart.csv")
    assert (run.name, run.dialect) == ("exp", "pipelinerl")


def test_files_of_steps_given_one_by_one_are_one_token_log():
    for reader, files in (
        (nemo_rl_tokens, sorted((DATA / "nemo_rl_tokens/exp_001").iterdir())),
        (prime_rl_tokens, sorted((DATA / "prime_rl_tokens/token_exports/step_4").glob("*.jsonl"))),
        (torch_file, sorted((DATA / "torch_file/train_data").iterdir())),
    ):
        (raw,) = join([reader.READER.read(file)[0] for file in files])
        assert [piece.path for piece in raw.tokens.pieces] == files
        assert raw.name == files[0].parent.name


def test_dumps_of_two_folders_stay_two_runs():
    logs = [nemo_rl_tokens.READER.read(file)[0] for name in ("exp_001", "exp_002") for file in (DATA / "nemo_rl_tokens" / name).iterdir()]
    assert [raw.name for raw in join(logs)] == ["exp_001", "exp_002"]


def test_a_token_log_over_the_one_step_log_of_its_folder_is_that_runs():
    (tokens,) = nemo_rl_tokens.READER.read(DATA / "nemo_rl_tokens/exp_001")
    steps = replace(log("logged", {"train/loss": {1: 1.0}}), path=str(DATA / "nemo_rl_tokens/exp_001/tensorboard"))
    (raw,) = join([tokens, steps])
    assert (raw.name, raw.tokens) == ("logged", tokens.tokens)
    assert "taken for this run's" in said(raw)
    (named,) = join([tokens, replace(steps, path=str(DATA / "nemo_rl_tokens/exp_001/metrics.jsonl"))])
    assert named.name == "exp_001"
    other = replace(steps, name="other", path=str(DATA / "nemo_rl_tokens/exp_001/wandb"))
    assert join([tokens, steps, other]) == (tokens, steps, other)
    elsewhere = replace(steps, path=str(DATA / "nemo_rl_tokens/exp_002/tensorboard"))
    assert join([tokens, elsewhere]) == (tokens, elsewhere)


def test_nothing_is_joined_to_nothing():
    assert join([]) == ()
