"""The values that travel from a file to a metric: what the file says (`RawLog`), and what it means (`Run`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from ingest.schema import RAW_SCALARS

if TYPE_CHECKING:
    from ingest.tokens import TokenLog

Config = Mapping[str, str | int | float | bool]


RESUMED = "resumed at this step"  # how the caveat of the first value after a restart begins
OLDER = f"{RESUMED}: values from here on were logged before the restart, which has not come so far"


class ProblemKind(StrEnum):
    """How a problem touches the rows it counts."""

    LOST = "lost"  # rows that could not be read
    UNMAPPED = "unmapped"  # rows read, but no dialect knows their name
    SHADOWED = "shadowed"  # rows whose quantity another key of the same log already gives
    PLACEHOLDER = "placeholder"  # rows that hold a number which stands for "no value"
    NOTE = "note"  # nothing lost; something the reader of the number should know


class Role(StrEnum):
    """What a run is in a comparison."""

    REFERENCE = "reference"
    CANDIDATE = "candidate"


@dataclass(frozen=True, kw_only=True)
class ReadProblem:
    """Something that was not understood. Rows in = rows out + rows in problems (kinds other than `note`)."""

    path: str
    place: str  # line, row, column or row group; "" for the whole file
    what: str  # one sentence
    rows: int = 0
    kind: ProblemKind = ProblemKind.LOST


@dataclass(frozen=True, kw_only=True)
class RawLog:
    """One run as its file says it, nothing interpreted."""

    name: str  # the run's name as the file gives it; the file's stem where it gives none
    path: str
    container: str  # id of the reader
    scalars: pa.Table = field(default_factory=RAW_SCALARS.empty_table)  # RAW_SCALARS
    tokens: TokenLog | None = None
    config: Config = field(default_factory=dict)  # flat, dotted keys
    problems: tuple[ReadProblem, ...] = ()
    axis: str = ""  # the key whose values are the steps, where the file names one; it is not among the scalars


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run as we understand it."""

    id: str  # stable for the same file and name; safe in a URL
    name: str
    path: str
    dialect: str  # id of the dialect of the scalars ("" where the log has tokens only)
    old_is: str  # what `old_logprob` is in this dialect, in words
    scalars: pa.Table  # SCALARS
    tokens: TokenLog | None
    config: Config
    problems: tuple[ReadProblem, ...]
    role: Role = Role.CANDIDATE
    group: str = ""  # seeds of one configuration share a group
    root: Path | None = None  # the run's folder, where it has one
    container: str = ""  # id of the reader
    why: str = ""  # why it was read in this dialect, in words
    config_sources: Mapping[str, str] = field(default_factory=dict)  # our setting -> the framework's key it was taken from


__all__ = ["OLDER", "RESUMED", "Config", "ProblemKind", "RawLog", "ReadProblem", "Role", "Run"]
