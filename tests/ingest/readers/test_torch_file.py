"""Files of torch.save: known dumps become tokens, everything else is refused, and nothing is ever executed."""

import ast
import contextlib
import io
import os
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from ingest.errors import ReadError, TooLargeError
from ingest.identify import identify_reader
from ingest.load import load
from ingest.readers.torch_file import READER
from ingest.run import ProblemKind
from ingest.tokens import read_row_group
from monitor.metrics.frame import metric_frame_with_problems

DATA = Path(__file__).resolve().parents[2] / "data" / "torch_file"


def sample(**changed):
    known = {
        "sample_index": 7,
        "rollout_position": 1,
        "tokens": torch.tensor([91, 92, 1, 2, 3]),
        "loss_masks": torch.tensor([1, 0, 1]),
        "response_lengths": 3,
        "rewards": 1.0,
        "rollout_log_probs": torch.tensor([-1.0, 0.0, -0.5]),
        "log_probs": torch.tensor([-1.25, -4.0, -0.25]),
        "ref_log_probs": torch.tensor([-2.0, -2.0, -2.0]),
        "advantages": torch.tensor([0.5, 0.5, 0.5]),
    }
    return {name: value for name, value in (known | changed).items() if value is not None}


def dump(*samples, **changed):
    return {"format_version": 2, "rollout_id": 5, "rank": 0, "samples": list(samples), "dp_shards": []} | changed


def saved(path, value):
    torch.save(value, path)
    return path


def tokens(path):
    (raw,) = READER.read(path)
    table, problems = read_row_group(raw.tokens.pieces[0], 0)
    return table.to_pydict(), problems


def test_a_train_dump_of_slime(tmp_path):
    found, problems = tokens(saved(tmp_path / "5.pt", dump(sample())))
    assert problems == ()
    assert found == {
        "step": [5, 5],
        "sample_id": [1, 1],
        "position": [0, 2],  # between them a tool wrote
        "token_id": [1, 3],
        "rollout_logprob": [-1.0, -0.5],
        "old_logprob": [-1.25, -0.25],
        "ref_logprob": [-2.0, -2.0],
        "loss_mask": [True, True],
        "advantage": [0.5, 0.5],
        "reward": [1.0, 1.0],
    }


def test_an_older_train_dump_of_slime_is_a_file_for_each_rank(tmp_path):
    columns = {name: [value] for name, value in sample().items()}
    first, second = (saved(tmp_path / f"5_{rank}.pt", {"rollout_id": 5, "rank": rank, "rollout_data": columns}) for rank in (0, 1))
    assert tokens(first)[0]["rollout_logprob"] == [-1.0, -0.5]
    assert tokens(first)[0]["sample_id"] != tokens(second)[0]["sample_id"]


def test_columns_that_context_parallel_ranks_share_out_do_not_fit(tmp_path):
    shard = sample(log_probs=torch.tensor([-1.25]))
    found, (problem,) = tokens(saved(tmp_path / "5.pt", dump(sample(), shard)))
    assert len(found["step"]) == 2
    assert (problem.place, problem.rows, problem.kind) == ("response 1", 1, ProblemKind.LOST)
    assert "differ in length: rollout_log_probs 3" in problem.what.replace("rollout_logprob 3", "rollout_log_probs 3")


def test_a_rollout_dump_of_slime_has_the_engine_alone(tmp_path):
    value = {"index": 3, "tokens": [9, 1, 2], "response_length": 2, "reward": 0.5, "rollout_log_probs": [-1.0, -2.0], "loss_mask": None}
    one_version = value | {"weight_versions": ["4", "4"]}
    found, _ = tokens(saved(tmp_path / "rollout_2.pt", {"rollout_id": 2, "samples": [one_version]}))
    assert (found["rollout_logprob"], found["rollout_version"], found["token_id"]) == ([-1.0, -2.0], [4, 4], [1, 2])
    spanning = value | {"weight_versions": ["4", "5"]}
    assert "rollout_version" not in tokens(saved(tmp_path / "2.pt", {"rollout_id": 2, "samples": [spanning]}))[0]


def test_a_padded_batch_as_verl_and_skyrl_hold_it(tmp_path):
    batch = {
        "responses": torch.tensor([[1, 2, 0], [3, 0, 0]]),
        "response_mask": torch.tensor([[1, 1, 0], [1, 0, 0]]),
        "rollout_log_probs": torch.tensor([[-1.0, -2.0, -9.0], [-3.0, -9.0, -9.0]]),
        "old_log_probs": torch.tensor([[-1.5, -2.5, -9.0], [-3.5, -9.0, -9.0]], dtype=torch.bfloat16),
        "rm_scores": torch.tensor([[0.0, 1.0, 0.0], [0.5, 0.0, 0.0]]),
        "global_steps": 12,
    }
    found, _ = tokens(saved(tmp_path / "batch.pt", batch))
    assert found["rollout_logprob"] == [-1.0, -2.0, -3.0]
    assert found["old_logprob"] == [-1.5, -2.5, -3.5]
    assert (found["reward"], found["step"], found["token_id"]) == ([1.0, 1.0, 0.5], [12, 12, 12], [1, 2, 3])


