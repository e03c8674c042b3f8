"""What is read at a path: the path itself, or the logs in a folder that is none, each a part of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ingest.identify import readers
from ingest.reader import Reader
from ingest.readers.run_folder import DESCRIPTION, is_run

_DEEPEST = 4  # levels of folders searched, so that a path typed by mistake does not search a whole disk
# Names by which a file claims to be a log, so that one which no reader takes is worth a word.
_CLAIMS = (".csv", ".jsonl", ".ndjson", ".parquet", ".wandb", ".zip", ".gz", ".pt", ".pth", ".pkl")
_NAMED = 5  # places that a sentence names
_Passed = list[tuple[Path, str]]  # what was passed over, and why


def parts(path: Path) -> list[Path]:
    """The paths to be read one by one, in the order of their names; a folder that holds nothing known is its own, for the error's sake."""
    if not path.is_dir() or is_run(path):
        return [path]
    return list(_below(path, _DEEPEST, [])) or [path]


def left_out(path: Path) -> dict[str, list[Path]]:
    """Why -> the places that `parts` passes over although each would be read if it stood alone."""
    passed: _Passed = []
    if path.is_dir() and not is_run(path):
        list(_below(path, _DEEPEST, passed))
    found: dict[str, list[Path]] = {}
    for place, why in passed:
        if _is_log(place):
            found.setdefault(why, []).append(place)
    return found


def left_out_sentence(why: str, places: list[Path]) -> str:
    """What is left out of a folder, why, and what to do."""
    more = f" and {len(places) - _NAMED} more" if len(places) > _NAMED else ""
    return f"left out: {', '.join(map(str, places[:_NAMED]))}{more}. {why}. To have them too, name each as a path of its own."


def _below(folder: Path, deepest: int, passed: _Passed) -> Iterator[Path]:
    """Runs below a folder; else the folder itself if it is one log; else whatever in it is one.

    Where some sub-folders are described by a run.toml, those without are something else and passed over.
    """
    children = _children(folder)
    runs = [child for child in children if child.is_dir() and is_run(child)]
    described = [run for run in runs if (run / DESCRIPTION).is_file()]
    if described or runs:
        chosen = described or runs
        why = f"Where a folder holds folders with a {DESCRIPTION}, these are read and nothing beside them"
        why = why if described else "Where a folder holds run folders, these are read and nothing beside them"
        passed += [(child, why) for child in children if child not in chosen]
        yield from chosen
    else:
        yield from _one_or_each(folder, children, deepest, passed)


def _one_or_each(folder: Path, children: list[Path], deepest: int, passed: _Passed) -> Iterator[Path]:
    """A folder that a reader takes, unless it was taken for what lies deep in it and other logs lie there too."""
    takers = _takers(folder)
    if any(not reader.searches for reader in takers):
        yield folder
        return
    over: _Passed = []
    inside = list(_each(children, deepest, over))
    kinds = {reader.id for part in inside for reader in _takers(part)}
    if takers and kinds <= {reader.id for reader in takers}:
        yield folder
    else:
        passed += over
        yield from inside


def _each(children: list[Path], deepest: int, passed: _Passed) -> Iterator[Path]:
    for child in children:
        if child.is_dir():
            if deepest > 0:
                yield from _below(child, deepest - 1, passed)
        elif _takers(child) or child.suffix.lower() in _CLAIMS:
            yield child


def _is_log(path: Path) -> bool:
    """Whether a place would be read if it stood alone."""
    if not path.is_dir() or is_run(path):
        return bool(_takers(path))
    return any(_takers(part) for part in _below(path, _DEEPEST, []))


def _children(folder: Path) -> list[Path]:
    """What lies in a folder. Links lead out of it, which is not followed, or to a second name of what is found anyway."""
    return sorted(child for child in folder.iterdir() if not child.name.startswith((".", "_")) and not child.is_symlink())


def _takers(path: Path) -> list[Reader]:
    return [reader for reader in readers() if reader.objection(path) is None]
