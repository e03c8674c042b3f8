"""One experiment that is logged in several runs becomes one: its trainer's run, with what its other processes logged put beside it.

PipelineRL logs `EXPERIMENT/finetune`, `EXPERIMENT/actor` and `EXPERIMENT/preprocess`, runs of one wandb group with a clock each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest._clock import timed
from ingest.run import ProblemKind, RawLog, ReadProblem
from ingest.tokens import TokenLog

_TRAINER = "finetune"
_STEP = "stats/completed_steps"
_SAMPLES = "stats/samples"  # the trainer's own clock in samples, which is also how it numbers its weights
# Other processes -> the key that says which of the trainer's weights, in samples, their values belong to.
_VERSIONS = {"actor": "actor/trainer_model_version", "preprocess": "preprocessor/published_model_version"}
# What each process logs: a run is taken for one only if its keys are those, whatever it is called.
_PREFIXES = {_TRAINER: ("rl/", "stats/"), "actor": ("actor/",), "preprocess": ("preprocessor/",)}
_LISTED = 5
# Containers of which a log is many files that each look like a log of their own.
_INSIDE = ("token_exports", "train_data")  # folders in a run's folder
_ONE_A_STEP = ("nemo_rl_tokens", "prime_rl_tokens", "torch_file")


@dataclass(frozen=True)
class _Member:
    """A run as a part of an experiment."""

    experiment: str
    process: str
    raw: RawLog


def join(raws: Iterable[RawLog]) -> tuple[RawLog, ...]:
    """Make one log of those that belong to one experiment; all others stay as they are, and the order is that of the first of each.

    Runs belong together if each is another process of the same experiment: their names differ in the process alone
    (`exp/finetune`, `exp/actor`), or, where their names are the process or an id, they share a wandb group that has one run of each.
    Two runs of one process are two experiments, so nothing is joined then, and that is said.

    The trainer's log keeps its steps. The other processes count by themselves; each of their keys is put on the trainer's steps if
    the run says which weights its values belong to (`actor/trainer_model_version`) and the trainer at which step it had them
    (`stats/samples`); otherwise the key keeps its own steps, and a note says so. Files of a token dump that hold a step each, given
    one by one, become one token log; a token log in the folder of a single step log (`exp_001/train_data_step*.jsonl` over
    `exp_001/tensorboard`, `token_exports` beside `metrics.jsonl`) is that run's.

    Args:
        raws: what readers gave, after exports of the same run were merged.
    """
    logs = _with_tokens(_steps_together(tuple(raws)))
    members = [_member(raw) for raw in logs]
    groups: dict[str, list[_Member]] = {}
    for member in members:
        if member is not None:
            groups.setdefault(member.experiment, []).append(member)
    joined = {name: _joined(found) for name, found in groups.items()}
    done: list[RawLog] = []
    for raw, member in zip(logs, members, strict=True):
        if member is None:
            done.append(raw)
        elif groups[member.experiment][0] is member:
            done += joined[member.experiment]
    return tuple(done)


def _member(raw: RawLog) -> _Member | None:
    """Which process of which experiment a run is; None for a run that is neither named nor grouped as one, or logs something else."""
    keys = pc.unique(raw.scalars.column("key")).to_pylist()
    process = next((name for name, prefixes in _PREFIXES.items() if any(key.startswith(prefixes) for key in keys)), None)
    if process is None:
        return None
    for separator in ("/", "_"):  # an id, and a folder's name, has "_" for "/"
        head, found, tail = raw.name.rpartition(separator)
        if found and head and tail == process:
            return _Member(f"name {head}", process, raw)
    group = str(raw.config.get("group", ""))
    return _Member(f"group {group}", process, raw) if group else None


def _joined(members: list[_Member]) -> list[RawLog]:
    """The runs of one experiment as one, or as they are where it is not certain that they are one."""
    trainers = [member for member in members if member.process == _TRAINER]
    if len({member.process for member in members}) == 1 or not trainers:
        return [member.raw for member in members]
    if len({member.process for member in members}) < len(members):
        return [_said(member.raw, _ambiguous(members)) for member in members]
    log = timed(trainers[0].raw, (_STEP,)).raw  # now, so that no other process's own count is taken for the trainer's later
    for member in members:
        if member.process != _TRAINER:
            log = _with(log, member)
    name = members[0].experiment.partition(" ")[2] if members[0].experiment.startswith("name ") else log.name
    return [replace(log, name=name)]


def _ambiguous(members: list[_Member]) -> str:
    named = ", ".join(f"{member.raw.name} ({member.process})" for member in members[:_LISTED])
    return (
        f"not joined: several runs of one process share the {members[0].experiment[:200]}, so which belong together is not known: {named}"
    )


def _said(raw: RawLog, what: str) -> RawLog:
    note = ReadProblem(path=raw.path, place=f"run {raw.name}", what=what, kind=ProblemKind.NOTE)
    return replace(raw, problems=(*raw.problems, note))


def _with(trainer: RawLog, member: _Member) -> RawLog:
    """Put another process's values beside the trainer's."""
    other = member.raw
    placed, what, lost = _placed(trainer, other.scalars, _VERSIONS[member.process])
    notes = [ReadProblem(path=other.path, place=f"run {other.name}", what=text, kind=ProblemKind.NOTE) for text in what]
    if lost:
        text = f"values of weights that the trainer's log does not reach: it ends before their {_VERSIONS[member.process]}"
        notes.append(ReadProblem(path=other.path, place=f"run {other.name}", what=text, rows=lost))
    return replace(
        trainer,
        scalars=pa.concat_tables([trainer.scalars, placed]),
        tokens=trainer.tokens or other.tokens,
        config={**other.config, **trainer.config},
        problems=(*trainer.problems, *other.problems, *notes),
    )


def _placed(trainer: RawLog, scalars: pa.Table, version_key: str) -> tuple[pa.Table, list[str], int]:
    """Values on the trainer's steps, what is to be said about it, and how many values lie beyond the trainer's log."""
    own = f"joined to {trainer.name}, on its own steps: "
    steps = _steps_by_samples(trainer.scalars)
    if steps is None:
        return scalars, [f"{own}{trainer.name} has no {_SAMPLES}, or it falls"], 0
    versions = _column(scalars, version_key)
    if not len(versions):
        return scalars, [f"{own}it has no {version_key}"], 0
    version_of = dict(zip(versions["step"].tolist(), versions["value"].tolist(), strict=True))
    targets = {step: _target(version, *steps) for step, version in version_of.items()}
    keys = pc.unique(scalars.column("key")).to_pylist()
    tables, unplaced = [], []
    for key in keys:
        rows = scalars.filter(pc.equal(scalars.column("key"), key))
        if not set(rows.column("step").to_pylist()) <= set(targets):
            unplaced.append(key)
            tables.append(rows)
        else:
            tables.append(_moved(rows, targets))
    placed = pa.concat_tables(tables)
    what = [f"joined to {trainer.name}: its values stand at the trainer's step whose {_SAMPLES} is their {version_key}"]
    if unplaced:
        shown = ", ".join(unplaced[:_LISTED]) + (f" and {len(unplaced) - _LISTED} more" if len(unplaced) > _LISTED else "")
        what.append(f"logged where it has no {version_key}, so on its own steps: {shown}")
    return placed, what, scalars.num_rows - placed.num_rows


def _moved(rows: pa.Table, targets: Mapping[int, int | None]) -> pa.Table:
    """Rows at the trainer's steps; those beyond its log are left out."""
    steps = pa.array([targets[step] for step in rows.column("step").to_pylist()], pa.int64())
    moved = rows.set_column(rows.schema.get_field_index("step"), rows.schema.field("step"), steps)
    return moved.filter(pc.is_valid(moved.column("step")))


