"""One TensorBoard event file: every scalar in it, its settings, and what is damaged or no scalar."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from ingest.errors import ReadError
from ingest.readers._event import Event, Value, event
from ingest.readers._event_bulk import points
from ingest.readers._settings import settings_text
from ingest.readers._tally import Tally
from ingest.readers._tfrecord import HEAD, Records, framed, intact, looks_framed, opened
from ingest.run import ProblemKind, ReadProblem

_BATCH = 1 << 17  # records decoded at once; as many rows of a hundred bytes are 13 MB
_LARGEST_EVENT = 64 * 2**20  # bytes of a record that is looked into; a large image has 4 MiB
_OWN_SETTINGS = ("args", "config", "hparams", "hyperparameters")  # texts whose keys are settings of the run itself
_TEXT_END = "/text_summary"  # what torch's writer appends to the name of a text
_VERSION = b"brain.Event:"


@dataclass
class EventFile:
    """What one file holds, in its order."""

    path: Path
    tags: dict[str, int] = field(default_factory=dict)
    blocks: list[tuple[np.ndarray, ...]] = field(default_factory=list)  # codes, steps, walls, values
    started: float = math.inf  # time of the first event
    restarts_at: list[int] = field(default_factory=list)
    config: dict[str, str | int | float | bool] = field(default_factory=dict)
    problems: list[ReadProblem] = field(default_factory=list)
    damaged: Tally = field(default_factory=Tally)  # records whose bytes do not fit their checksum
    odd: Tally = field(default_factory=Tally)  # records that are no event
    others: dict[str, Tally] = field(default_factory=dict)  # values that are no numbers, by what they are

    def columns(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Code of the tag, step, time and value of every scalar."""
        kinds = (np.int32, np.int64, np.float64, np.float64)
        empty = tuple(np.zeros(0, kind) for kind in kinds)
        codes, steps, walls, values = (np.concatenate(parts) for parts in zip(empty, *self.blocks, strict=True))
        return codes, steps, walls, values


def is_event_file(path: Path) -> bool:
    """Whether a file begins with a whole record that is an event."""
    with path.open("rb") as file:
        head = file.read(HEAD)
        if not looks_framed(head):
            return False
        first = file.read(min(int.from_bytes(head[:8], "little"), 4096))
    try:
        return _VERSION in first or event(first).wall_time > 0
    except ValueError:
        return False


def event_file(path: Path) -> EventFile:
    """Read all scalars of a file.

    Raises:
        ReadError: it is no event file.
    """
    read = EventFile(path=path)
    data = opened(path)
    if len(data) and not is_event_file(path):
        raise no_events(path)
    records = framed(data)
    decode(read, data, records, whole(data, records))
    read.problems += [*faults(read), *gaps(path, records), *not_numbers(path, read.others)]
    if not len(records.starts):
        what = "no event yet: a file that was only just begun"
        read.problems.append(ReadProblem(path=str(path), place="", what=what, kind=ProblemKind.NOTE))
    return read


def no_events(path: Path) -> ReadError:
    """The error for a file that does not begin with an event."""
    found = "something else (a Git LFS pointer? fetch it with 'git lfs pull')"
    return ReadError(str(path), expected="a TensorBoard event file", found=found, remedy="Remove it, or copy it again.")


def whole(data: np.ndarray, records: Records) -> np.ndarray:
    """Whether each record's bytes fit their checksum, so many at once as memory allows."""
    parts = [intact(data, _some(records, low)) for low in range(0, len(records.starts), _BATCH)]
    return np.concatenate([np.zeros(0, bool), *parts])


def decode(read: EventFile, data: np.ndarray, records: Records, good: np.ndarray, base: int = 0) -> None:
    """Add what is in some records of a file.

    Args:
        read: what is known of the file.
        data: its bytes from `base` on.
        records: where they lie in `data`.
        good: which of them fit their checksum; the others are counted.
        base: where `data` begins in the file.
    """
    for low in range(0, len(records.starts), _BATCH):
        part, fits = _some(records, low), good[low : low + _BATCH]
        for start in part.starts[~fits].tolist():
            read.damaged.add(f"byte {base + start - HEAD}")
        _take(read, data, replace(part, starts=part.starts[fits], lengths=part.lengths[fits]), base)


