"""Which runs a wandb folder holds: the folder of one run (`run-…` or `offline-run-…`), or one with many of them (`wandb/`)."""

from __future__ import annotations

from pathlib import Path

from ingest.readers._files import is_inside
from ingest.readers._wandb_frames import version_of

CONFIG, SUMMARY, METADATA = "config.yaml", "wandb-summary.json", "wandb-metadata.json"
FILES = "files"
_RUN_NAMES = ("run-*", "offline-run-*")


def record_files(folder: Path) -> tuple[Path, ...]:
    """The record files in a run's folder: one, unless several were copied together. Links out of it are passed over."""
    named = (path for path in sorted(folder.glob("*.wandb")) if path.is_file() and is_inside(path, folder))
    return tuple(path for path in named if version_of(path) is not None)


def config_file(folder: Path) -> Path | None:
    """The settings beside a run's records, or in their place."""
    for place in (folder / FILES, folder):
        path = place / CONFIG
        told = place == folder / FILES or (folder.name != FILES and any((place / name).is_file() for name in (SUMMARY, METADATA)))
        if told and path.is_file() and is_inside(path, folder):
            return path
    return None


def is_run(folder: Path) -> bool:
    """Whether the folder is that of one run."""
    return bool(record_files(folder)) or config_file(folder) is not None


def runs_in(folder: Path) -> tuple[Path, ...]:
    """Folders of runs below a `wandb/` folder, in the order of their names, which is that of time."""
    found = {path for name in _RUN_NAMES for path in folder.glob(name) if path.is_dir() and not path.is_symlink()}
    return tuple(sorted((path for path in found if is_run(path)), key=lambda path: path.name.removeprefix("offline-")))
