"""Record files of one run id: a run that was resumed leaves one folder a start, and they are one run where their steps go on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from ingest.run import ProblemKind, RawLog, ReadProblem

CONTAINER = "wandb_run"
_ID = "wandb.id"


def joined(logs: Iterable[RawLog]) -> tuple[RawLog, ...]:
    """One raw log per run of wandb's record files, in the order of the first start of each; all other logs stay as they are.

    Values that two starts have logged both stay, the later ones behind: what a restart made void is found out by the steps, as in any log.
    A start whose steps begin anew, as those of runs that were resumed offline do, stays a run of its own.
    """
    runs: dict[str, list[RawLog]] = {}
    for place, log in enumerate(logs):
        known = log.container == CONTAINER and _ID in log.config
        runs.setdefault(f"{log.config[_ID]}" if known else f"/{place}", []).append(log)
    return tuple(log for starts in runs.values() for log in _chain(starts))


def _chain(starts: list[RawLog]) -> list[RawLog]:
    first, *others = sorted(starts, key=_when)
    logs = [first]
    for nth, later in enumerate(others, start=2):
        begun, seam = _first_step(logs[-1]), _first_step(later)
        if later.path == logs[-1].path or (begun is not None and seam is not None and seam <= begun):
            logs.append(_apart(later, nth, seam))
        else:
            logs[-1] = _after(logs[-1], later, seam)
    return logs


def _when(log: RawLog) -> str:
    """The time of a start, which the name of its folder begins with."""
    path = Path(log.path)
    return (path.parent if path.suffix == ".wandb" else path).name.removeprefix("offline-")


def _first_step(log: RawLog) -> int | None:
    step: int | None = pc.min(log.scalars.column("step")).as_py()
    return step


def _apart(later: RawLog, nth: int, seam: int | None) -> RawLog:
    """Number a start; one that bears its number already was told apart when its folder was read."""
    if later.name.endswith(f" ({nth})"):
        return later
    what = f"start {nth} of run {later.config[_ID]} counts its steps from {seam} again, so it is shown as a run of its own"
    note = ReadProblem(path=later.path, place=f"step {seam}", what=what, kind=ProblemKind.NOTE)
    return replace(later, name=f"{later.name} ({nth})", problems=(*later.problems, note))


def _after(earlier: RawLog, later: RawLog, seam: int | None) -> RawLog:
    place = "end of the file" if seam is None else f"step {seam}"
    mark = ReadProblem(path=earlier.path, place=place, what=f"the run was started again, in {later.path}", kind=ProblemKind.NOTE)
    return replace(
        earlier,
        scalars=pa.concat_tables([earlier.scalars, later.scalars]),
        config={**earlier.config, **later.config},
        problems=(*earlier.problems, *later.problems, mark),
    )
