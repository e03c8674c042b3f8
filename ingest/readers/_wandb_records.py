"""A whole `.wandb` file: its history, its settings, what the run is called; what is lost of it, and whether it is finished."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from ingest.readers._wandb_frames import KNOWN_VERSIONS, Losses, check_size, origin_of, records, version_of
from ingest.readers._wandb_history import History
from ingest.readers._wandb_items import path_and_value
from ingest.readers._wandb_values import STEP
from ingest.readers._wandb_wire import fields, text, varint
from ingest.run import ProblemKind, ReadProblem

_NUM_HEAD, _SUMMARY_HEAD = 0x08, 0x1A  # most records are a history's or a summary's; a summary repeats the history's last values
_HISTORY = 2  # of Record
_UPDATE, _REMOVE = 1, 2  # of ConfigRecord
_RUN_TEXTS = {1: "id", 3: "project", 6: "group", 7: "job_type", 8: "name"}  # of RunRecord; owner, notes, tags and host are not read
_RUN_CONFIG = 4
_CLI_VERSION = 5  # of TelemetryRecord
_MOST_LISTED = 100  # places of damage told one by one


@dataclass
class WandbFile:
    """What has been read of a file so far."""

    path: Path
    history: History = field(default_factory=History)
    config: dict[str, Any] = field(default_factory=dict)
    run: dict[str, str] = field(default_factory=dict)  # id, name, project, group, job_type, version
    ended: bool = False
    axes: dict[str, str] = field(default_factory=dict)  # metric, or a pattern of them -> the metric that wandb draws it over
    losses: Losses = field(default_factory=Losses)
    lost: list[tuple[int, str, int]] = field(default_factory=list)  # offset, what, how many records by their numbers
    counted: int = 0  # of the damage, so far
    last: int = 0  # number of the record before
    described: int = 0  # records that say something about the run
    version: int | None = None  # of the framing

    def problems(self) -> tuple[ReadProblem, ...]:
        """What was lost, each with its place in the file, and what to know."""
        listed, rest = self.lost[:_MOST_LISTED], self.lost[_MOST_LISTED:]
        found = [self._problem(f"byte {offset}", _what(what, count), rows=count) for offset, what, count in listed]
        if rest:
            what = f"{len(rest)} more places of damage"
            found.append(self._problem(f"from byte {rest[0][0]}", what, rows=sum(count for _, _, count in rest)))
        if self.losses.cut_at is not None:
            found.append(self._problem(f"byte {self.losses.cut_at}", "the file is cut inside this record, which is lost", rows=1))
        return (*found, *(self._note(place, what) for place, what in self._remarks()))

    def _remarks(self) -> list[tuple[str, str]]:
        said = []
        if self.losses.unfinished_at is not None:
            said.append((f"byte {self.losses.unfinished_at}", "the last record is not written to its end yet; it is not read"))
        if not self.ended:
            said.append(("end of the file", "the run has not ended: it is being written, or it was killed"))
        if self.version not in KNOWN_VERSIONS:
            said.append(("header", f"version {self.version} of the file format is not known; read like version {KNOWN_VERSIONS[-1]}"))
        drawn = [metric for metric in self.axes if any(fnmatchcase(name, metric) for name in self.history.names)]
        return said + [
            (f"metric {metric}", f"wandb draws it over {self.axes[metric]}; the steps here are of its counter _step") for metric in drawn
        ]

    def _problem(self, place: str, what: str, *, rows: int) -> ReadProblem:
        return ReadProblem(path=str(self.path), place=place, what=what, rows=rows)

    def _note(self, place: str, what: str) -> ReadProblem:
        return ReadProblem(path=str(self.path), place=place, what=what, kind=ProblemKind.NOTE)


def _what(what: str, count: int) -> str:
    return f"{what}; {'a record is' if count == 1 else f'{count} records are'} lost (a step, settings, or a summary)"


def read(path: Path) -> WandbFile:
    """Read a file from its first to its last whole record.

    Raises:
        ReadError: it is no `.wandb` file; TooLargeError where it is too large.
    """
    check_size(path)
    found = _read(path, 0)
    if found.lost and (origin := origin_of(path)):
        return _read(path, origin)
    return found


def _read(path: Path, origin: int) -> WandbFile:
    found = WandbFile(path=path, version=version_of(path))
    for offset, data in records(path, origin, found.losses):
        take(found, offset, data)
    count_lost(found, None)
    return found


def take(found: WandbFile, offset: int, data: bytes) -> None:
    """Add one record; damage that `found.losses` has by then lies before it."""
    try:
        _take(found, offset, data)
    except (ValueError, IndexError):
        found.lost.append((offset, "no record of wandb's", 1))


def _take(found: WandbFile, offset: int, data: bytes) -> None:
    at = 0
    if data[0] == _NUM_HEAD:
        number, at = varint(data, 1)
        count_lost(found, number)
        found.last = number
    if data[at] == _SUMMARY_HEAD:
        return
    for kind, inner in fields(data[at:] if at else data):
        if isinstance(inner, bytes) and kind in _KINDS:
            found.described += kind != _HISTORY
            _KINDS[kind](found, inner, offset)


def count_lost(found: WandbFile, number: int | None) -> None:
    """Note damage that has come up since the record before; the gap in the numbers says how many records it took."""
    fresh = found.losses.damaged[found.counted :]
    if not fresh:
        return
    found.counted += len(fresh)
    missing = min(number - found.last - 1, found.path.stat().st_size) if number is not None else 0
    first, *others = [(offset, what, 1) for offset, what in fresh]
    found.lost += [(*first[:2], max(1, missing - len(others))), *others]


def _take_history(found: WandbFile, data: bytes, offset: int) -> None:
    found.history.take(data, f"byte {offset}")


def _take_config(found: WandbFile, data: bytes, _offset: int) -> None:
    for kind, inner in fields(data):
        if kind in (_UPDATE, _REMOVE) and isinstance(inner, bytes):
            path, value = path_and_value(inner)
            _put(found.config, path, value, gone=kind == _REMOVE)


def _put(tree: dict[str, Any], path: tuple[str, ...], value: object, *, gone: bool) -> None:
    """Set or take away one setting of a tree."""
    for name in path[:-1]:
        inner = tree.get(name)
        tree[name] = tree = inner if isinstance(inner, dict) else {}
    if gone:
        tree.pop(path[-1], None)
    else:
        tree[path[-1]] = value


def _take_run(found: WandbFile, data: bytes, offset: int) -> None:
    for kind, inner in fields(data):
        if kind in _RUN_TEXTS:
            found.run[_RUN_TEXTS[kind]] = text(inner)
        elif kind == _RUN_CONFIG and isinstance(inner, bytes):
            _take_config(found, inner, offset)


def _take_header(found: WandbFile, data: bytes, _offset: int) -> None:
    """The version of wandb that wrote the file; behind a plus sign is its commit."""
    for kind, inner in fields(data):
        if kind == 1 and isinstance(inner, bytes):
            producer = next((text(value) for number, value in fields(inner) if number == 1), "")
            found.run["version"] = producer.partition("+")[0]


def _take_telemetry(found: WandbFile, data: bytes, _offset: int) -> None:
    """The version again, for files of old in whose header it is not."""
    if version := text(dict(fields(data)).get(_CLI_VERSION, b"")):
        found.run.setdefault("version", version)


def _take_metric(found: WandbFile, data: bytes, _offset: int) -> None:
    """What `define_metric` said about the x axis of a metric, or of a pattern of them."""
    parts = dict(fields(data))
    metric, axis = text(parts.get(1, b"")) or text(parts.get(2, b"")), text(parts.get(4, b""))
    if axis and axis not in (STEP, metric) and len(found.axes) < _MOST_LISTED:
        found.axes[metric] = axis


def _take_exit(found: WandbFile, _data: bytes, _offset: int) -> None:
    found.ended = True


_KINDS: dict[int, Callable[[WandbFile, bytes, int], None]] = {  # by field of Record; console, system and machine are not read
    _HISTORY: _take_history,
    5: _take_config,
    11: _take_telemetry,
    12: _take_metric,
    17: _take_run,
    18: _take_exit,
    21: _take_header,
}
