"""What a rule made of each of the last steps, as runs: steps in equal distances that share a mark.

A run is (first, last, distance, mark), distance 0 where it holds one step. The form is canonical: built from the left, each run as long as
it can be, so that the same steps and marks are the same runs however they came. Appending is what it costs where steps come in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from monitor.alerts.levels import Mark


class Run(NamedTuple):
    """Steps in equal distances that share a mark."""

    first: int
    last: int
    distance: int
    mark: Mark

    @property
    def held(self) -> int:
        """How many steps it holds."""
        return (self.last - self.first) // self.distance + 1 if self.distance else 1


Runs = tuple[Run, ...]


def marks(runs: Runs) -> dict[int, Mark]:
    """Step -> mark, steps rising."""
    return {step: run.mark for run in runs for step in range(run.first, run.last + 1, run.distance or 1)}


def count(runs: Runs) -> int:
    """How many steps they hold."""
    return sum(run.held for run in runs)


def put(runs: Runs, changes: Mapping[int, Mark]) -> Runs:
    """The runs with some steps marked, or marked anew."""
    if not changes:
        return runs
    if not runs or min(changes) > runs[-1].last:
        return _appended(runs, sorted(changes.items()))
    known = marks(runs)
    if all(known.get(step) is mark for step, mark in changes.items()):
        return runs
    return _appended((), sorted({**known, **changes}.items()))


def before(runs: Runs, step: int) -> Runs:
    """The runs without `step` and what follows it."""
    whole = tuple(run for run in runs if run.last < step)
    cut = next((run for run in runs if run.first < step <= run.last), None)
    if cut is None:
        return whole
    last = cut.first + (step - 1 - cut.first) // cut.distance * cut.distance
    return (*whole, Run(cut.first, last, cut.distance if last > cut.first else 0, cut.mark))


def parted(runs: Runs, keep: int) -> tuple[Runs, Runs]:
    """All but the last `keep` steps, and these."""
    steps = list(marks(runs).items())
    place = max(0, len(steps) - keep)
    return _appended((), steps[:place]), _appended((), steps[place:])


def _appended(runs: Runs, later: Iterable[tuple[int, Mark]]) -> Runs:
    """Runs with steps behind all of theirs, rising."""
    grown = list(runs)
    for step, mark in later:
        end = grown[-1] if grown else None
        if end is not None and end.mark is mark and end.distance in {0, step - end.last}:
            grown[-1] = Run(end.first, step, step - end.last, mark)
        else:
            grown.append(Run(step, step, 0, mark))
    return tuple(grown)
