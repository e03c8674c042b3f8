"""NeMo-RL's dump as the framework writes it: padding, prompts, the unused first entry, lists of one, placeholders, and all its versions."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from ingest.errors import ReadError
from ingest.identify import identify_reader
from ingest.load import load
from ingest.readers.nemo_rl_tokens import READER
from ingest.run import ProblemKind
from ingest.tokens import read_row_group
from monitor.metrics.frame import metric_frame_with_problems

DATA = Path(__file__).resolve().parents[2] / "data" / "nemo_rl_tokens"


def row(**changed):
    """Five tokens, of which the last two were sampled, padded to seven."""
    known = {
        "content": ["a text"],
        "rewards": [1.0],
        "input_lengths": [5],
        "token_ids": [[11, 12, 13, 14, 15, 0, 0]],
        "token_loss_mask": [[0, 0, 0, 1, 1, 0, 0]],
        "sample_loss_mask": [1.0],
        "advantages": [[0.5] * 7],
        "generation_logprobs": [[0, 0, 0, -1.0, -0.5, 0, 0]],
        "prev_logprobs": [[0, -3.0, -2.0, -1.25, -0.25, -9.0, -9.0]],
        "idx": 0,
    }
    return {name: value for name, value in (known | changed).items() if value is not None}


def write(path, *rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(each) + "\n" for each in rows))
    return path


def tokens(path, index=0):
    (raw,) = READER.read(path)
    table, problems = read_row_group(raw.tokens.pieces[index], 0)
    return table.to_pydict(), problems


def one(tmp_path, **changed):
    return tokens(write(tmp_path / "train_data_step3.jsonl", row(**changed)))


def test_sampled_tokens_alone_give_rows_and_each_entry_belongs_to_its_own_token(tmp_path):
    found, problems = one(tmp_path)
    assert problems == ()
    assert found == {
        "step": [3, 3],
        "sample_id": [0, 0],
        "position": [0, 1],
        "token_id": [14, 15],
        "rollout_logprob": [-1.0, -0.5],
        "old_logprob": [-1.25, -0.25],
        "loss_mask": [True, True],
        "advantage": [0.5, 0.5],
        "reward": [1.0, 1.0],
    }


def test_the_first_entry_is_no_log_probability_even_if_it_is_unmasked(tmp_path):
    found, _ = one(tmp_path, token_loss_mask=[[1, 1, 0, 0, 0, 0, 0]], generation_logprobs=[[0, -1.0, 0, 0, 0, 0, 0]])
    assert found["token_id"] == [12]


def test_padding_is_cut_by_the_input_length_whatever_the_mask_says(tmp_path):
    found, _ = one(tmp_path, token_loss_mask=[[0, 0, 0, 1, 1, 1, 1]], generation_logprobs=[[0, 0, 0, -1, -1, -5, -5]])
    assert found["token_id"] == [14, 15]


def test_a_tool_between_two_turns_leaves_a_gap_in_the_positions(tmp_path):
    found, _ = one(tmp_path, token_loss_mask=[[0, 1, 0, 1, 1, 0, 0]], generation_logprobs=[[0, -1, 0, -1, -1, 0, 0]])
    assert found["position"] == [0, 2, 3]


def test_a_masked_sample_keeps_its_tokens_which_do_not_count(tmp_path):
    found, _ = one(tmp_path, sample_loss_mask=[0.0])
    assert found["loss_mask"] == [False, False]


def test_a_sampled_token_whose_mask_is_0_is_kept_and_does_not_count(tmp_path):
    found, _ = one(tmp_path, token_loss_mask=[[0, 0, 0, 0, 1, 0, 0]])
    assert (found["token_id"], found["loss_mask"]) == ([14, 15], [False, True])


def test_a_certain_token_is_kept_where_the_mask_says_that_it_was_sampled(tmp_path):
    found, _ = one(tmp_path, generation_logprobs=[[0, 0, 0, 0.0, -0.5, 0, 0]])
    assert found["rollout_logprob"] == [0.0, -0.5]


def test_zeros_that_stand_for_not_computed_are_no_log_probabilities(tmp_path):
    found, (problem,) = one(tmp_path, prev_logprobs=[[0.0] * 7])
    assert "old_logprob" not in found
    assert (problem.kind, problem.rows) == (ProblemKind.PLACEHOLDER, 2)
    assert "force_on_policy_ratio" in problem.what


def test_values_are_taken_bare_or_in_a_list_of_one(tmp_path):
    bare = {name: value[0] for name, value in row().items() if isinstance(value, list)}
    assert one(tmp_path, **bare) == one(tmp_path)


def test_an_advantage_of_the_whole_sample_is_one_of_each_token(tmp_path):
    assert one(tmp_path, advantages=[0.25])[0]["advantage"] == [0.25, 0.25]


def test_under_dynamic_sampling_the_reward_trained_with_is_taken(tmp_path):
    assert one(tmp_path, filtered_rewards=[0.75])[0]["reward"] == [0.75, 0.75]


def test_nan_and_null_are_values_that_are_not_finite(tmp_path):
    found, _ = one(tmp_path, prev_logprobs=[[0, 0, 0, math.nan, None, 0, 0]])
    assert all(math.isnan(value) for value in found["old_logprob"])


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"prev_logprobs": [[0.0] * 6]}, "differ in length: generation_logprobs 7, prev_logprobs 6, token_loss_mask 7"),
        ({"input_lengths": [9]}, "input_lengths is 9, but the lists have 7 values"),
        ({"input_lengths": ["five"]}, "no whole number under input_lengths"),
        ({"input_lengths": [-1]}, "no whole number under input_lengths"),
        ({"generation_logprobs": [[0, {}, 0, 0, 0, 0, 0]]}, "generation_logprobs holds something that is no number"),
        ({"generation_logprobs": [[[1], [2]]]}, "generation_logprobs is a list of lists"),
        ({"generation_logprobs": "text"}, "generation_logprobs is no list"),
        ({"generation_logprobs": [[0, 10**400, 0, 0, 0, 0, 0]]}, "no number"),
        ({"token_ids": [[0.5] * 7]}, "token_ids holds something that is no whole number"),
        ({"generation_logprobs": None}, "no generation_logprobs"),
    ],
)
def test_a_row_that_does_not_fit_is_a_problem_with_its_line(tmp_path, changed, what):
    path = write(tmp_path / "train_data_step1.jsonl", row(), row(idx=1, **changed), row(idx=2))
    found, (problem,) = tokens(path)
    assert found["sample_id"] == [0, 0, 2, 2]
    assert (problem.path, problem.place, problem.rows, problem.kind) == (str(path), "line 2", 1, ProblemKind.LOST)
    assert what in problem.what


def test_a_cut_last_line_is_a_note_and_a_broken_line_is_lost(tmp_path):
    path = tmp_path / "train_data_step1.jsonl"
    path.write_text(json.dumps(row()) + "\n{broken}\n" + json.dumps(row(idx=2))[:-40])
    found, problems = tokens(path)
    assert found["sample_id"] == [0, 0]
    assert [(problem.kind, problem.place) for problem in problems] == [(ProblemKind.LOST, "line 2"), (ProblemKind.NOTE, "line 3")]


def test_samples_without_a_number_are_told_apart_by_where_they_begin(tmp_path):
    found, _ = tokens(write(tmp_path / "train_data_step1.jsonl", row(idx=None), row(idx=None)))
    assert len(set(found["sample_id"])) == 2


def test_the_folder_of_a_run_is_one_log_in_the_order_of_its_steps(tmp_path):
    for step in (10, 9):
        write(tmp_path / "exp_001" / f"train_data_step{step}.jsonl", row())
    (tmp_path / "exp_001" / "val_data_step9.jsonl").write_text('{"content": ["x"], "rewards": [1.0], "idx": 0}\n')
    (raw,) = READER.read(tmp_path / "exp_001")
    assert raw.name == "exp_001"
    assert [read_row_group(piece, 0)[0]["step"][0].as_py() for piece in raw.tokens.pieces] == [9, 10]


def test_files_numbered_from_0_are_one_step_behind_the_other_logs():
    (raw,) = READER.read(DATA / "exp_002")
    assert [read_row_group(piece, 0)[0]["step"][0].as_py() for piece in raw.tokens.pieces] == [1, 2]
    assert any("numbered from 0" in problem.what for problem in raw.problems)
    (alone,) = READER.read(DATA / "exp_002" / "train_data_step1.jsonl")
    assert read_row_group(alone.tokens.pieces[0], 0)[0]["step"][0].as_py() == 2


def test_without_masks_tokens_with_an_engine_log_probability_are_taken_and_that_is_said(tmp_path):
    path = write(tmp_path / "train_data_step4.jsonl", row(token_loss_mask=None, token_ids=None, sample_loss_mask=None, advantages=None))
    found, _ = tokens(path)
    assert (found["rollout_logprob"], found["loss_mask"]) == ([-1.0, -0.5], [True, True])
    said = [problem.what for problem in READER.read(path)[0].problems]
    assert any("one that was certain (log-probability 0) is missing" in what for what in said)
    assert any("numbered one lower" in what for what in said)


def test_the_step_of_newer_versions_is_in_the_row(tmp_path):
    assert tokens(write(tmp_path / "renamed.jsonl", row(step=7)))[0]["step"] == [7, 7]


def test_a_file_that_says_no_step_is_refused_with_the_remedy(tmp_path):
    with pytest.raises(ReadError, match=r"train_data_stepN\.jsonl"):
        READER.read(write(tmp_path / "renamed.jsonl", row()))


@pytest.mark.parametrize("name", ["exp_001", "exp_002", "single_controller"])
def test_every_version_is_read_through_the_front_door(name):
    (run,) = load(DATA / name)
    frame, problems = metric_frame_with_problems(run)
    assert not [problem for problem in problems if problem.kind is ProblemKind.LOST]
    assert "log_ratio.discrepancy.abs_mean" in set(frame["metric"].to_pylist())


def test_the_numbers_are_those_of_the_file():
    (raw,) = READER.read(DATA / "exp_001")
    table, _ = read_row_group(raw.tokens.pieces[0], 0)
    expected = []
    for line in (DATA / "exp_001" / "train_data_step1.jsonl").read_text().splitlines():
        values = json.loads(line)
        mask, engine, trainer = (values[name][0] for name in ("token_loss_mask", "generation_logprobs", "prev_logprobs"))
        expected += [o - g for m, g, o in zip(mask, engine, trainer, strict=True) if m]
    found = table["old_logprob"].to_numpy().astype(float) - table["rollout_logprob"].to_numpy().astype(float)
    assert np.allclose(found, expected, atol=1e-6)
    assert len(expected) > 20


def test_a_dump_is_no_step_log_and_a_step_log_no_dump(tmp_path):
    assert identify_reader(write(tmp_path / "train_data_step1.jsonl", row())) is READER
    assert READER.objection(write(tmp_path / "steps.jsonl", {"step": 1, "generation_logprobs": 1.0})) is not None
    assert READER.objection(tmp_path) is None
    assert READER.objection(tmp_path / "..") is not None
