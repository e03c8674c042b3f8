"""A run as wandb keeps it on disk, also while it is written: a `.wandb` record file, the folder around it, or a `wandb/` folder of many."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ingest.errors import ReadError
from ingest.reader import Reader
from ingest.readers import _wandb_folder as folders
from ingest.readers._rows import clean
from ingest.readers._wandb_config import INTERNAL, described, flat
from ingest.readers._wandb_frames import version_of
from ingest.readers._wandb_records import WandbFile, read
from ingest.readers._wandb_segments import CONTAINER, joined
from ingest.readers._wandb_yaml import settings
from ingest.run import ProblemKind, RawLog, ReadProblem

_RUN_PARTS = ("run.toml", "steps.jsonl", "tokens.parquet", "tokens")
_NO_RECORDS = "the folder has no record file (run-….wandb), so there are settings but no curves"


def _objection(path: Path) -> str | None:
    if path.is_file():
        return None if version_of(path) is not None else "it does not begin with :W&B"
    if any((path / name).exists() for name in _RUN_PARTS):
        return "it is a run folder, not one of wandb's"
    return None if folders.is_run(path) or folders.runs_in(path) else "the folder holds neither a .wandb file nor folders run-… that do"


def _read(path: Path) -> tuple[RawLog, ...]:
    if path.is_file():
        return (log_of(read(path)),)
    if folders.is_run(path):
        return _run(path)
    return joined(log for folder in folders.runs_in(path) for log in _run(folder))


def _run(folder: Path) -> tuple[RawLog, ...]:
    """The run of one folder, under the folder's path."""
    if not (files := folders.record_files(folder)):
        return (_settings_only(folder),)
    return tuple(replace(_segment(file), path=str(folder)) for file in files)


def _segment(path: Path) -> RawLog:
    """One record file; one that cannot be read at all is a run without values, so that its neighbours are read."""
    try:
        return log_of(read(path))
    except ReadError as broken:
        problem = ReadProblem(path=str(path), place="whole file", what=f"not read: {broken}")
        return RawLog(name=path.stem, path=str(path), container=CONTAINER, problems=(problem,))


def log_of(file: WandbFile) -> RawLog:
    """What has been read of a record file as a log."""
    path = str(file.path)
    values = file.history.close()
    scalars = values.table()
    config, said = flat(file.config, path)
    repeated = () if file.history.ascending else values.rows.repeated(path)
    return RawLog(
        name=clean(file.run.get("name", "") or file.run.get("id", "")) or file.path.stem.removeprefix("run-"),
        path=path,
        container=CONTAINER,
        scalars=scalars,
        config=described(config, **_about(file.run)),
        problems=(*file.problems(), *values.problems(path), *repeated, *said),
    )


def _about(run: Mapping[str, str]) -> dict[str, str]:
    return {name: run.get(name, "") for name in ("group", "id", "project", "job_type", "version")}


def _settings_only(folder: Path) -> RawLog:
    """A run of which only the settings have been kept, or copied."""
    path = folders.config_file(folder)
    if path is None:
        raise ReadError(str(folder), expected="a .wandb file or config.yaml", found="neither", remedy="Copy the whole folder.")
    found = settings(path)
    config, said = flat(found, str(path))
    note = ReadProblem(path=str(folder), place="", what=_NO_RECORDS, kind=ProblemKind.NOTE)
    about = described(config, group="", version=_version(found))
    return RawLog(name=folder.resolve().name, path=str(folder), container=CONTAINER, config=about, problems=(note, *said))


def _version(found: Mapping[str, Any]) -> str:
    internal = found.get(INTERNAL)
    return str(internal.get("cli_version", "")) if isinstance(internal, dict) else ""


READER = Reader(id=CONTAINER, title="wandb run", objection=_objection, read=_read)
