"""What a reader is: one container of files, how it is recognised, how it becomes raw logs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ingest.run import RawLog


@dataclass(frozen=True, kw_only=True)
class Reader:
    """One container. A file of `ingest/readers` ends in one of these, named READER.

    `objection` looks at the content, never at the suffix, and says in a few words why the path is not of this container, or None.
    `read` gives one raw log per run; it raises `ReadError` for what cannot be read at all, and lists the rest as problems.
    """

    id: str
    title: str
    objection: Callable[[Path], str | None]
    read: Callable[[Path], tuple[RawLog, ...]]
