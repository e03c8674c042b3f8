"""Values of a wandb history, collected until the run is read: numbers as rows, all else counted by key."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import nan

import pyarrow as pa
import pyarrow.compute as pc

from ingest.readers._json import step_of
from ingest.readers._numbers import number_of
from ingest.readers._rows import Rows
from ingest.readers._tally import Tally
from ingest.readers._wandb_histogram import MOMENTS, moments
from ingest.run import ProblemKind, ReadProblem

STEP, SECONDS, RUNTIME = "_step", "_timestamp", "_runtime"
BOOKKEEPING = (STEP, SECONDS, RUNTIME)  # axes, not quantities
KIND = "_type"  # what marks a dictionary as a histogram, an image, a table, …
_MAX_DEPTH = 50
_SHOWN = 80
_NULLS = "values are null: not logged (or NaN of a small float type, which wandb wrote so before 0.28.1)"
_MEDIA = "a histogram, a table or another medium, which is no number of a step"


@dataclass
class Values:
    """What has been read of one run's history so far."""

    rows: Rows = field(default_factory=Rows)
    words: Tally = field(default_factory=Tally)  # neither a number nor a word for one, by key
    stepless: Tally = field(default_factory=Tally)
    media: dict[str, int] = field(default_factory=dict)  # key of a medium -> its values that were left out
    broken: Tally = field(default_factory=Tally)  # lines that are no row at all
    nulls: int = 0

    @property
    def found(self) -> int:
        """Values seen, whatever became of them; nulls are none."""
        return len(self.rows.values) + self.words.count + self.stepless.count + sum(self.media.values())

    def take_row(self, row: Mapping[str, object], place: str) -> None:
        """Add one row of a history, its keys as they are or nested."""
        step, wall = step_of(row.get(STEP)), number_of(row.get(SECONDS))
        for key, value in row.items():
            if key not in BOOKKEEPING:
                self.take(key, value, step, nan if wall is None else wall, place)

    def take(self, key: str, value: object, step: int | None, wall: float, place: str) -> None:
        """Add one value; a dictionary is as many values as it has leaves, unless it is a medium."""
        for name, leaf in _leaves(key, value):
            if leaf is None:
                self.nulls += 1
            elif isinstance(leaf, dict):
                self._take_medium(name, leaf, step, wall)
            elif name.endswith(f".{KIND}"):
                self.count_medium(name.removesuffix(f".{KIND}"), 1)
            elif (read := number_of(leaf)) is None:
                self.words.add(f"{place}, key {name}", group=name)
            elif step is None:
                self.stepless.add(f"{place}, key {name}")
            else:
                self.rows.add(name, step, read, wall)

    def _take_medium(self, name: str, medium: dict[str, object], step: int | None, wall: float) -> None:
        """A histogram with bins is two numbers, as nothing else of it is one of a step; any other medium is none."""
        found = moments(medium)
        if found is None or step is None or name in self.media:
            self.count_medium(name, 1)
            return
        for end, value in zip(MOMENTS, found, strict=True):
            self.rows.add(f"{name}.{end}", step, value, wall)

    def count_medium(self, name: str, count: int) -> None:
        """Note values that belong to a medium."""
        self.media[name] = self.media.get(name, 0) + count

    def table(self) -> pa.Table:
        """All numbers but those that belong to a medium (the size of a table), which are counted with it."""
        table = self.rows.table()
        for medium in self.media:
            kept = outside(table, [medium])
            words = sum(self.words.forget(name) for name in list(self.words.groups) if name.startswith(f"{medium}."))
            self.media[medium] += table.num_rows - kept.num_rows + words
            table = kept
        return table

    def problems(self, path: str) -> Iterator[ReadProblem]:
        """What was not taken; ask after `table`, which finds media."""
        yield from self.broken.problems(path, "no JSON object")
        yield from self.words.problems(path, "neither a number nor a word for one")
        yield from self.stepless.problems(path, f"no whole number under {STEP}, so the values of the row belong to no step")
        for medium, count in self.media.items():
            yield ReadProblem(path=path, place=f"key {medium}", what=_MEDIA, rows=count, kind=ProblemKind.UNMAPPED)
        if self.nulls:
            yield ReadProblem(path=path, place="", what=f"{self.nulls} {_NULLS}", kind=ProblemKind.NOTE)


def outside(table: pa.Table, media: Iterable[str]) -> pa.Table:
    """The rows that do not belong to a medium."""
    for medium in media:
        table = table.filter(pc.invert(pc.starts_with(table.column("key"), f"{medium}.")))
    return table


def is_history_row(line: str) -> bool:
    """Whether a line of JSON, or its beginning, is a row of a history: it has the step and a time as only wandb spells them."""
    return line.lstrip("\ufeff \t").startswith("{") and f'"{STEP}"' in line and any(f'"{key}"' in line for key in (SECONDS, RUNTIME))


def json_value(text: bytes) -> object:
    """Read the JSON text of one value; what is no JSON becomes a list, which is no number whatever the text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # UnicodeDecodeError and JSONDecodeError are ValueErrors
        return [text[:_SHOWN].decode("utf-8", "replace")]


def _leaves(key: str, value: object, depth: int = 0) -> Iterator[tuple[str, object]]:
    """Key and value of everything that is no dictionary, keys joined with dots as wandb does; a medium and what is too deep stay whole."""
    if isinstance(value, dict) and KIND not in value and depth < _MAX_DEPTH:
        for name, inner in value.items():
            yield from _leaves(f"{key}.{name}", inner, depth + 1)
    else:
        yield key, value