def _column(scalars: pa.Table, key: str) -> dict[str, np.ndarray]:
    """Steps and values of one key, without values that are not finite."""
    rows = scalars.filter(pc.and_(pc.equal(scalars.column("key"), key), pc.is_finite(scalars.column("value"))))
    found = {name: rows.column(name).to_numpy() for name in ("step", "value")}
    return found if rows.num_rows else {}


def _steps_by_samples(trainer: pa.Table) -> tuple[np.ndarray, np.ndarray] | None:
    """Rising samples and the step at which the trainer had consumed so many; None where it does not say, or where they fall."""
    found = _column(trainer, _SAMPLES)
    if not found:
        return None
    order = np.argsort(found["step"], kind="stable")
    samples = found["value"][order]
    return (samples, found["step"][order]) if np.all(samples[1:] >= samples[:-1]) else None


def _target(version: float, samples: np.ndarray, steps: np.ndarray) -> int | None:
    """The last step at which the trainer had no more than these samples: between two logged steps it is the one before.

    Weights from before the first logged step (version 0) stand one step before it, but not before 0.
    """
    if version > samples[-1]:
        return None
    place = int(np.searchsorted(samples, version, side="right")) - 1
    return int(steps[place]) if place >= 0 else max(0, int(steps[0]) - 1)


