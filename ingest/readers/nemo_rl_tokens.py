"""NeMo-RL's token dump: `train_data_step5.jsonl`, one sample a line, and folders of these (`exp_001`).

`generation_logprobs` is the engine; `prev_logprobs` is the trainer at the start of the step, so `old_logprob`. Which weights the engine
held is not in the dump. Sources: nemo_rl/algorithms/grpo.py, nemo_rl/utils/{logger,train_data_dump}.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ingest.errors import ReadError
from ingest.reader import Reader
from ingest.readers._files import is_inside
from ingest.readers._json import step_of
from ingest.readers._json_tokens import NEMO_RL, first_object, objection, open_dump
from ingest.readers._numbers import number_of, whole
from ingest.readers._responses_table import Misfit, Remark, Response, Values, numbers, same_length, wholes
from ingest.run import ProblemKind, RawLog, ReadProblem
from ingest.tokens import token_log

_FILE = re.compile(r"train_data_step(\d{1,15})\.jsonl\Z")
_NAMES = {
    "generation_logprobs": "rollout_logprob",
    "prev_logprobs": "old_logprob",
    "token_ids": "token_id",
    "advantages": "advantage",
    "rewards": "reward",
}
_ALWAYS = {"step": "step", "idx": "sample_id", "place among the tokens": "position", "sample_loss_mask": "loss_mask"}
_TOKENS_OF = "tokens of prompts and tools, and padding, are not sampled and give no rows; samples masked as a whole do, and do not count"
_NO_MASK = (
    "no token_loss_mask, as up to v0.5: tokens with an engine log-probability are taken for the sampled ones, "
    "so one that was certain (log-probability 0) is missing"
)
_FROM_ZERO_FILE = "train_data_step0.jsonl"
_FROM_ZERO = "files are numbered from 0, as up to v0.4; the step is one more, as in the framework's other logs"
_MAYBE_ZERO = "no token_loss_mask, as up to v0.5: up to v0.4 files were numbered one lower than the steps of the framework's other logs"
_NO_WEIGHTS = "which weights sampled a token is not in the dump: of an asynchronous run, old_logprob holds part of the lag"
_NOT_COMPUTED = Remark(
    column="prev_logprobs",
    what="all zero, as under force_on_policy_ratio, which stands for 'not computed': these are not log-probabilities",
    kind=ProblemKind.PLACEHOLDER,
)


def _steps(folder: Path) -> list[tuple[int, Path]]:
    """The dumped steps of a folder, in their order."""
    named = [(match, path) for path in folder.iterdir() if (match := _FILE.search(path.name))]
    return sorted((int(match[1]), path) for match, path in named if path.is_file() and is_inside(path, folder))


def _objection(path: Path) -> str | None:
    if path.is_dir():
        return None if _steps(path) else "the folder has no train_data_step*.jsonl"
    return objection(path, NEMO_RL)


def _read(path: Path) -> tuple[RawLog, ...]:
    files = _steps(path) if path.is_dir() else [(_step_of(path), path)]
    folder = path if path.is_dir() else path.parent
    shift = 1 if (folder / _FROM_ZERO_FILE).is_file() else 0
    rows = [first_object(file) or {} for file in dict.fromkeys((files[0][1], files[-1][1]))]  # a resumed run may have two versions
    names = {raw: canonical for raw, canonical in _NAMES.items() if any(raw in row for row in rows)}
    pieces = [open_dump(file, _ALWAYS | names, partial(_understand, step=number + shift)) for number, file in files]
    problems = tuple(ReadProblem(path=str(path), place="", what=what, kind=ProblemKind.NOTE) for what in _notes(rows, shift))
    return (RawLog(name=path.stem, path=str(path), container=READER.id, tokens=token_log(pieces), problems=problems),)


def _notes(rows: list[dict[str, Any]], shift: int) -> Iterator[str]:
    yield _TOKENS_OF
    yield _NO_WEIGHTS
    if any(row and "token_loss_mask" not in row for row in rows):
        yield _NO_MASK
        yield _FROM_ZERO if shift else _MAYBE_ZERO
    elif shift:
        yield _FROM_ZERO


def _step_of(path: Path) -> int:
    """The step of a single file: as its rows say it, which newer versions do, or else as its name does."""
    if (step := step_of((first_object(path) or {}).get("step"))) is not None:
        return step
    if match := _FILE.search(path.name):
        return int(match[1])
    remedy = "Give the file the name that NeMo-RL gave it, train_data_stepN.jsonl."
    raise ReadError(str(path), expected="the step in the file's name", found="none", remedy=remedy)


def _understand(row: dict[str, Any], offset: int, step: int) -> Response:
    """Make tokens of one line: cut the padding, and keep what was sampled.

    Entry t of every list belongs to token t; entry 0 has no log-probability, because nothing comes before it.
    """
    lists, length = _lists(row), _length(row)
    same_length(lists)
    engine = lists["generation_logprobs"]
    if engine is None:
        raise Misfit("no generation_logprobs")
    if len(engine) < length:
        raise Misfit(f"input_lengths is {length}, but the lists have {len(engine)} values")
    mask = lists["token_loss_mask"]
    counts = (engine if mask is None else mask)[:length] != 0
    sampled = counts | (engine[:length] != 0)
    sampled[:1] = False
    places = np.flatnonzero(sampled)
    columns: dict[str, Values | int | float] = {
        _NAMES[name]: values[places] for name, values in lists.items() if values is not None and name in _NAMES
    }
    said = _placeholder(columns)
    trains = _one(row.get("sample_loss_mask"), 1.0) != 0
    columns |= {"loss_mask": counts[places] & trains, "position": places - (places[0] if len(places) else 0)}
    columns |= {"step": step, "sample_id": _sample(row, offset)}
    if not np.isnan(reward := _reward(row)):
        columns["reward"] = reward
    return Response(columns=columns, said=said)


def _lists(row: dict[str, Any]) -> dict[str, Values | None]:
    """The columns of a line; each is wrapped in a list of one, because the framework writes slices of one row of a batch."""
    ids = wholes(_inner(row.get("token_ids")), "token_ids")
    names = ("generation_logprobs", "prev_logprobs", "token_loss_mask")
    lists = {name: numbers(_inner(row.get(name)), name) for name in names}
    advantages = _inner(row.get("advantages"))
    if not isinstance(advantages, list) or len(advantages) == 1:  # one for the whole sample
        one = _one(advantages, np.nan)
        engine = lists["generation_logprobs"]
        advantages = None if np.isnan(one) or engine is None else [one] * len(engine)
    return {**lists, "token_ids": ids, "advantages": numbers(advantages, "advantages")}


def _inner(value: object) -> object:
    """The list inside a list of one, or the list itself."""
    return value[0] if isinstance(value, list) and len(value) == 1 and isinstance(value[0], list) else value


def _one(value: object, default: float) -> float:
    """One number, bare or in a list of one."""
    read = number_of(value[0] if isinstance(value, list) and len(value) == 1 else value)
    return default if read is None else read


def _length(row: dict[str, Any]) -> int:
    length = whole(_one(row.get("input_lengths"), np.nan))
    if length is None or length < 0:
        raise Misfit("no whole number under input_lengths")
    return length


def _sample(row: dict[str, Any], offset: int) -> int:
    """The row's number in the file, which tells the samples of a step apart; where it has none, the place it begins at does."""
    index = step_of(row.get("idx"))
    return offset if index is None else index


def _reward(row: dict[str, Any]) -> float:
    """What was trained with: under dynamic sampling `rewards` are those before the filter. NaN where there is none."""
    return _one(row.get("filtered_rewards", row.get("rewards")), np.nan)


def _placeholder(columns: dict[str, Values | int | float]) -> dict[Remark, int]:
    """Take out prev_logprobs that were not computed: under force_on_policy_ratio all are zero."""
    old, engine = columns.get("old_logprob"), np.asarray(columns["rollout_logprob"])
    if old is None or not len(engine) or np.any(old) or not np.any(engine):
        return {}
    del columns["old_logprob"]
    return {_NOT_COMPUTED: len(engine)}


READER = Reader(id="nemo_rl_tokens", title="NeMo-RL token dump", objection=_objection, read=_read, searches=True)
