"""Parquet token logs: one file, or a folder of closed parts as `monitor.record` leaves them (`step=*/rank=*.parquet`)."""

from __future__ import annotations

from pathlib import Path

from ingest.errors import ReadError, TooLargeError
from ingest.reader import Reader
from ingest.readers import _wandb_folder as folders
from ingest.readers._files import files_under
from ingest.readers._wandb_parquet import is_history, is_history_folder
from ingest.run import RawLog, ReadProblem
from ingest.tokens import TokenPiece, open_piece, token_log

_MAGIC = b"PAR1"
_NO_PARTS = (".sums.parquet",)  # partial sums beside a part; a part being written ends in .tmp
_RUN_PARTS = ("run.toml", "steps.jsonl", "tokens.parquet", "tokens")


def parts(folder: Path) -> tuple[tuple[Path, ...], tuple[ReadProblem, ...]]:
    """List the parts of a token log in a folder, in the order of their names, and links that were not followed."""
    found, problems = files_under(folder, ".parquet")
    return tuple(path for path in found if not path.name.endswith(_NO_PARTS)), problems


def _objection(path: Path) -> str | None:
    if path.is_dir():
        if any((path / name).exists() for name in _RUN_PARTS):
            return "it is a run folder, not a folder of Parquet parts"
        if is_history_folder(path) or folders.is_run(path) or folders.runs_in(path):
            return "it is wandb's"
        return None if parts(path)[0] else "the folder has no Parquet parts"
    if is_history(path):
        return "it is a history that wandb exported"
    with path.open("rb") as file:
        return None if file.read(len(_MAGIC)) == _MAGIC else "it does not begin with PAR1"


def _read(path: Path) -> tuple[RawLog, ...]:
    if path.is_file():
        piece, problems = open_piece(path)
        return (RawLog(name=path.stem, path=str(path), container=READER.id, tokens=token_log([piece]), problems=problems),)
    found, problems = parts(path)
    pieces, said = _open_all(found)
    return (RawLog(name=path.name, path=str(path), container=READER.id, tokens=token_log(pieces), problems=(*problems, *said)),)


def _open_all(paths: tuple[Path, ...]) -> tuple[list[TokenPiece], list[ReadProblem]]:
    """Open every part; one that is damaged is listed and the others are read, unless none can be."""
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
    return pieces, list(said.values())


READER = Reader(id="parquet_tokens", title="Parquet token log", objection=_objection, read=_read, searches=True)