def _steps_together(raws: tuple[RawLog, ...]) -> tuple[RawLog, ...]:
    """Files of a dump that hold a step each, and lie in one folder, as one token log in the order of their names."""
    found: dict[tuple[str, Path], list[RawLog]] = {}
    for raw in raws:
        if raw.container in _ONE_A_STEP and raw.tokens is not None and len(raw.tokens.pieces) == 1:
            found.setdefault((raw.container, raw.tokens.pieces[0].path.parent), []).append(raw)
    together = {id(logs[0]): _together(logs) for logs in found.values() if len(logs) > 1}
    absorbed = {id(raw) for logs in found.values() for raw in logs[1:]}
    return tuple(together.get(id(raw), raw) for raw in raws if id(raw) not in absorbed)


def _together(logs: list[RawLog]) -> RawLog:
    pieces = tuple(piece for log in logs if log.tokens for piece in log.tokens.pieces)
    columns = frozenset(name for log in logs if log.tokens for name in log.tokens.columns)
    said = dict.fromkeys(replace(problem, path=logs[0].path) for log in logs for problem in log.problems)
    folder = Path(logs[0].path).parent
    name = folder.name or logs[0].name
    return replace(logs[0], name=name, path=str(folder), tokens=TokenLog(pieces=pieces, columns=columns), problems=tuple(said))


def _with_tokens(raws: tuple[RawLog, ...]) -> tuple[RawLog, ...]:
    """Token logs of a framework put to the step log of their folder, where it has exactly one and that one has no tokens."""
    homes = {id(raw): _home(raw) for raw in raws if raw.container in _ONE_A_STEP and raw.tokens and not raw.scalars.num_rows}
    given: dict[int, RawLog] = {}
    taken: set[int] = set()
    for tokens in (raw for raw in raws if id(raw) in homes):
        beside = [raw for raw in raws if raw.scalars.num_rows and Path(raw.path).is_relative_to(homes[id(tokens)])]
        if len(beside) == 1 and beside[0].tokens is None and id(beside[0]) not in given:
            what = f"the token log of the same folder, {tokens.name}, is taken for this run's"
            # A file's stem (`metrics`, `log`) says less than the folder's name.
            name = tokens.name if Path(beside[0].path).suffix else beside[0].name
            log = replace(beside[0], name=name, tokens=tokens.tokens, problems=(*beside[0].problems, *tokens.problems))
            given[id(beside[0])] = _said(log, what)
            taken.add(id(tokens))
    return tuple(given.get(id(raw), raw) for raw in raws if id(raw) not in taken)


def _home(raw: RawLog) -> Path:
    """The folder of the run that a token log lies in."""
    path = Path(raw.path)
    return path.parent if path.name in _INSIDE else path
