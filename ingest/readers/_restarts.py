"""The event files of one run joined: a restart begins a new file, and from the step at which it takes up again, the later file stands."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ingest.readers._event_file import EventFile
from ingest.readers._rows import Rows
from ingest.run import ProblemKind, RawLog, ReadProblem

_NONE = np.iinfo(np.int64).max


def joined(files: Sequence[EventFile], name: str, path: Path, container: str) -> RawLog:
    """One run from all its files, in the order in which they were begun."""
    ordered = sorted(files, key=lambda file: (file.started, file.path.name))
    rows, seams = Rows(), list[ReadProblem]()
    later = [_Later(file) for file in ordered]
    for place, file in enumerate(ordered):
        codes, steps, walls, values = file.columns()
        keep = np.ones(len(steps), bool)
        for following in later[place + 1 :]:
            replaced = following.replaces(list(file.tags), codes, steps) & keep
            keep &= ~replaced
            seams += _seam(file, following.file, steps[replaced])
        rows.extend_many(list(file.tags), codes[keep], steps[keep], values[keep], walls[keep])
    return RawLog(
        name=name,
        path=str(path),
        container=container,
        scalars=rows.table(),
        config={key: value for file in ordered for key, value in file.config.items()},
        problems=(*(problem for file in ordered for problem in file.problems), *seams, *rows.repeated(str(path))),
    )


class _Later:
    """From which step on a file stands for each of its tags, against those begun before it."""

    def __init__(self, file: EventFile) -> None:
        codes, steps, _, _ = file.columns()
        self.file = file
        self.first = np.full(len(file.tags), _NONE)
        np.minimum.at(self.first, codes, steps)
        self.purges_from = min(file.restarts_at, default=_NONE)

    def replaces(self, tags: list[str], codes: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """Whether the run came past each value of an earlier file again, or was to, when it was restarted."""
        own = [self.file.tags.get(tag, -1) for tag in tags]
        first = np.array([self.first[code] if code >= 0 else _NONE for code in own], np.int64)
        void: np.ndarray = steps >= np.minimum(first[codes], self.purges_from)
        return void


def _seam(earlier: EventFile, later: EventFile, steps: np.ndarray) -> list[ReadProblem]:
    if not steps.size:
        return []
    what = f"the run was restarted at step {steps.min()}: what was logged from there on before is replaced by {later.path.name}"
    place = f"steps {steps.min()} to {steps.max()}"
    return [ReadProblem(path=str(earlier.path), place=place, what=what, rows=int(steps.size), kind=ProblemKind.SHADOWED)]
