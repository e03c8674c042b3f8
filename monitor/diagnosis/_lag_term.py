"""What a run shows of its lag: whether the policy moved at all, the lag term of the split, and its growth with the version difference."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from monitor.diagnosis import _profiles
from monitor.diagnosis.case import Case
from monitor.diagnosis.outcome import Curve
from monitor.metrics.series import Series

Floats = NDArray[np.float64]
FEWEST = 50  # tokens of one version lag below which its mean is not drawn
SPLIT = ("ess.lag.token", "ess.lag.sequence", "kl.lag.k3", "kl.lag.k1", "kl.lag.k2", "log_ratio.lag.abs_mean", "clip_rate.lag.outside")
CLIPS = ("clip_rate.lag.outside", "clip_rate.lag.effective", "clip_rate.lag.sequence")
VERSIONS = ("version_lag.mean", "version_lag.max")


def unmoved(case: Case) -> str:
    """Why the policy cannot have moved; "" where it may have."""
    for metric, words in (("grad_norm.global", "the gradient norm is 0"), ("learning_rate.value", "the learning rate is 0")):
        values = case.series(metric).values
        finite = values[np.isfinite(values)]
        if len(finite) and not finite.any():
            return f"{words} at all {len(finite)} steps"
    return "the learning rate is set to 0" if case.number("trainer.learning_rate") == 0 else ""


def has_split(case: Case) -> bool:
    """Whether the log separates the lag."""
    return any(np.isfinite(case.series(name).values).any() for name in SPLIT)


def ess_of_lag(case: Case, level: str) -> Series:
    """ESS(lag) at a level; empty where it is not known."""
    return case.series(f"ess.lag.{level}")


def below(found: Series, threshold: float) -> tuple[int, ...]:
    """Steps at which a series is under a threshold."""
    return tuple(int(step) for step in found.steps[found.values < threshold])


def mean_of(found: Series) -> float:
    """Mean over steps; NaN where there is none."""
    values = found.values[np.isfinite(found.values)]
    return float(values.mean()) if len(values) else math.nan


def version_curve(case: Case) -> Curve | None:
    """Mean |log ratio| to the current policy by version lag, and what it is to the policy that sampled; None without versions."""
    if case.portrait is None:
        return None
    whole = case.portrait.whole
    use = whole.total_lag[:, _profiles.N] >= FEWEST
    if use.sum() < 2:  # noqa: PLR2004 - one point is no curve
        return None
    floor = _profiles.abs_mean(whole.lag) if case.portrait.gap.is_discrepancy else np.full(len(use), np.nan)
    floor = np.where(np.isfinite(floor), floor, floor[0])  # where only tokens at version lag 0 show the discrepancy
    return Curve(
        x=tuple(map(float, np.flatnonzero(use))),
        y=tuple(map(float, _profiles.abs_mean(whole.total_lag)[use])),
        x_title="version lag (optimizer steps)",
        y_title="mean |log ratio| to the current policy (nats)",
        expected=tuple(map(float, floor[use])) if np.isfinite(floor[use]).all() else (),
    )
