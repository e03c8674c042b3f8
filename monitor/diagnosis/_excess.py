"""How much larger the gap is than in the reference, where both began with the same policy: at the first steps and over the run."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from monitor.diagnosis.case import Case
from monitor.metrics.series import Series

Floats = NDArray[np.float64]

MEASURES = (
    "log_ratio.discrepancy.abs_mean",
    "log_ratio.discrepancy.exp_abs_mean",
    "log_ratio.discrepancy.sd",
    "prob_diff.discrepancy.abs_mean",
)
SAME_POLICY = 1.15  # factor between the entropies of the first steps; beyond it the two runs do not sample the same distribution
_FIRST = 5  # steps in which the policies have not gone apart
_ENOUGH = 4  # steps from which a spread can be read
_MEDIAN = 1.2533  # standard error of a median of normal values, in that of their mean


@dataclass(frozen=True, kw_only=True)
class Excess:
    """A measure of the gap beside the reference's."""

    metric: str
    factor: float  # the smaller of the two below
    whole: float  # own median over the reference's
    first: float  # the same in the first steps
    z: float  # of the first steps; infinite where the log gives no spread
    own: float  # medians; of a mean factor its excess over 1
    reference: float
    above_seeds: bool  # own median lies above every seed's by a tenth
    steps: tuple[int, ...]
    origin: str


def excess(case: Case) -> Excess | None:
    """The run's gap against its reference's; None without a reference that has the measure, or where the policies were not the same."""
    if case.portrait is not None and not case.portrait.gap.is_discrepancy:
        return None
    if not _same_policy(case):
        return None
    for metric in MEASURES:
        own, seeds = case.series(metric), case.reference(metric)
        if seeds and (_logs(own).size):
            return _excess(own, seeds)
    return None


def _excess(own: Series, seeds: tuple[Series, ...]) -> Excess:
    logs, others = _logs(own), [_logs(seed) for seed in seeds]
    pooled = np.concatenate(others)
    begun = np.concatenate([values[:_FIRST] for values in others])
    whole = math.exp(float(np.median(logs) - np.median(pooled)))
    first = math.exp(float(np.median(logs[:_FIRST]) - np.median(begun)))
    error = math.hypot(_error(logs[:_FIRST], own), _error(begun, seeds[0]))
    return Excess(
        metric=own.metric,
        factor=min(whole, first),
        whole=whole,
        first=first,
        z=math.log(first) / error if error > 0 else math.inf * np.sign(math.log(first) or 1.0),
        own=math.exp(float(np.median(logs))),
        reference=math.exp(float(np.median(pooled))),
        above_seeds=all(np.median(logs) > np.median(values) + math.log(1.1) for values in others),
        steps=(int(own.steps[0]), int(own.steps[-1])),
        origin=own.origin,
    )


def _same_policy(case: Case) -> bool:
    own, seeds = case.series("entropy.mean"), case.reference("entropy.mean")
    if not seeds or not np.isfinite(own.values).any():
        return True
    there = np.median([np.nanmedian(seed.values[:_FIRST]) for seed in seeds])
    factor = np.nanmedian(own.values[:_FIRST]) / there if there > 0 else math.nan
    return bool(1 / SAME_POLICY < factor < SAME_POLICY)


def _logs(found: Series) -> Floats:
    values = found.values - 1 if "exp_abs" in found.metric else found.values
    return np.asarray(np.log(values[np.isfinite(values) & (values > 0)]), np.float64)


def _error(logs: Floats, found: Series) -> float:
    """Standard error of a median of logs; of a single value its own, where the log has one; 0 where nothing says it."""
    if len(logs) >= _ENOUGH:
        return _MEDIAN * float(logs.std(ddof=1)) / math.sqrt(len(logs))
    own = found.standard_error[: len(logs)] / found.values[: len(logs)]
    known = own[np.isfinite(own)]
    return float(np.median(known)) / math.sqrt(len(known)) if len(known) else 0.0
