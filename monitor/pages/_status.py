"""How a run stands, at a glance: its last step, how low its ESS has been and where, and the course of it; numbers in, words nowhere."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import streamlit as st

from monitor.metrics.series import Series, series
from monitor.pages._following import Key
from monitor.pages._panels import panels, ratio_of
from monitor.pages._results import Shown

POINTS = 60  # of a course: what a picture as wide as a word can show
MAX_STATUSES = 4096  # kept; one is about 1 kB

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Lowest:
    """The smallest ESS of one level."""

    level: str  # token or sequence
    ratio: str  # lag, or what stands in for a lag that cannot be separated
    value: float
    step: int


@dataclass(frozen=True, kw_only=True)
class Status:
    """See the module."""

    last_step: int | None
    steps: int  # how many steps have a value
    lowest: tuple[Lowest, ...]  # a level that was not recorded, or has no number, is not among them
    course: tuple[tuple[float, float], ...]  # ESS of tokens, else of sequences: place from 0 to 1, lowest value of a piece of the run
    course_of: str  # the metric whose course it is; "" where there is none


def status(one: Shown) -> Status:
    """How a run stands, found out once per content."""
    return _status(one.who.id, one.key, one.frame)


@st.cache_resource(max_entries=MAX_STATUSES, show_spinner=False)
def _status(run_id: str, key: Key, _frame: pa.Table) -> Status:
    del run_id, key  # the cache's key
    return standing(_frame)


def standing(frame: pa.Table) -> Status:
    """The status that a metric frame tells."""
    found = [(level, _ess(frame, place)) for place, level in enumerate(("token", "sequence"))]
    lowest = [one for level, ess in found if (one := _lowest(level, ess)) is not None]
    drawn = next((ess for _, ess in found if len(ess)), None)
    return Status(
        last_step=pc.max(frame["step"]).as_py(),
        steps=pc.count_distinct(frame["step"]).as_py(),
        lowest=tuple(lowest),
        course=() if drawn is None else course(drawn.steps.astype(np.float64), drawn.values),
        course_of="" if drawn is None else drawn.metric,
    )


def course(x: Floats, y: Floats, points: int = POINTS) -> tuple[tuple[float, float], ...]:
    """The lowest value of each piece of the run, with the piece's place from 0 to 1, so that a dip of one step can be seen."""
    known = np.isfinite(y)
    x, y = x[known], y[known]
    if not x.size:
        return ()
    place = (x - x[0]) / ((x[-1] - x[0]) or 1.0)
    piece = np.minimum((place * points).astype(np.int64), points - 1)
    starts = np.flatnonzero(np.r_[True, np.diff(piece) > 0])
    lows = np.minimum.reduceat(y, starts)
    at = [float(place[start + int(np.argmin(part))]) for start, part in zip(starts, np.split(y, starts[1:]), strict=True)]
    return tuple(zip(at, lows.tolist(), strict=True))


def _ess(frame: pa.Table, place: int) -> Series:
    """The ESS of a level as the overlay shows it: of the lag, else of what stands in for it."""
    metrics = [panel for panel in panels() if panel.ess][place].metrics
    found = (series(frame, metric) for metric in metrics)
    return next((one for one in found if len(one)), series(frame, metrics[0]))


def _lowest(level: str, ess: Series) -> Lowest | None:
    known = np.flatnonzero(np.isfinite(ess.values))
    if not known.size:
        return None
    at = known[np.argmin(ess.values[known])]
    return Lowest(level=level, ratio=ratio_of(ess.metric), value=float(ess.values[at]), step=int(ess.steps[at]))
