"""prime-rl's token export: `token_exports/step_S/rank_R.jsonl`, one packed sequence a line, engine and trainer beside each other.

`inference_logprobs` is the engine, `trainer_logprobs` the weights being updated, so together the total ratio; there is no third
log-probability and no version. Source: src/prime_rl/trainer/rl/token_export.py.
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
from ingest.readers._json_tokens import PRIME_RL, first_object, objection, open_dump
from ingest.readers._responses_table import Misfit, Remark, Response, Values, numbers, same_length, wholes
from ingest.run import ProblemKind, RawLog, ReadProblem
from ingest.tokens import token_log

_STEP = re.compile(r"step_(\d{1,15})\Z")
# "-2" is how the run store tells two files of one name apart.
_FILE = re.compile(r"rank_(\d{1,6})(?:-\d+)?\.jsonl\Z")
_NAMES = {
    "inference_logprobs": "rollout_logprob",
    "trainer_logprobs": "current_logprob",
    "token_ids": "token_id",
    "advantages": "advantage",
    "rewards": "reward",  # of v0.6.0 only
    "entropy": "entropy",
}
_ALWAYS = {"step": "step", "export_sequence_idx": "sample_id", "place among the tokens": "position", "loss_mask": "loss_mask"}
_CHECK = "log_importance_ratio"
_TOLERANCE = 1e-3  # nats; the export subtracts the same 32 bit numbers, so only their rounding differs
_TOKENS_OF = "tokens without a loss mask and without an engine log-probability are prompts or tools: they were not sampled and give no rows"
_ENTROPY = "entropy is the trainer's, under the weights being updated"
_NULLS = "the export writes null for every number that is not finite: such a log-probability is read as NaN"
_SHIFTED = Remark(
    column=_CHECK,
    what="differs from trainer_logprobs - inference_logprobs: are the columns shifted against each other?",
    kind=ProblemKind.NOTE,
)
_RANK = 2**42  # sequences of one rank and step, or bytes of its file, at most


def _ranks(folder: Path) -> list[Path]:
    named = [(match, path) for path in folder.iterdir() if (match := _FILE.search(path.name))]
    return [path for _, path in sorted((int(match[1]), path) for match, path in named) if path.is_file() and is_inside(path, folder)]


def _steps(folder: Path) -> list[Path]:
    """The folders of steps, in their order. One of them alone is no log: its files are, and become one when all are given."""
    named = [(match, path) for path in folder.iterdir() if (match := _STEP.match(path.name))]
    steps = [path for _, path in sorted((int(match[1]), path) for match, path in named) if path.is_dir() and is_inside(path, folder)]
    return [step for step in steps if _ranks(step)]


def _objection(path: Path) -> str | None:
    if path.is_dir():
        return None if _steps(path) else "the folder has no step_*/rank_*.jsonl"
    return objection(path, PRIME_RL)


def _read(path: Path) -> tuple[RawLog, ...]:
    steps = _steps(path) if path.is_dir() else []
    files = [file for step in steps for file in _ranks(step)] or [path]
    rows = [first_object(file) or {} for file in dict.fromkeys((files[0], files[-1]))]
    names = {raw: canonical for raw, canonical in _NAMES.items() if any(_recorded(row.get(raw)) for row in rows)}
    if not set(PRIME_RL) <= set(names):
        found = f"lines of which the first has {', '.join(sorted(set().union(*rows)))[:200] or 'no object'}"
        raise ReadError(str(path), expected=f"lists under {' and '.join(PRIME_RL)}", found=found, remedy="Was the export cut short?")
    pieces = [open_dump(file, _ALWAYS | names, partial(_understand, rank=_rank(file))) for file in files]
    problems = tuple(ReadProblem(path=str(path), place="", what=what, kind=ProblemKind.NOTE) for what in _notes(steps, names))
    return (RawLog(name=_name(path), path=str(path), container=READER.id, tokens=token_log(pieces), problems=problems),)


def _recorded(column: object) -> bool:
    return isinstance(column, list) and any(value is not None for value in column)


def _name(path: Path) -> str:
    resolved = path.resolve()
    return resolved.parent.name if resolved.name == "token_exports" else path.stem


def _notes(steps: list[Path], names: dict[str, str]) -> Iterator[str]:
    yield _TOKENS_OF
    yield _NULLS
    if "entropy" in names:
        yield _ENTROPY
    unfinished = [step.name for step in steps if not (step / "STABLE").exists()]
    if unfinished:
        shown = ", ".join(unfinished[:5]) + (f" and {len(unfinished) - 5} more" if len(unfinished) > 5 else "")  # noqa: PLR2004
        yield f"{shown}: no STABLE marker, so the export of the step may not be complete"


def _rank(path: Path) -> int:
    match = _FILE.search(path.name)
    return int(match[1]) if match else 0


def _understand(row: dict[str, Any], offset: int, rank: int) -> Response:
    """Make tokens of one line. Entry i of every list belongs to token i; entry 0 is padding, because nothing comes before it."""
    lists = _lists(row)
    same_length(lists)
    engine, trainer, mask = lists["inference_logprobs"], lists["trainer_logprobs"], lists["loss_mask"]
    if engine is None or trainer is None:
        raise Misfit("no inference_logprobs or no trainer_logprobs")
    counts = np.ones(len(engine), bool) if mask is None else mask != 0
    sampled = counts | ((engine != 0) & ~np.isnan(engine))
    sampled[:1] = False
    places = np.flatnonzero(sampled)
    columns: dict[str, Values | int | float] = {
        _NAMES[name]: values[places] for name, values in lists.items() if values is not None and name in _NAMES
    }
    columns |= {"loss_mask": counts[places], "position": places - (places[0] if len(places) else 0)}
    columns |= {"step": _step(row), "sample_id": _sample(row, offset, rank)}
    with np.errstate(invalid="ignore"):  # two infinities
        ratio = trainer - engine
    return Response(columns=columns, said=_shifted(lists[_CHECK], ratio, places))


def _lists(row: dict[str, Any]) -> dict[str, Values | None]:
    floats = (*(name for name in _NAMES if name != "token_ids"), "loss_mask", _CHECK)
    return {name: numbers(row.get(name), name) for name in floats} | {"token_ids": wholes(row.get("token_ids"), "token_ids")}


def _step(row: dict[str, Any]) -> int:
    """The step of the run: where several runs share a trainer its own counter is export_step, elsewhere the two are one."""
    step = step_of(row.get("export_step", row.get("step")))
    if step is None:
        raise Misfit("no whole number under step")
    return step


def _sample(row: dict[str, Any], offset: int, rank: int) -> int:
    """Sequences are numbered within rank and step; where one is not, the place its line begins at tells it apart."""
    index = step_of(row.get("export_sequence_idx"))
    return rank * _RANK + (index if index is not None and 0 <= index < _RANK else offset)


def _shifted(logged: Values | None, ratio: Values, places: Values) -> dict[Remark, int]:
    """How many tokens the export's own log ratio contradicts; null and NaN contradict nothing."""
    if logged is None:
        return {}
    finite = places[np.isfinite(logged[places]) & np.isfinite(ratio[places])]
    off = int(np.count_nonzero(np.abs(logged[finite] - ratio[finite]) > _TOLERANCE))
    return {_SHIFTED: off} if off else {}


READER = Reader(id="prime_rl_tokens", title="prime-rl token export", objection=_objection, read=_read, searches=True)
