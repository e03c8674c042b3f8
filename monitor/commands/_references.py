"""The runs that a command is given as reference: seeds of one configuration, each under a name of its own."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from ingest.errors import RatiometerError
from ingest.run import Role, Run
from monitor.commands._command import Framed, framed


class SameRunTwice(RatiometerError):  # noqa: N818  it is an answer as much as an error
    """A run beside itself has no noise, so every candidate would leave it."""


def references(paths: Iterable[Path], given: argparse.Namespace) -> dict[str, Framed]:
    """Every seed found at the paths, by a name of its own.

    Raises:
        RatiometerError: a path cannot be read.
        SameRunTwice: a seed is given twice.
    """
    seeds = tuple(pair for path in paths for pair in _of(framed(path, given)))
    return dict(zip(_distinct([run for run, _ in seeds]), seeds, strict=True))


def _of(read: tuple[Framed, ...]) -> tuple[Framed, ...]:
    """In a folder of many runs those that call themselves the reference, if any does."""
    return tuple(pair for pair in read if pair[0].role is Role.REFERENCE) or read


def _distinct(runs: Sequence[Run]) -> list[str]:
    """A name for each seed: its own, with its path where two are named alike, so that no seed takes another's place."""
    names = Counter(run.name for run in runs)
    labels = [run.name if names[run.name] == 1 else f"{run.name} ({run.path})" for run in runs]
    if len(set(labels)) < len(labels):
        raise SameRunTwice(f"a seed of the reference is given twice: {', '.join(sorted({x for x in labels if labels.count(x) > 1}))}")
    return labels
