"""When a candidate first leaves its reference: a two-sided CUSUM of its deviation in units of the reference's own noise.

CUSUM (E. S. Page, "Continuous inspection schemes", Biometrika 41, 1954): C = max(0, C + z - SLACK), alarm when C > LIMIT. The
change is dated to the step after C last was zero, so a divergence comes with an interval: from there to the alarm.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from monitor.compare.reference import Reference, on_steps
from monitor.metrics.series import Series

Floats = npt.NDArray[np.float64]

SLACK = 2.0  # a deviation of two noise units is what a further seed may show for long: the yardstick of parity is 2 as well
LIMIT = 10.0  # three seeds leave the noise unit itself uncertain; docs/decisions/0001-comparison.md has the false-alarm counts
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


def deviation(candidate: Series, against: Reference) -> Floats:
    """Candidate minus the reference's centre in noise units, at the candidate's steps; NaN where there is no reference.

    The candidate's own standard error, where it has one, is added to the noise in quadrature: a mean ratio of one that is only
    measured more coarsely than the reference's has not left it.
    """
    difference = on_steps(candidate, against.steps) - against.centre
    own = np.nan_to_num(np.asarray(candidate.standard_error, np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    scale = np.sqrt(against.noise**2 + own**2)
    size = np.maximum(np.abs(against.centre), 1.0)
    z: Floats = difference / np.maximum(scale, _TINY * size)
    return z


def first_divergence(metric: str, steps: npt.NDArray[np.int64], z: Floats) -> Divergence | None:
    """The first stretch of `z` that a CUSUM finds beyond the control limit, or None.

    Args:
        metric: id, carried along.
        steps: shape (n,), increasing.
        z: shape (n,), deviation in noise units; NaN rows are passed over.
    """
    known = np.flatnonzero(np.isfinite(z))
    found = [stretch for sign in (1.0, -1.0) if (stretch := _stretch(sign * z[known])) is not None]
    if not found:
        return None
    start, alarm, end = min(found)
    inside = z[known[start : known.size if end is None else end + 1]]
    return Divergence(
        metric=metric,
        step=int(steps[known[start]]),
        alarm_step=int(steps[known[alarm]]),
        until=None if end is None else int(steps[known[end]]),
        direction="above" if z[known[alarm]] > 0 else "below",
        at_once=start == 0,
        peak=float(np.abs(inside).max()),
    )


def _stretch(z: Floats) -> tuple[int, int, int | None] | None:
    """First excursion beyond the limit: its first row, the row of the alarm, and its last row (None: still going at the end)."""
    total, start, alarm = 0.0, 0, None
    for row, value in enumerate(z.tolist()):
        if total == 0.0:
            start = row
        total = min(max(0.0, total + value - SLACK), _CAP)
        if alarm is None and total > LIMIT:
            alarm = row
        if alarm is not None and total == 0.0:
            return (start, alarm, row - 1)
    return None if alarm is None else (start, alarm, None)