def _some(records: Records, low: int) -> Records:
    return replace(records, starts=records.starts[low : low + _BATCH], lengths=records.lengths[low : low + _BATCH])


def _take(read: EventFile, data: np.ndarray, records: Records, base: int) -> None:
    """Decode intact records: the usual ones at once, the rest one by one; the order of the file is kept."""
    found: list[tuple[np.ndarray, ...]] = []
    rest = np.ones(len(records.starts), bool)
    for some in points(data, records.starts, records.lengths):
        rest[some.records] = False
        codes = np.array([_code(read, tag.decode("utf-8", "replace")) for tag in some.tags.dictionary.to_pylist()], np.int32)
        found.append((some.records, codes[some.tags.indices.to_numpy()], some.steps, some.walls, some.values))
    single = list(_one_by_one(read, data, records, np.flatnonzero(rest), base))
    if single:
        found.append(tuple(np.array(column) for column in zip(*single, strict=True)))
    if not found:
        return
    places, *columns = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = np.argsort(places, kind="stable")
    codes, steps, walls, values = (column[order] for column in columns)
    if not read.blocks:
        read.started = min(read.started, float(walls[0]))
    read.blocks.append((codes, steps, walls, values))


def _one_by_one(
    read: EventFile, data: np.ndarray, records: Records, places: np.ndarray, base: int
) -> Iterator[tuple[int, int, int, float, float]]:
    """Yield place, code, step, time and value of the scalars in some records; settings and the rest are noted."""
    for place in places.tolist():
        start, length = int(records.starts[place]), int(records.lengths[place])
        if length > _LARGEST_EVENT:
            read.others.setdefault("a record of over 64 MiB", Tally()).add(f"byte {base + start - HEAD}")
            continue
        try:
            one = event(data[start : start + length].tobytes())
        except ValueError:
            read.odd.add(f"byte {base + start - HEAD}")
            continue
        _note(read, one)
        for value in one.values:
            if value.number is not None:
                yield place, _code(read, value.tag), one.step, one.wall_time, value.number
            elif not _is_settings(read, value):
                read.others.setdefault(value.kind, Tally()).add(f"tag {value.tag}, step {one.step}", group=value.tag)


def _note(read: EventFile, one: Event) -> None:
    if one.wall_time:
        read.started = min(read.started, one.wall_time)
    if one.restarts:
        read.restarts_at.append(one.step)


def _is_settings(read: EventFile, value: Value) -> bool:
    """Take a value as settings of the run, if it is any: of the hparams plugin, or a text that is a JSON object."""
    found = value.config
    if found is None and value.text is not None:
        name = value.tag.removesuffix(_TEXT_END)
        found = settings_text(value.text, "" if name in _OWN_SETTINGS else f"{name}.")
    if found is None:
        return False
    read.config |= found
    return True


def _code(read: EventFile, tag: str) -> int:
    return read.tags.setdefault(tag, len(read.tags))


def faults(read: EventFile) -> Iterator[ReadProblem]:
    """What is wrong with records of a file."""
    where = str(read.path)
    yield from read.damaged.problems(where, "the record's bytes do not fit their checksum; it is passed over")
    yield from read.odd.problems(where, "the record is no event")


def gaps(path: Path, records: Records, base: int = 0) -> Iterator[ReadProblem]:
    """What is wrong between records of a file."""
    for begin, end in records.damaged:
        what = "damaged: no record can be made out here, how many there were is not known"
        yield ReadProblem(path=str(path), place=f"bytes {base + begin} to {base + end}", what=what, rows=1)
    if records.cut_at is not None:
        what = "the file ends within a record, as one that is being written; the rest is read"
        yield ReadProblem(path=str(path), place=f"byte {base + records.cut_at}", what=what, kind=ProblemKind.NOTE)


def not_numbers(path: Path, others: dict[str, Tally]) -> Iterator[ReadProblem]:
    """What a file holds beside numbers."""
    for kind, tally in others.items():
        for problem in tally.problems(str(path), f"{kind}, not a number, so it is not shown"):
            yield replace(problem, kind=ProblemKind.UNMAPPED)
