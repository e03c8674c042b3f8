"""The page on own loops: its code runs as it stands, and what it says of defaults is so."""

import inspect
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import torch

from monitor.record import BackgroundRecorder, files
from monitor.record.resync import ASKED, TAKEN, write_whole

PAGE = (Path(__file__).parents[3] / "docs" / "own_loop.md").read_text(encoding="utf-8")
LOOP, COLUMNS = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)


def batch():
    mask = torch.tensor([[0, 1, 1, 0], [0, 0, 1, 0]])
    numbers = torch.arange(8.0).reshape(2, 4)
    return SimpleNamespace(
        response_mask=mask,
        engine_logprobs=-numbers,
        generator_logprobs=(-numbers - 0.5).to(torch.bfloat16),
        rewards=torch.tensor([1, 0]),
        advantages=numbers.clone().requires_grad_(),
        versions=torch.full((2, 4), 3),
    )


def test_the_loop_runs_and_records_what_it_says(tmp_path):
    loaded = []
    write_whole(tmp_path / ASKED, {"episode": "low:a:1", "step": 1, "reason": "ESS", "asked_at": 0.0})
    known = {
        "torch": torch,
        "run_dir": tmp_path,
        "rank": 2,
        "first_step": 5,
        "last_step": 7,
        "resumed": True,
        "rollouts": iter([batch(), batch()]),
        "train": lambda each: each.engine_logprobs - 1,
        "generator": SimpleNamespace(load=loaded.append),
        "policy": "weights",
    }
    exec(COLUMNS, known)  # noqa: S102 - the page's own code is what is tested
    exec(LOOP, known)  # noqa: S102
    recorder = known["recorder"]
    assert (recorder.recorded, recorder.dropped, recorder.failures) == (2, 0, 0)
    table = pq.ParquetFile(files.part_of(tmp_path, 6, 2)).read()
    assert table.select(["sample_id", "position", "rollout_logprob", "same_weights_logprob", "current_logprob"]).to_pydict() == {
        "sample_id": [4, 4, 5],
        "position": [0, 1, 0],
        "rollout_logprob": [-1.0, -2.0, -6.0],
        "same_weights_logprob": [-1.5, -2.5, -6.5],
        "current_logprob": [-2.0, -3.0, -7.0],
    }
    assert table.select(["reward", "advantage", "rollout_version", "trainer_version"]).to_pydict() == {
        "reward": [1.0, 1.0, 0.0],
        "advantage": [1.0, 2.0, 6.0],
        "rollout_version": [3, 3, 3],
        "trainer_version": [6, 6, 6],
    }
    assert loaded == ["weights"], "once, though it was asked at each of two steps"
    assert (tmp_path / TAKEN).is_file()


def test_the_numbers_on_the_page_are_those_of_the_code():
    defaults = {name: each.default for name, each in inspect.signature(BackgroundRecorder).parameters.items()}
    assert f"`waiting` steps ({defaults['waiting']})" in PAGE
    assert f"`exit_timeout_s` ({defaults['exit_timeout_s']:.0f} s)" in PAGE
    for name in re.findall(r"`(?:recorder)?\.(\w+)`", PAGE):
        assert hasattr(BackgroundRecorder, name), name
    assert "53 MB each" in PAGE
    assert sum(np.dtype(kind).itemsize for kind in ("i8", "i4", *["f4"] * 6, "?", "i8", "i8")) == 53
