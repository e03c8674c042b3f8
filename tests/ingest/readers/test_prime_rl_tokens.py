"""prime-rl's export as the trainer writes it: the padding before the first token, prompts, null for what is not finite, ranks, markers."""

import json
import math
from pathlib import Path

import pytest

from ingest.errors import ReadError
from ingest.identify import identify_reader
from ingest.load import load
from ingest.readers.prime_rl_tokens import READER
from ingest.run import ProblemKind
from ingest.tokens import read_row_group
from monitor.metrics.frame import metric_frame_with_problems

DATA = Path(__file__).resolve().parents[2] / "data" / "prime_rl_tokens" / "token_exports"


def row(**changed):
    known = {
        "schema_version": 1,
        "step": 4,
        "rank": 0,
        "micro_step": 0,
        "micro_sequence_idx": 0,
        "export_sequence_idx": 0,
        "env_name": "math",
        "token_ids": [11, 12, 13, 14],
        "position_ids": [0, 1, 2, 3],
        "loss_mask": [False, False, True, True],
        "advantages": [0.5] * 4,
        "inference_logprobs": [0.0, 0.0, -1.0, -0.5],
        "trainer_logprobs": [-10.4, -3.0, -1.25, -0.25],
        "entropy": [0.25] * 4,
        "log_importance_ratio": [-10.4, -3.0, -0.25, 0.25],
        "is_masked": [False] * 4,
        "ref_kl_weights": [None] * 4,
    }
    return {name: value for name, value in (known | changed).items() if value != "gone"}


def write(path, *rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(each) + "\n" for each in rows))
    return path


def one(tmp_path, **changed):
    (raw,) = READER.read(write(tmp_path / "rank_0.jsonl", row(**changed)))
    table, problems = read_row_group(raw.tokens.pieces[0], 0)
    return table.to_pydict(), problems


def test_each_entry_belongs_to_its_token_and_prompts_give_no_rows(tmp_path):
    found, problems = one(tmp_path)
    assert problems == ()
    assert found == {
        "step": [4, 4],
        "sample_id": [0, 0],
        "position": [0, 1],
        "token_id": [13, 14],
        "rollout_logprob": [-1.0, -0.5],
        "current_logprob": [-1.25, -0.25],
        "loss_mask": [True, True],
        "advantage": [0.5, 0.5],
        "entropy": [0.25, 0.25],
    }


def test_the_padding_before_the_first_token_is_no_log_probability(tmp_path):
    found, _ = one(tmp_path, loss_mask=[True, True, True, True], inference_logprobs=[0.0, -1.0, -1.0, -0.5], log_importance_ratio="gone")
    assert found["token_id"] == [12, 13, 14]


def test_a_sampled_token_that_does_not_count_is_kept(tmp_path):
    found, _ = one(tmp_path, loss_mask=[False, False, False, True])
    assert found["loss_mask"] == [False, True]


def test_columns_shifted_against_each_other_are_said(tmp_path):
    _, (problem,) = one(tmp_path, trainer_logprobs=[-3.0, -1.25, -0.25, -10.4])
    assert (problem.kind, problem.rows) == (ProblemKind.NOTE, 2)
    assert "shifted against each other" in problem.what


def test_null_is_a_value_that_is_not_finite(tmp_path):
    found, problems = one(tmp_path, trainer_logprobs=[-10.4, -3.0, None, -0.25], log_importance_ratio=[-10.4, -3.0, None, 0.25])
    assert math.isnan(found["current_logprob"][0])
    assert problems == ()


def test_a_column_of_nulls_was_not_recorded(tmp_path):
    found, _ = one(tmp_path, advantages=[None] * 4, rewards=[None] * 4, log_importance_ratio=[None] * 4)
    assert "advantage" not in found
    assert "reward" not in found


def test_rewards_of_the_first_version_are_taken(tmp_path):
    assert one(tmp_path, rewards=[1.0] * 4)[0]["reward"] == [1.0, 1.0]


def test_where_runs_share_a_trainer_the_step_is_the_runs_own(tmp_path):
    assert one(tmp_path, export_step=2, run_id="run_a")[0]["step"] == [2, 2]


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"trainer_logprobs": [-1.0]}, "differ in length"),
        ({"loss_mask": [True]}, "differ in length"),
        ({"step": "four"}, "no whole number under step"),
        ({"step": 2**70}, "no whole number under step"),
        ({"inference_logprobs": None}, "no inference_logprobs"),
        ({"entropy": [[]] * 4}, "entropy is a list of lists"),
    ],
)
def test_a_row_that_does_not_fit_is_a_problem_with_its_line(tmp_path, changed, what):
    path = write(tmp_path / "rank_0.jsonl", row(), row(**changed), row(export_sequence_idx=2))
    (raw,) = READER.read(path)
    table, (problem,) = read_row_group(raw.tokens.pieces[0], 0)
    assert table["sample_id"].to_pylist() == [0, 0, 2, 2]
    assert (problem.path, problem.place, problem.rows) == (str(path), "line 2", 1)
    assert what in problem.what


def test_ranks_of_a_step_have_samples_of_their_own(tmp_path):
    for rank in (0, 1, 10):
        write(tmp_path / "token_exports" / "step_1" / f"rank_{rank}.jsonl", row(rank=rank))
    (raw,) = READER.read(tmp_path / "token_exports")
    samples = [read_row_group(piece, 0)[0]["sample_id"][0].as_py() for piece in raw.tokens.pieces]
    assert len(set(samples)) == 3
    assert samples == sorted(samples)


def test_the_export_of_a_run_is_named_after_it_and_in_the_order_of_its_steps(tmp_path):
    for step in (10, 9):
        write(tmp_path / "my_run" / "token_exports" / f"step_{step}" / "rank_0.jsonl", row(step=step))
    (raw,) = READER.read(tmp_path / "my_run" / "token_exports")
    assert raw.name == "my_run"
    assert [piece.path.parent.name for piece in raw.tokens.pieces] == ["step_9", "step_10"]


def test_a_step_without_its_marker_may_not_be_complete():
    (raw,) = READER.read(DATA)
    said = [problem.what for problem in raw.problems]
    assert any(what.startswith("step_5: no STABLE marker") for what in said)
    assert not any("step_4" in what for what in said)


def test_a_line_that_lists_nothing_is_refused(tmp_path):
    with pytest.raises(ReadError, match="inference_logprobs and trainer_logprobs"):
        READER.read(write(tmp_path / "rank_0.jsonl", row(trainer_logprobs=None)))


def test_the_sample_through_the_front_door():
    (run,) = load(DATA)
    assert identify_reader(DATA) is READER
    frame, problems = metric_frame_with_problems(run)
    assert not [problem for problem in problems if problem.kind is not ProblemKind.NOTE]
    assert set(frame["step"].to_pylist()) == {4, 5}
    assert {"kl.total.k3", "ess.total.token"} <= set(frame["metric"].to_pylist())


def test_k3_is_the_mean_of_what_the_export_computed_itself():
    (run,) = load(DATA)
    frame, _ = metric_frame_with_problems(run)
    found = [
        v for s, m, v in zip(*(frame[n].to_pylist() for n in ("step", "metric", "value")), strict=True) if (s, m) == (4, "kl.total.k3")
    ]
    expected = []
    for path in sorted((DATA / "step_4").glob("*.jsonl")):
        for values in map(json.loads, path.read_text().splitlines()):
            expected += [kl for kl, counts in zip(values["mismatch_kl"], values["loss_mask"], strict=True) if counts]
    assert found == pytest.approx([sum(expected) / len(expected)], rel=1e-4)