def test_a_batch_of_trajectories_with_their_versions(tmp_path):
    columns = {
        "rollout_log_probs": [torch.tensor([-1.0, -2.0]), torch.tensor([-3.0])],
        "responses": [torch.tensor([1, 2]), torch.tensor([3])],
    }
    tags = [{"min_global_steps": 3, "max_global_steps": 3}, {"min_global_steps": 4, "max_global_steps": 4}]
    found, _ = tokens(saved(tmp_path / "tq.plain.pt", {"tensordict": columns, "tags": tags, "global_steps": 5}))
    assert (found["rollout_version"], found["step"]) == ([3, 3, 4], [5, 5, 5])


def test_where_the_dump_says_no_step_its_name_or_folder_does(tmp_path):
    batch = {"rollout_log_probs": torch.tensor([[-1.0]])}
    (tmp_path / "31").mkdir()
    assert tokens(saved(tmp_path / "31" / "gen_batch.pt", batch))[0]["step"] == [31]
    assert tokens(saved(tmp_path / "step_17.pt", batch))[0]["step"] == [17]
    (raw,) = READER.read(tmp_path / "step_17.pt")
    assert any("the step, 17, is taken from the name" in problem.what for problem in raw.problems)


def test_a_folder_of_dumps_is_one_log_and_a_folder_with_weights_none(tmp_path):
    for step in (10, 9):
        saved(tmp_path / f"{step}.pt", dump(sample(), rollout_id=step))
    (raw,) = READER.read(tmp_path)
    assert [read_row_group(piece, 0)[0]["step"][0].as_py() for piece in raw.tokens.pieces] == [9, 10]
    saved(tmp_path / "model.pt", {"weight": torch.zeros(2)})
    assert READER.objection(tmp_path) is not None


def test_what_is_no_known_dump_is_refused_with_its_keys(tmp_path):
    with pytest.raises(ReadError, match=r"the keys layer\.weight, layer\.bias"):
        READER.read(saved(tmp_path / "model.pt", {"layer.weight": torch.zeros(2, 2), "layer.bias": torch.zeros(2)}))
    with pytest.raises(ReadError, match="samples and in it tokens, reward"):
        READER.read(saved(tmp_path / "0.pt", {"samples": [{"tokens": [1], "reward": 1.0}]}))
    with pytest.raises(ReadError, match="found a Tensor"):
        READER.read(saved(tmp_path / "0.pt", torch.zeros(3)))


def test_a_dump_none_of_whose_responses_fit_is_refused(tmp_path):
    with pytest.raises(ReadError, match=r"none \(its lists differ in length"):
        READER.read(saved(tmp_path / "0.pt", dump(sample(log_probs=torch.zeros(1)))))


class Bomb:
    """Runs a program when it is unpickled."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.system, (f"touch {self.marker}",)


def test_a_pickle_is_refused_and_not_run(tmp_path):
    marker = tmp_path / "it_ran"
    plain = tmp_path / "batch.pkl"
    plain.write_bytes(pickle.dumps(Bomb(marker)))
    for path in (plain, saved(tmp_path / "0.pt", Bomb(marker)), saved(tmp_path / "1.pt", dump(sample(extra=Bomb(marker))))):
        assert identify_reader(path) is READER
        with pytest.raises(ReadError, match="run any program") as refused:
            READER.read(path)
        assert f"{path.stem}.plain.pt" in str(refused.value)
    assert not marker.exists()


def test_a_file_name_cannot_put_words_into_the_snippet(tmp_path):
    path = tmp_path / "a'); import os; os.abort(); ('.pkl"
    path.write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(ReadError) as refused:
        READER.read(path)
    names = [node.names[0].name for node in ast.walk(ast.parse(snippet(refused.value))) if isinstance(node, ast.Import)]
    assert names == ["dataclasses"]


def snippet(error):
    return error.remedy.partition("\n")[2]


MODULE = """
import dataclasses, enum, numpy, torch
class Status(enum.Enum):
    DONE = "done"
@dataclasses.dataclass
class Info:
    turns: int
class Proto:
    def __init__(self, batch, non_tensor_batch, meta_info):
        self.batch, self.non_tensor_batch, self.meta_info = batch, non_tensor_batch, meta_info
SLIME = {"rollout_id": 3, "samples": [{"tokens": [9, 1, 2], "reward": numpy.float32(1), "status": Status.DONE, "info": Info(2),
    "rollout_log_probs": numpy.array([-1.0, -2.0]), "routed": numpy.zeros((2, 2)), "response_length": 2}]}
