"""Parquet token logs: one file, or a folder of closed parts as `monitor.record` leaves them (`step=*/rank=*.parquet`).

Only the recorder's names say that files belong together. Other files in a folder are parts of one log where their footers show that
they hold different steps, or different responses of the same steps; otherwise each is a run of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

from ingest.errors import ReadError, TooLargeError
from ingest.reader import Reader
from ingest.readers import _wandb_folder as folders
from ingest.readers._files import files_under
from ingest.readers._wandb_parquet import is_history, is_history_folder
from ingest.run import ProblemKind, RawLog, ReadProblem
from ingest.tokens import TokenPiece, open_piece, ranges, token_log

_MAGIC = b"PAR1"
NO_PARTS = (".sums.parquet",)  # partial sums beside a part; a part being written ends in .tmp
_RUN_PARTS = ("run.toml", "steps.jsonl", "tokens.parquet", "tokens")
_RUN_MARKS = ("run.toml", "steps.jsonl", "tokens.parquet", "tokens/step=*")  # what makes a folder further down a run
_DEEPEST = 3
_RECORDED = re.compile(r"step=\d+/rank=\d+\.parquet")
SUPERSEDED = "superseded"  # where the recorder puts parts that a resumed trainer records again
_LISTED = 5
_MOST_PAIRS = 1_000_000  # row groups compared between two files before they are called two runs


class EmptyError(ReadError):
    """A token log that can be read and has no rows."""


@dataclass(frozen=True, kw_only=True)
class Opened:
    """The pieces that could be opened, and what was said about these and the others."""

    pieces: tuple[TokenPiece, ...]
    problems: tuple[ReadProblem, ...]


def parts(folder: Path) -> tuple[tuple[Path, ...], tuple[ReadProblem, ...]]:
    """List the Parquet files of token logs in a folder, in the order of their names, and links that were not followed."""
    found, problems = files_under(folder, ".parquet")
    kept = (path for path in found if SUPERSEDED not in path.relative_to(folder).parts[:-1])
    return tuple(path for path in kept if not path.name.endswith(NO_PARTS)), problems


def read_log(folder: Path, name: str) -> RawLog:
    """All parts of a folder as one log; for the `tokens` folder of a run.

    Raises:
        ReadError: parts that the recorder did not name may hold the same tokens, or no part can be read.
        EmptyError: no part has a row.
    """
    found, problems = parts(folder)
    recorded = tuple(path for path in found if has_its_names(path) and path.parent.parent == folder)
    opened = open_all(recorded or found)
    if not recorded and (clash := clash_of(opened.pieces)):
        remedy = "Name them as the recorder does (step=000001/rank=000.parquet), or keep one run's parts only."
        raise ReadError(
            str(folder), expected="parts of one token log", found=f"files that may hold the same tokens ({clash})", remedy=remedy
        )
    return raw_of(folder, name, opened, problems)


def open_all(paths: Iterable[Path]) -> Opened:
    """Open every part; one that is damaged is listed and the others are read, unless none can be.

    Raises:
        ReadError: no part can be read; TooLargeError where one exceeds a bound.
    """
    pieces: list[TokenPiece] = []
    said: dict[tuple[str, str], ReadProblem] = {}  # the same note about a hundred parts is one note
    damaged: list[ReadError] = []
    for path in paths:
        try:
            piece, problems = open_piece(path)
        except TooLargeError:
            raise
        except ReadError as broken:
            damaged.append(broken)
            said[broken.where, ""] = ReadProblem(path=str(path), place="whole file", what=f"not read: {broken}")
            continue
        pieces.append(piece)
        said |= {(problem.place, problem.what): problem for problem in problems}
    if damaged and not pieces:
        raise damaged[0]
    return Opened(pieces=tuple(pieces), problems=tuple(said.values()))


def recorded_settings(pieces: Iterable[TokenPiece]) -> tuple[Mapping[str, float], tuple[ReadProblem, ...]]:
    """The settings that the parts carry (clip bounds given to the recorder), and a note where parts carry different ones."""
    first: Mapping[str, float] = {}
    for piece in pieces:
        settings = piece.settings
        if first and settings and settings != first:
            what = "recorded with other clip bounds than parts before it; those of the first part are used"
            return first, (ReadProblem(path=str(piece.path), place="whole file", what=what, kind=ProblemKind.NOTE),)
        first = first or settings
    return first, ()


def _objection(path: Path) -> str | None:
    if path.is_dir():
        if any((path / name).exists() for name in _RUN_PARTS):
            return "it is a run folder, not a folder of Parquet parts"
        if is_history_folder(path) or folders.is_run(path) or folders.runs_in(path):
            return "it is wandb's"
        if runs := _runs_below(path):
            shown = ", ".join(runs[:_LISTED]) + (f" and {len(runs) - _LISTED} more" if len(runs) > _LISTED else "")
            return f"there are runs further down ({shown}); name one of them, or the folder they lie in"
        return None if parts(path)[0] else "the folder has no Parquet parts"
    if is_history(path):
        return "it is a history that wandb exported"
    with path.open("rb") as file:
        return None if file.read(len(_MAGIC)) == _MAGIC else "it does not begin with PAR1"


def _runs_below(folder: Path) -> list[str]:
    levels = ("*/" * depth for depth in range(1, _DEEPEST + 1))
    found = {path for level in levels for mark in _RUN_MARKS for path in folder.glob(level + mark)}
    runs = {path.parent.parent if path.name.startswith("step=") else path.parent for path in found}
    names = sorted(run.relative_to(folder).as_posix() for run in runs)
    return [name for name in names if not any(part.startswith(".") for part in name.split("/"))]


def _read(path: Path) -> tuple[RawLog, ...]:
    if path.is_file():
        return (raw_of(path, path.stem, open_all([path])),)
    found, problems = parts(path)
    recorded: dict[Path, list[Path]] = {}
    for part in found:
        if has_its_names(part):
            recorded.setdefault(part.parent.parent, []).append(part)
    logs = [raw_of(folder, folder.name, open_all(members)) for folder, members in recorded.items()]
    loose = [part for part in found if not has_its_names(part)]
    logs += _loose(path, loose) if loose else []
    return (replace(logs[0], problems=(*problems, *logs[0].problems)), *logs[1:])


def has_its_names(part: Path) -> bool:
    """Whether the recorder names its parts so."""
    return _RECORDED.fullmatch(f"{part.parent.name}/{part.name}") is not None


def _loose(folder: Path, paths: list[Path]) -> list[RawLog]:
    """One log where the footers show that no token can be in two files, otherwise a run for each."""
    opened = open_all(paths)
    clash = clash_of(opened.pieces)
    if not clash:
        return [raw_of(folder, folder.name, opened)]
    what = f"a run of its own: the files of this folder are not parts of one log ({clash})"
    logs = []
    for piece in opened.pieces:
        note = ReadProblem(path=str(piece.path), place="whole file", what=what, kind=ProblemKind.NOTE)
        logs.append(raw_of(piece.path, piece.path.stem, Opened(pieces=(piece,), problems=(note,))))
    return [replace(logs[0], problems=(*opened.problems, *logs[0].problems)), *logs[1:]]


def raw_of(path: Path, name: str, opened: Opened, problems: tuple[ReadProblem, ...] = ()) -> RawLog:
    """The log that some pieces are together.

    Raises:
        EmptyError: none has a row.
    """
    settings, differ = recorded_settings(opened.pieces)
    if not sum(piece.rows or 0 for piece in opened.pieces):
        raise EmptyError(str(path), expected="at least one token", found="a token log without rows", remedy="Was the run recorded?")
    said = (*problems, *opened.problems, *differ, *_missing_ranks(path, opened.pieces))
    return RawLog(name=name, path=str(path), container=READER.id, tokens=token_log(opened.pieces), config=settings, problems=said)


def _missing_ranks(folder: Path, pieces: tuple[TokenPiece, ...]) -> Iterator[ReadProblem]:
    """Steps of a recorded log that some rank left out; a rank whose process died says nothing itself."""
    ranks: dict[int, set[str]] = {}
    for piece in pieces:
        if has_its_names(piece.path):
            ranks.setdefault(int(piece.path.parent.name.removeprefix("step=")), set()).add(piece.path.stem)
    everyone = set().union(*ranks.values())
    short = [step for step in sorted(ranks) if ranks[step] != everyone]
    if short:
        named = ", ".join(f"step {step}: {len(ranks[step])} of {len(everyone)} ranks" for step in short[:_LISTED])
        named += f" and {len(short) - _LISTED} more steps" if len(short) > _LISTED else ""
        what = "the others recorded nothing there, or are not done; the step's numbers are of the ranks that did"
        yield ReadProblem(path=str(folder), place=named, what=what, kind=ProblemKind.NOTE)


def clash_of(pieces: tuple[TokenPiece, ...]) -> str:
    """Why the pieces may hold the same tokens, by the first two that may; empty where they cannot."""
    if len(pieces) == 1:
        return ""
    spans: list[list[tuple[tuple[Any, Any], ...]]] = []
    for piece in pieces:
        found = ranges(piece, ("step", "sample_id"))
        if found is None:
            return f"{piece.path.name} has no statistics of step and sample_id, which would tell"
        spans.append(found)
    whole = [_hull(span) for span in spans]
    for one, two in combinations([place for place, span in enumerate(spans) if span], 2):
        if meet(whole[one], whole[two]) and _any_meet(spans[one], spans[two]):
            return f"{pieces[one].path.name} and {pieces[two].path.name} have steps and sample_ids in common"
    return ""


def _hull(spans: list[tuple[tuple[Any, Any], ...]]) -> tuple[tuple[Any, Any], ...]:
    return tuple((min(low for low, _ in column), max(high for _, high in column)) for column in zip(*spans, strict=True))


def meet(one: tuple[tuple[Any, Any], ...], two: tuple[tuple[Any, Any], ...]) -> bool:
    """Whether two boxes of (step, sample_id) meet; names and numbers as sample_ids tell nothing about each other."""
    return all(type(a[0]) is not type(b[0]) or (a[0] <= b[1] and b[0] <= a[1]) for a, b in zip(one, two, strict=True))


def _any_meet(one: list[tuple[tuple[Any, Any], ...]], two: list[tuple[tuple[Any, Any], ...]]) -> bool:
    return len(one) * len(two) > _MOST_PAIRS or any(meet(a, b) for a in one for b in two)


READER = Reader(id="parquet_tokens", title="Parquet token log", objection=_objection, read=_read, searches=True)
