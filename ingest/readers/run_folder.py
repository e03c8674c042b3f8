"""One run's folder: run.toml (what it is), steps.jsonl (the step log), tokens.parquet or tokens/ (the token log), or some of these."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from ingest import recorder_note
from ingest.errors import ReadError
from ingest.reader import Reader
from ingest.readers import jsonl, parquet_tokens, wandb_history
from ingest.readers._files import is_inside
from ingest.run import Config, ProblemKind, RawLog, ReadProblem
from ingest.tokens import TokenPiece, steps_of, token_log

DESCRIPTION, STEPS, TOKENS_FILE, TOKENS_FOLDER = "run.toml", "steps.jsonl", "tokens.parquet", "tokens"
_PARTS = (DESCRIPTION, STEPS, TOKENS_FILE, TOKENS_FOLDER)
_MAX_DESCRIPTION_BYTES = 2**20  # settings of one run; the largest public wandb configuration has 20,000 keys
_MAX_DEPTH = 20


def is_run(folder: Path) -> bool:
    """Whether a folder holds the log of one run."""
    return any((folder / name).exists() for name in _PARTS)


def _objection(path: Path) -> str | None:
    if not path.is_dir():
        return "it is not a folder"
    if is_run(path):
        return None
    said = "; ".join(f"{note.place}: {note.what}" for note in recorder_note.notes(path))
    return f"the folder has none of {', '.join(_PARTS)}" + (f", but {said}" if said else "")


def _read(path: Path) -> tuple[RawLog, ...]:
    present = [name for name in _PARTS if (path / name).exists() and is_inside(path / name, path)]
    outside = [name for name in _PARTS if (path / name).exists() and name not in present]
    config = described(path / DESCRIPTION) if DESCRIPTION in present else {}
    steps = _steps(path / STEPS) if STEPS in present else None
    tokens = _tokens(path, present, steps)
    return (assembled(path, config, steps, tokens, _notes(path, outside)),)


def assembled(path: Path, config: Config, steps: RawLog | None, tokens: RawLog | None, notes: Iterable[ReadProblem] = ()) -> RawLog:
    """One run from its description, its step log and its token log, as far as it has them."""
    said = [problem for log in (steps, tokens) if log is not None for problem in log.problems]
    log = RawLog(
        name=str(config.get("name", "")) or path.resolve().name,
        path=str(path),
        container=READER.id,
        tokens=tokens.tokens if tokens else None,
        config={**(tokens.config if tokens else {}), **config},
        problems=(*said, *notes),
    )
    if steps is None:
        return log
    return RawLog(**{**vars(log), "scalars": steps.scalars, "axis": steps.axis})


def _part(path: Path, reader: Reader) -> RawLog:
    """Read a part of the folder with its own reader.

    Raises:
        ReadError: the part is not what its name says.
    """
    if objection := reader.objection(path):
        raise ReadError(str(path), expected=reader.title, found=f"something else: {objection}", remedy="Write it again or remove it.")
    return reader.read(path)[0]


def _steps(path: Path) -> RawLog:
    """Read the step log, which may be a history that wandb exported."""
    return _part(path, wandb_history.READER if wandb_history.READER.objection(path) is None else jsonl.READER)


def _tokens(path: Path, present: list[str], steps: RawLog | None) -> RawLog | None:
    """The compacted file and the parts recorded since; None for a run whose first step is not closed yet.

    Raises:
        ReadError: neither has a row, and there is no step log that would be worth showing without them.
    """
    folder = path / TOKENS_FOLDER if TOKENS_FOLDER in present and parquet_tokens.parts(path / TOKENS_FOLDER)[0] else None
    try:
        whole = _part(path / TOKENS_FILE, parquet_tokens.READER) if TOKENS_FILE in present else None
        since = parquet_tokens.read_log(folder, path.name) if folder else None
    except parquet_tokens.EmptyError as nothing:
        if steps is None:
            raise
        note = ReadProblem(path=nothing.where, place="whole file", what=nothing.found, kind=ProblemKind.NOTE)
        return RawLog(name=path.name, path=str(path), container=READER.id, problems=(note,))
    return _joined(path, whole, since) if whole and since else whole or since


def _joined(path: Path, whole: RawLog, since: RawLog) -> RawLog:
    """Both, step by step; where a step is in both, the compacted file has it whole, and the parts are not read."""
    compacted = whole.tokens.pieces if whole.tokens else ()
    known = frozenset[int]().union(*(steps_of(piece) for piece in compacted))
    parts = since.tokens.pieces if since.tokens else ()
    return joined(path, whole, since, [piece for piece in parts if steps_of(piece) & known])


def joined(path: Path, whole: RawLog, since: RawLog, twice: Sequence[TokenPiece]) -> RawLog:
    """The compacted file and the parts recorded since, without those that it has already."""
    said = [*whole.problems, *since.problems]
    if twice:
        what = "steps that tokens.parquet has already; these parts are not read, so that no token counts twice"
        place = f"{TOKENS_FOLDER}, {len(twice)} parts from {twice[0].path.parent.name}/{twice[0].path.name} on"
        rows = sum(piece.rows or 0 for piece in twice)
        said.append(ReadProblem(path=str(path), place=place, what=what, rows=rows, kind=ProblemKind.SHADOWED))
    passed_over = {piece.path for piece in twice}
    pieces = [piece for log in (whole, since) if log.tokens for piece in log.tokens.pieces if piece.path not in passed_over]
    config = {**since.config, **whole.config}
    return RawLog(name=path.name, path=str(path), container=READER.id, tokens=token_log(pieces), config=config, problems=tuple(said))


def _notes(path: Path, outside: list[str]) -> Iterator[ReadProblem]:
    yield from recorder_note.notes(path)
    if outside:
        what = "links lead out of the folder and are not followed"
        yield ReadProblem(path=str(path), place=", ".join(outside), what=what, kind=ProblemKind.NOTE)


def described(path: Path) -> Config:
    """Read run.toml as flat dotted keys.

    Raises:
        ReadError: it is not TOML.
    """
    try:
        if path.stat().st_size > _MAX_DESCRIPTION_BYTES:
            raise ReadError(str(path), expected="a description under 1 MiB", found="a larger file", remedy="Keep data out of run.toml.")
        return dict(_flat(tomllib.loads(path.read_text(encoding="utf-8-sig")), ""))
    except (ValueError, RecursionError) as broken:  # TOMLDecodeError and UnicodeDecodeError are ValueErrors
        raise ReadError(str(path), expected="TOML", found=f"text that is not ({broken})", remedy="Correct the file.") from broken


def _flat(table: Mapping[str, object], prefix: str) -> Iterator[tuple[str, str | int | float | bool]]:
    """Dotted keys; a list becomes text, its items separated by commas."""
    for key, value in table.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and name.count(".") < _MAX_DEPTH:
            yield from _flat(value, f"{name}.")
        elif isinstance(value, (str, bool, int, float)):
            yield name, value
        else:
            yield name, ", ".join(str(item) for item in value) if isinstance(value, list) else str(value)


READER = Reader(id="run_folder", title="run folder", objection=_objection, read=_read)
