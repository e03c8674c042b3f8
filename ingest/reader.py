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
    A reader of things that are no files has `schemes` (`wandb` for `wandb:entity/project/run`) and `read_address`.
    """

    id: str
    title: str
    objection: Callable[[Path], str | None]
    read: Callable[[Path], tuple[RawLog, ...]]
    searches: bool = False  # a folder is recognised by files some levels below it, beside which logs of other kinds may lie
    schemes: tuple[str, ...] = ()
    read_address: Callable[[str], tuple[RawLog, ...]] | None = None
