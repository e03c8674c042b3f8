"""The mean-ratio test of a whole run (definitions, section 7): by its tokens, by logged sums, or by a logged mean and its scatter."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from monitor.metrics.sanity import STANDARD_ERRORS
from monitor.metrics.series import Series, series

Floats = npt.NDArray[np.float64]

# The discrepancy first: its mean is 1 whatever the lag, which only makes the total noisier.
MEANS = ("ratio.discrepancy.mean", "ratio.total.mean")
LOGGED = ("ratio_raw.discrepancy.mean", "ratio.discrepancy.mean", "ratio.total.mean")
SUMS = ("ratio.total.sum", "ratio.total.squared_sum", "tokens.count")
SMALLEST = 1e-3  # the slightest fault of semantics reported moved the mean by .0025 (field report A5), and mending it left .00000
RESOLVED = 3e-3  # standard error beyond which a mean near 1 says little: five of these are what raw log-probabilities moved at T = 0.8
_FEWEST = 5  # logged steps of which a scatter can be taken
_CUT = re.compile(r"\b(truncated|clamped|after (truncation|clamping|masking))\b")


@dataclass(frozen=True, kw_only=True)
class MeanRatio:
    """The mean importance weight of a run, and whether it is the 1 that the sampler's own log-probabilities give."""

    metric: str = ""  # "" where the log cannot tell
    why: str = ""  # why it cannot
    mean: float = np.nan
    error: float = np.nan  # standard error
    basis: str = ""  # of the standard error
    steps: tuple[int, int] = (0, 0)
    first: str = ""  # what the first step says, where it is known to lie before any update; else ""
    cut: bool = False  # the weights were, or may have been, truncated before: then the mean may lie under 1 for that alone

    @property
    def told(self) -> bool:
        """Whether the log can say anything about it."""
        return bool(self.metric)

    @property
    def off(self) -> bool:
        """Whether it is not 1, neither by accident nor by rounding."""
        excess = self.mean - 1
        return self.told and abs(excess) > max(STANDARD_ERRORS * self.error, SMALLEST) and not (self.cut and excess < 0)

    @property
    def below(self) -> bool:
        """Whether it is off downwards, as a cut support makes it."""
        return self.off and self.mean < 1

    @property
    def at_one(self) -> bool:
        """Whether it is seen to be 1, finely enough to have shown a fault."""
        return self.told and not self.off and not self.cut and self.error <= RESOLVED

    def says(self) -> tuple[str, ...]:
        """What was seen, as sentences with metric, value, threshold and steps."""
        if not self.told:
            return (f"mean ratio: {self.why}",)
        where = f"over steps {self.steps[0]} to {self.steps[1]}"
        errors = f"{abs(self.mean - 1) / self.error:.1f}" if self.error > 0 else "0" if self.mean == 1 else "infinitely many"
        limit = f"beyond {STANDARD_ERRORS:g} standard errors and {SMALLEST:g} it is not 1"
        cut = "; the log's ratios may be truncated, which alone takes it under 1" if self.cut else ""
        mean = f"{self.metric} is {self.mean:.5f} ± {self.error:.2g} {where} ({self.basis}), {errors} standard errors from 1; {limit}{cut}"
        return (mean, self.first) if self.first else (mean,)


def mean_ratio(frame: pa.Table, *, void: str = "") -> MeanRatio:
    """The test of one run.

    Args:
        frame: metric frame.
        void: why the test says nothing about this run (`frame.void` of its configuration); empty where it does.
    """
    if void:
        return MeanRatio(why=f"the test is void: {void}")
    for metric in MEANS:
        one = series(frame, metric)
        if one.origin == "tokens" and np.isfinite(one.standard_error).any():
            return _by_tokens(frame, one)
    return _by_sums(frame) or _by_scatter(frame)


def _by_tokens(frame: pa.Table, one: Series) -> MeanRatio:
    """All steps together, each weighted by its tokens (`sanity`); a heavy token widens the error as much as it moves the mean."""
    use = np.isfinite(one.standard_error) & np.isfinite(one.values) & (one.n > 0)
    n, values, error = one.n[use], one.values[use], one.standard_error[use]
    if not n.size:
        return MeanRatio(why="no step of it is a number")
    return MeanRatio(
        metric=one.metric,
        mean=float(1 + (n * (values - 1)).sum() / n.sum()),
        error=float(np.sqrt(((n * error) ** 2).sum()) / n.sum()),
        basis="from tokens",
        steps=(int(one.steps[use][0]), int(one.steps[use][-1])),
        first=_first(frame, one.steps[use], values, error),
    )


def _by_sums(frame: pa.Table) -> MeanRatio | None:
    """From sums of the ratio and of its square over the tokens of a step, as PipelineRL logs them; None where a log has none."""
    total, squares, tokens = (series(frame, metric, origin="logged") for metric in SUMS)
    if not (len(total) and np.array_equal(total.steps, squares.steps) and np.array_equal(total.steps, tokens.steps)):
        return None
    n = tokens.values
    use = np.isfinite(total.values) & np.isfinite(squares.values) & (n > 1)
    if not use.any():
        return None
    n, mean = n[use], total.values[use] / n[use]
    error = np.sqrt(np.maximum(squares.values[use] / n - mean**2, 0.0) / (n - 1))
    return MeanRatio(
        metric=f"{total.metric} / {tokens.metric}",
        mean=float((n * mean).sum() / n.sum()),
        error=float(np.sqrt(((n * error) ** 2).sum()) / n.sum()),
        basis="from logged sums",
        steps=(int(total.steps[use][0]), int(total.steps[use][-1])),
        first=_first(frame, total.steps[use], mean, error),
        cut=bool(_CUT.search(total.caveat)),
    )


def _by_scatter(frame: pa.Table) -> MeanRatio:
    """From a logged mean, whose error is its scatter over steps, taken as independent."""
    found = next((one for metric in LOGGED if len(one := series(frame, metric, origin="logged"))), None)
    if found is None:
        return MeanRatio(why="not in this log; record rollout_logprob and current_logprob")
    finite = np.isfinite(found.values)
    values, steps = found.values[finite], found.steps[finite]
    if values.size < _FEWEST:
        return MeanRatio(why=f"{values.size} logged values of {found.metric}, at least {_FEWEST} are needed")
    return MeanRatio(
        metric=found.metric,
        mean=float(values.mean()),
        error=float(values.std(ddof=1) / np.sqrt(values.size)),
        basis="logged, steps as if independent",
        steps=(int(steps[0]), int(steps[-1])),
        cut=bool(_CUT.search(found.caveat)),
    )


def _first(frame: pa.Table, steps: npt.NDArray[np.int64], means: Floats, errors: Floats) -> str:
    """What the first step says where no weight had moved between sampling and it: only the engine and its report differ there."""
    lag = series(frame, "version_lag.max")
    at = np.flatnonzero(lag.steps == steps[0])
    if not (at.size and lag.values[at[0]] == 0):
        return ""
    return f"at step {steps[0]}, where every token has version lag 0, it is {means[0]:.5f} ± {errors[0]:.2g}"
