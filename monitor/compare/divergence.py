"""When a candidate first leaves its reference: a two-sided CUSUM of what exceeds the reference's own noise.

A deviation counts only beyond twice the reference's noise, which a further seed may well show for as long as it likes; what exceeds
that is taken in units of the noise and summed (E. S. Page, "Continuous inspection schemes", Biometrika 41, 1954):
C = max(0, C + min(excess, WORST) - DRIFT), alarm when C > LIMIT. The change is dated to the step after C last was zero, so a
divergence comes with an interval: from there to the alarm.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from monitor.compare.reference import Reference, on_steps
from monitor.metrics.series import Series

Floats = npt.NDArray[np.float64]

ALLOWED = 2.0  # reference noise units; the yardstick of parity is 2 as well (definitions, section 8)
DRIFT = 0.5  # Page's reference value for a shift of one unit
LIMIT = 8.0  # docs/decisions/0002-comparison.md has the counts of false alarms
WORST = 4.0  # one step alone never raises the alarm, however far it lies: a lone spike is a crossing or an outlier, not a divergence
_CAP = 3 * LIMIT  # the sum is capped so that a return to the reference is seen soon after it happens
_TINY = 1e-12  # a reference that never moves (a constant) has no noise; this keeps z finite, and any real change still counts


@dataclass(frozen=True, kw_only=True)
class Divergence:
    """A candidate beyond its reference's noise in one metric."""

    metric: str
    step: int  # first step of the divergence
    alarm_step: int  # step at which it was certain: the interval of the first divergence is [step, alarm_step]
    until: int | None  # last step of it; None where it lasts to the end of what can be compared
    direction: str  # above or below
    at_once: bool  # no comparable step precedes it
    peak: float  # largest |deviation| in noise units between `step` and `until`


@dataclass(frozen=True, kw_only=True)
class Deviation:
    """A candidate against its reference, step by step; NaN where there is no reference."""

    steps: npt.NDArray[np.int64]
    units: Floats  # candidate minus centre, in noise units
    excess: Floats  # what of it lies beyond `ALLOWED` units of the reference's noise, signed


def deviation(candidate: Series, against: Reference) -> Deviation:
    """The candidate minus the reference's centre, at the candidate's steps.

    The candidate's own standard error, where it has one, is added to the noise in quadrature: a mean ratio of one that is only
    measured more coarsely than the reference's has not left it.
    """
    difference = on_steps(candidate, against.steps) - against.centre
    own = np.nan_to_num(np.asarray(candidate.standard_error, np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    least = _TINY * np.maximum(np.abs(against.centre), 1.0)
    scale = np.maximum(np.sqrt(against.noise**2 + own**2), least)
    beyond = np.maximum(np.abs(difference) - ALLOWED * against.noise, 0.0)
    return Deviation(steps=against.steps, units=difference / scale, excess=np.sign(difference) * beyond / scale)


def first_divergence(metric: str, found: Deviation) -> Divergence | None:
    """The first stretch that the CUSUM finds beyond the control limit, or None; NaN rows are passed over."""
    known = np.flatnonzero(np.isfinite(found.excess))
    steps, excess, units = found.steps[known], found.excess[known], found.units[known]
    stretches = [stretch for sign in (1.0, -1.0) if (stretch := _stretch(sign * excess)) is not None]
    if not stretches:
        return None
    start, alarm, end = min(stretches)
    inside = units[start : known.size if end is None else end + 1]
    return Divergence(
        metric=metric,
        step=int(steps[start]),
        alarm_step=int(steps[alarm]),
        until=None if end is None else int(steps[end]),
        direction="above" if excess[alarm] > 0 else "below",
        at_once=start == 0,
        peak=float(np.abs(inside).max()),
    )


def _stretch(excess: Floats) -> tuple[int, int, int | None] | None:
    """First excursion beyond the limit: its first row, the row of the alarm, and its last row (None: still going at the end)."""
    total, start, alarm = 0.0, 0, None
    for row, value in enumerate(excess.tolist()):
        if total == 0.0:
            start = row
        total = min(max(0.0, total + min(value, WORST) - DRIFT), _CAP)
        if alarm is None and total > LIMIT:
            alarm = row
        if alarm is not None and total == 0.0:
            return (start, alarm, row - 1)
    return None if alarm is None else (start, alarm, None)
