"""From marks to stays: walks the steps in their order and says where a rule fired, where it was over, and where there was no number.

One stay beyond the threshold (an episode) begins with the first of `hold` values in a row beyond it, fires with the last of these, and is
over at the first value back on the healthy side. A value between the two thresholds ends a row that has not fired, and nothing else. A NaN
is neither beyond nor back: it ends neither a row nor an episode, and is a stretch of its own, over at the next number. Steps that were not
logged are passed over.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from monitor.alerts._runs import Runs
from monitor.alerts.levels import Mark


class Phase(StrEnum):
    """The state of a rule in a run, as of the latest step."""

    ABSENT = "absent"  # no value yet, or none that could be compared with anything
    OK = "ok"
    PENDING = "pending"  # beyond the threshold, but not for as many values in a row as the rule holds
    FIRING = "firing"
    NAN = "nan"  # no number; an episode that was firing before is not over


class Stay(NamedTuple):
    """Some steps in a row of one kind."""

    first: int
    fired: int  # step at which it became one: the last of the values that the rule holds
    over: int | None = None  # first step at which it was over; None while it lasts

    def holds(self, step: int) -> bool:
        """Whether it was on at a step."""
        return self.first <= step and (self.over is None or step < self.over)


@dataclass(frozen=True, kw_only=True)
class Walk:
    """Where a walk stands after some steps."""

    firing: Stay | None = None  # the episode that lasts
    nan: Stay | None = None  # the stretch without a number that lasts
    row: int = 0  # values in a row beyond the threshold
    row_from: int = 0  # the first of them
    compared: bool = False  # whether any value could be compared

    @property
    def phase(self) -> Phase:
        """The state after these steps."""
        if self.nan is not None:
            return Phase.NAN
        if self.firing is not None:
            return Phase.FIRING
        if not self.compared:
            return Phase.ABSENT
        return Phase.PENDING if self.row else Phase.OK


class Walked(NamedTuple):
    """A walk and what it passed, including what still lasts."""

    end: Walk
    firing: tuple[Stay, ...]
    nan: tuple[Stay, ...]


def walked(start: Walk, runs: Runs, hold: int) -> Walked:
    """Walk some runs from where another walk stands."""
    firing, nan, row, row_from, compared = start.firing, start.nan, start.row, start.row_from, start.compared
    episodes: list[Stay] = []
    stretches: list[Stay] = []
    for run in runs:
        if run.mark is Mark.NAN:
            nan = nan or Stay(run.first, run.first)
            continue
        if nan is not None:
            stretches.append(nan._replace(over=run.first))
            nan = None
        compared = compared or run.mark is not Mark.UNKNOWN
        if run.mark is Mark.BEYOND:
            row_from = row_from if row else run.first
            missing = hold - row
            if firing is None and run.held >= missing:
                firing = Stay(row_from, run.first + max(missing - 1, 0) * run.distance)
            row += run.held
        elif run.mark is not Mark.UNKNOWN:
            row = 0
            if firing is not None and run.mark is Mark.CLEAR:
                episodes.append(firing._replace(over=run.first))
                firing = None
    end = Walk(firing=firing, nan=nan, row=row, row_from=row_from if row else 0, compared=compared)
    return Walked(end, (*episodes, *([firing] if firing else [])), (*stretches, *([nan] if nan else [])))
