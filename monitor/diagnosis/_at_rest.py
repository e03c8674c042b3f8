"""Whether the weights of a run moved at all."""

from __future__ import annotations

import numpy as np

from monitor.diagnosis._lag_term import unmoved
from monitor.diagnosis.case import Case


def why_at_rest(case: Case) -> str:
    """What says that the weights did not move, as half a sentence; "" where nothing does."""
    return unmoved(case) or _no_lag(case)


def _no_lag(case: Case) -> str:
    """The lag term is exactly 0 on tokens that are versions old."""
    lag, old = case.series("log_ratio.lag.abs_mean"), case.series("version_lag.mean")
    if lag.origin != "tokens" or not np.array_equal(lag.steps, old.steps):
        return ""
    behind = old.values > 0
    if not behind.any() or lag.values[behind].any():
        return ""
    return f"tokens on average {old.values[behind].mean():.1f} versions old have a lag term of exactly 0"
