"""TensorBoard event files: every point of every scalar, each folder with event files a run, as TensorBoard itself names them."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from pathlib import Path

from ingest.errors import ReadError, TooLargeError
from ingest.reader import Reader
from ingest.readers._event_file import EventFile, event_file, is_event_file
from ingest.readers._files import files_under
from ingest.readers._restarts import joined
from ingest.run import RawLog, ReadProblem

NAMED = "tfevents*"  # TensorBoard itself goes by this part of the name
LEVELS = 4  # of folders: logger, project, experiment, sub-run, its hyperparameters
_MOST_FILES = 1000  # in one folder; each restart of a run begins a file
# Folders that other readers take, which know more than the event files beside them.
_OTHERS = {"run.toml": "a run folder", "steps.jsonl": "a run folder", "trainer_state.json": "a Trainer's output", "*.wandb": "a wandb run"}

_OTHER_LOGS = (".csv", ".jsonl", ".parquet", ".wandb", ".pt", ".zip")


def _objection(path: Path) -> str | None:
    if path.is_file():
        return None if is_event_file(path) else "it does not begin with a whole event record"
    for name, what in _OTHERS.items():
        if next(path.glob(name), None) is not None:
            return f"the folder is {what} ({name}), which says more"
    files = [file for file in files_under(path, NAMED, LEVELS)[0] if is_event_file(file)]
    if not files:
        return "there are no event files in the folder"
    if any(file.parent == path for file in files):
        return None
    other = next((found for found in path.rglob("*") if found.suffix.lower() in _OTHER_LOGS or found.name in _OTHERS), None)
    return None if other is None else f"below the folder are other logs too ({other.name[:80]})"


def _read(path: Path) -> tuple[RawLog, ...]:
    if path.is_file():
        return (joined([event_file(path)], path.stem, path, READER.id),)
    files, links = files_under(path, NAMED, LEVELS)
    folders = [
        (folder, list(inside)) for folder, inside in groupby(sorted(files, key=lambda file: (file.parent, file)), lambda file: file.parent)
    ]
    logs = {folder: _folder(folder, inside, path) for folder, inside in folders}
    for folder, log in list(logs.items()):
        if log.config and (above := logs.get(folder.parent)) is not None:
            logs[folder.parent] = replace(above, config={**log.config, **above.config})
            if not log.scalars.num_rows:
                logs[folder.parent] = replace(logs[folder.parent], problems=(*above.problems, *log.problems))
                del logs[folder]
    first, *others = logs.values()
    return (replace(first, problems=(*links, *first.problems)), *others)


def _folder(folder: Path, files: list[Path], root: Path) -> RawLog:
    """All files of one folder as one run.

    Raises:
        TooLargeError: there are more files than any run has.
    """
    if len(files) > _MOST_FILES:
        found = f"{len(files):,}"
        raise TooLargeError(str(folder), expected=f"at most {_MOST_FILES:,} event files", found=found, remedy="Keep one run in a folder.")
    read: list[EventFile] = []
    unread: list[ReadProblem] = []
    for file in files:
        try:
            read.append(event_file(file))
        except ReadError as broken:
            unread.append(ReadProblem(path=str(file), place="", what=f"found {broken.found}", rows=1))
    name = folder.relative_to(root).as_posix() if folder != root else root.resolve().name
    log = joined(read, name, folder, READER.id)
    return replace(log, problems=(*unread, *log.problems))


READER = Reader(id="tensorboard", title="TensorBoard event files", objection=_objection, read=_read, searches=True)
