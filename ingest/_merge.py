"""Several exports of the same runs become one raw log per run: a chart export holds one metric, the runs table the settings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from ingest.readers._rows import coded
from ingest.readers._wandb_segments import joined
from ingest.run import ProblemKind, RawLog, ReadProblem

_MERGED = "wandb_csv"  # the one container in which a run is spread over files that know its name
_LISTED = 5


def merged(raws: Iterable[RawLog]) -> tuple[RawLog, ...]:
    """Join raw logs of one run name that come from different wandb exports, and starts of one run; all others stay as they are."""
    found: list[RawLog] = []
    holders: dict[str, int] = {}  # run name -> its place in `found`
    files: dict[str, set[str]] = {}  # run name -> the files it was read from; two runs of one file are two runs
    for raw in joined(raws):
        if raw.container == _MERGED and raw.path not in files.setdefault(raw.name, {raw.path}):
            files[raw.name].add(raw.path)
            found[holders[raw.name]] = _joined(found[holders[raw.name]], raw)
            continue
        if raw.container == _MERGED:
            holders.setdefault(raw.name, len(found))
        found.append(raw)
    return tuple(found)


def _joined(first: RawLog, second: RawLog) -> RawLog:
    """Add what the second file has; where both have a key at a step, the first file's value stays."""
    fresh, problems = _fresh(first, second)
    return replace(
        first,
        scalars=pa.concat_tables([first.scalars, fresh]),
        config={**second.config, **first.config},
        problems=(*first.problems, *second.problems, *problems),
    )


def _fresh(first: RawLog, second: RawLog) -> tuple[pa.Table, list[ReadProblem]]:
    common = pa.array(sorted(set(coded(first.scalars.column("key"))[0]) & set(coded(second.scalars.column("key"))[0])), pa.string())
    if not len(common):
        return second.scalars, []
    known: dict[tuple[str, int], set[str]] = {}
    for key, step, value in _rows(first.scalars.filter(pc.is_in(first.scalars.column("key"), common))):
        known.setdefault((key, step), set()).add(value)
    same: list[str] = []
    other: list[str] = []
    keep: list[bool] = []
    for key, step, value in _rows(second.scalars):
        values = known.get((key, step))
        keep.append(values is None)
        if values is not None:
            (same if value in values else other).append(f"{key} at step {step}")
    return second.scalars.filter(pa.array(keep, pa.bool_())), [
        *_problem(second, same, f"the same value as in {first.path}", ProblemKind.SHADOWED),
        *_problem(
            second, other, f"another value than in {first.path} for the same run, key and step; the first file's is kept", ProblemKind.LOST
        ),
    ]


def _rows(scalars: pa.Table) -> Iterable[tuple[str, int, str]]:
    """Key, step and value; the value as text, in which NaN equals NaN."""
    columns = (scalars.column(name).to_pylist() for name in ("key", "step", "value"))
    return ((key, step, repr(value)) for key, step, value in zip(*columns, strict=True))


def _problem(raw: RawLog, places: list[str], what: str, kind: ProblemKind) -> list[ReadProblem]:
    if not places:
        return []
    rest = len(places) - _LISTED
    place = f"run {raw.name}, " + "; ".join(places[:_LISTED]) + (f" and {rest} more" if rest > 0 else "")
    return [ReadProblem(path=raw.path, place=place, what=what, rows=len(places), kind=kind)]
