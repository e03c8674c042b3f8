"""Which files lie under a folder, without leaving it."""

from __future__ import annotations

from pathlib import Path

from ingest.run import ProblemKind, ReadProblem

_LISTED = 5
_LEVELS = 2  # no deeper, so that a path typed by mistake does not search a whole disk


def files_under(folder: Path, suffix: str, levels: int = _LEVELS) -> tuple[tuple[Path, ...], tuple[ReadProblem, ...]]:
    """Find the files in a folder and some levels below whose names end in `suffix`, sorted; links out of the folder are not followed.

    A folder that is unpacked from an archive may hold links to anywhere; wandb writes links to the home directory.
    Names that begin with a dot or an underscore are other tools' notes or half written.
    """
    home = folder.resolve()
    named = (path for level in range(levels + 1) for path in folder.glob(f"{'*/' * level}*{suffix}"))
    found = sorted(path for path in named if path.is_file() and not path.name.startswith((".", "_")))
    inside = tuple(path for path in found if path.resolve().is_relative_to(home))
    outside = [path for path in found if not path.resolve().is_relative_to(home)]
    return inside, _said(folder, outside)


def is_inside(path: Path, folder: Path) -> bool:
    """Whether a path, with its links followed, still lies in the folder."""
    return path.resolve().is_relative_to(folder.resolve())


def _said(folder: Path, outside: list[Path]) -> tuple[ReadProblem, ...]:
    if not outside:
        return ()
    place = ", ".join(path.name for path in outside[:_LISTED])
    what = f"{len(outside)} links lead out of the folder and are not followed"
    return (ReadProblem(path=str(folder), place=place, what=what, kind=ProblemKind.NOTE),)