VERL = Proto({"rollout_log_probs": torch.tensor([[-1.0, -2.0]]), "response_mask": torch.tensor([[1, 1]])},
    {"uid": numpy.array(["a"], dtype=object)}, {"global_steps": 3})
NESTED = {"tensordict": {"rollout_log_probs": torch.nested.nested_tensor([[-1.0, -2.0]])}, "keys": numpy.array(["a"]), "global_steps": 3}
"""


@pytest.mark.parametrize("value", ["SLIME", "VERL", "NESTED"])
@pytest.mark.parametrize("name", ["dump.pt", "dump.pkl"])
def test_the_snippet_makes_plain_values_of_it_where_it_was_written(tmp_path, value, name):
    (tmp_path / "there.py").write_text(MODULE)
    how = f"torch.save({value}, '{name}')" if name.endswith(".pt") else f"pickle.dump({value}, open('{name}', 'wb'))"
    python = [sys.executable, "-W", "ignore", "-c"]
    subprocess.run([*python, f"import pickle; from there import *; {how}"], cwd=tmp_path, check=True)
    with pytest.raises(ReadError) as refused:
        READER.read(tmp_path / name)
    subprocess.run([*python, snippet(refused.value)], cwd=tmp_path, check=True)
    found, _ = tokens(tmp_path / "dump.plain.pt")
    assert (found["rollout_logprob"], found["step"]) == ([-1.0, -2.0], [3, 3])


@pytest.mark.parametrize("length", [2_000, 2_000_000_000])
def test_a_tensor_expanded_from_one_number_is_refused_before_it_is_unpacked(tmp_path, length):
    path = saved(tmp_path / "0.pt", dump(sample(rollout_log_probs=torch.zeros(1).expand(length))))
    assert path.stat().st_size < 10_000
    with pytest.raises(TooLargeError, match="no more values than"):
        READER.read(path)


def test_one_response_a_million_times_is_refused(tmp_path):
    response = {"rollout_log_probs": torch.zeros(500), "log_probs": torch.ones(500)}
    path = saved(tmp_path / "0.pt", dump(*[response] * 100_000))
    assert path.stat().st_size < 500_000
    with pytest.raises(TooLargeError, match="no more values than"):
        READER.read(path)


def test_a_compressed_file_was_not_made_by_torch_and_is_refused_unread(tmp_path):
    whole = io.BytesIO()
    torch.save(dump(sample(rollout_log_probs=torch.zeros(10_000_000))), whole)
    path = tmp_path / "0.pt"
    with zipfile.ZipFile(whole) as stored, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for member in stored.infolist():
            packed.writestr(member.filename, stored.read(member))
    with pytest.raises(TooLargeError, match="uncompressed tensors"):
        READER.read(path)


@pytest.mark.parametrize("tensor", [torch.zeros(3).to_sparse(), torch.zeros(3, 1), torch.tensor(1.0)], ids=["sparse", "two", "none"])
def test_a_tensor_of_another_kind_does_not_fit(tmp_path, tensor):
    found, (problem,) = tokens(saved(tmp_path / "0.pt", dump(sample(), sample(rollout_log_probs=tensor))))
    assert len(found["step"]) == 2
    assert problem.place == "response 1"


def test_without_torch_a_sentence_says_so(tmp_path, monkeypatch):
    path = saved(tmp_path / "0.pt", dump(sample()))
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ReadError, match="pip install torch"):
        READER.read(path)


def test_a_torch_that_can_be_got_round_is_refused(tmp_path, monkeypatch):
    path = saved(tmp_path / "0.pt", dump(sample()))
    monkeypatch.setattr(torch, "__version__", "2.5.1+cpu")
    with pytest.raises(ReadError, match=r"2\.6 or later"):
        READER.read(path)


def test_torch_is_not_imported_before_a_file_needs_it():
    code = "import sys; from ingest.identify import readers; readers(); sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_prefix_and_every_flipped_byte_is_read_or_refused(tmp_path):
    whole = saved(tmp_path / "0.pt", dump(sample())).read_bytes()
    random = np.random.default_rng(5)
    damaged = [whole[:end] for end in range(4, len(whole), 97)]
    places = random.integers(0, len(whole), 150)
    damaged += [whole[:place] + bytes([whole[place] ^ int(random.integers(1, 256))]) + whole[place + 1 :] for place in places]
    for content in damaged:
        path = tmp_path / "0.pt"
        path.write_bytes(content)
        if READER.objection(path) is None:
            with contextlib.suppress(ReadError):
                tokens(path)


def test_the_sample_through_the_front_door():
    (run,) = load(DATA / "train_data")
    frame, problems = metric_frame_with_problems(run)
    assert not [problem for problem in problems if problem.kind is not ProblemKind.NOTE]
    assert set(frame["step"].to_pylist()) == {0, 1}
