"""What came to a log since the last look: the way in which each container is followed, and the runs to follow at a path.

A reader reads a log once. What is followed here goes on where it stopped, so that a look costs what is new and not what is there; after
every look `logs` says what the reader would say of the same files. A container without such a way is read whole whenever its files changed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ingest._places import left_out, left_out_sentence, parts
from ingest.errors import UnknownContainerError
from ingest.identify import address_reader, identify_reader
from ingest.reader import Reader
from ingest.readers import _wandb_folder as wandb_folder
from ingest.readers import jsonl, parquet_tokens, run_folder, tensorboard, wandb_api, wandb_run
from ingest.readers._files import files_under
from ingest.readers._growing_event_run import GrowingEvents
from ingest.readers._growing_lines import GrowingLines
from ingest.readers._growing_parts import GrowingParts
from ingest.readers._growing_records import GrowingRecords
from ingest.readers._growing_run import GrowingRun
from ingest.readers._growing_server import GrowingServerRun
from ingest.readers._growing_whole import ReadWhole
from ingest.readers._grown import NOTHING, Growing, Grown


@dataclass(frozen=True, kw_only=True)
class Place:
    """One thing to follow."""

    where: str  # path or address
    reader: Reader
    name: str = ""  # of one run among others of a tree


def places(where: str) -> tuple[Place, ...]:
    """What is to be followed at a path or an address; to be asked again now and then where it is a collection.

    Raises:
        UnknownContainerError: nothing there is a log that is known, so far.
        ReadError: the server cannot be asked.
    """
    by_address = address_reader(where)
    if by_address is not None:
        return tuple(Place(where=address, reader=by_address) for address in wandb_api.addresses(where))
    path = Path(where)
    if not path.exists():
        raise UnknownContainerError(f"{where}: there is no such file or folder.")
    found: list[Place] = []
    objections: list[UnknownContainerError] = []
    for part in parts(path):
        try:
            found += _split(part, identify_reader(part))
        except UnknownContainerError as unknown:
            objections.append(unknown)
    if not found:
        raise objections[0]
    return tuple(found)


def is_collection(where: str, found: tuple[Place, ...]) -> bool:
    """Whether more may come up there than was found."""
    return [place.where for place in found] != [where]


def passed_over(where: str) -> tuple[str, ...]:
    """What lies at a path and is in none of its places although it would be read if it stood alone: a sentence for each reason."""
    if address_reader(where) is not None:
        return ()
    try:
        return tuple(left_out_sentence(why, found) for why, found in left_out(Path(where)).items())
    except OSError:  # it is going just now
        return ()


def growing(place: Place, clock: Callable[[], float] = time.monotonic) -> Growing:
    """The way to follow what is at a place.

    Args:
        place: one of `places`.
        clock: seconds that never go back, for what is not asked at every look.
    """
    path, reader = Path(place.where), place.reader
    if reader.id == wandb_api.READER.id:
        return GrowingServerRun(place.where, clock)
    if reader.id == tensorboard.READER.id:
        return GrowingEvents(path, place.name)
    if reader.id == wandb_run.READER.id and (path.is_file() or len(wandb_folder.record_files(path)) == 1):
        return GrowingRecords(path) if path.is_file() else GrowingRecords(wandb_folder.record_files(path)[0], path)
    if reader.id == parquet_tokens.READER.id and path.is_dir():
        return GrowingParts(path, clock)
    if reader.id == run_folder.READER.id:
        return GrowingRun(path, clock)
    return GrowingLines(path) if reader.id == jsonl.READER.id else ReadWhole(path, reader, clock)


def _split(part: Path, reader: Reader) -> Iterator[Place]:
    """The runs of a tree that one reader takes as a whole, each to be followed by itself."""
    if part.is_dir() and reader.id == tensorboard.READER.id:
        files, _ = files_under(part, tensorboard.NAMED, tensorboard.LEVELS)
        for folder in sorted({file.parent for file in files}):
            yield Place(where=str(folder), reader=reader, name=folder.relative_to(part).as_posix() if folder != part else "")
    elif part.is_dir() and reader.id == wandb_run.READER.id and not wandb_folder.is_run(part):
        yield from (Place(where=str(folder), reader=reader) for folder in wandb_folder.runs_in(part))
    else:
        yield Place(where=str(part), reader=reader)


__all__ = ["NOTHING", "Growing", "Grown", "Place", "growing", "is_collection", "passed_over", "places"]
