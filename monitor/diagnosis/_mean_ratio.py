"""Is the mean of exp(trainer - engine) 1, as it must be for log-probabilities under which the tokens were really sampled? With what error?

The identity holds for any trainer, whatever its weights, precision or lag, as long as the sampler could have drawn every token
(definitions, section 7). From tokens the error is taken over responses. From a step log it is the scatter over steps, and where sums of
squares are logged never less than what these say.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from monitor.diagnosis.case import Case
from monitor.diagnosis.portrait import Portrait, StepPortrait
from monitor.metrics.series import Series

Floats = NDArray[np.float64]
Steps = NDArray[np.int64]

LOGGED = ("ratio_raw.discrepancy.mean", "ratio.discrepancy.mean", "ratio_raw.total.mean", "ratio.total.mean")
SUMS = ("ratio.total.sum", "ratio.total.squared_sum", "tokens.count")
KL = ("kl.discrepancy", "kl.total")  # of which k1 and k3 together give a mean ratio
TOLD_BY = (*LOGGED, SUMS[0], *(f"{kl}.k3" for kl in KL))  # metrics of which one must be there
FEWEST = 8  # steps whose scatter gives an error
FRESH = 5  # first steps whose mean gap a step log is asked for
PAIRS, LAGGED_PAIRS, TOKENS, MOST = 100, 30, 1000, 10  # how much the first steps must hold, and how many there may be
EXACT = 1e-6  # values that agree to this are the same number
CAPS = (2.0, 3.0, 4.0, 5.0, 10.0)  # usual upper bounds of an importance ratio, where the settings do not say
_CUT = ("truncat", "clamp", "mask", "clipp")  # words of a caveat: large ratios may be missing from the mean


@dataclass(frozen=True, kw_only=True)
class MeanRatio:
    """The mean ratio of a run with its error, and the mean gap at equal weights."""

    mean: float
    error: float  # standard error; NaN where nothing gives one
    gap: float  # mean trainer - engine, nats, at steps without lag; NaN where the log has none
    size: float  # mean |trainer - engine| of the same tokens; NaN where it is not known
    early: float  # mean ratio of the same tokens
    metric: str
    origin: str  # tokens or logged
    steps: tuple[int, ...]  # first and last
    cut: bool = False  # large ratios may have been cut before the mean was taken: it is then too low, never too high
    cap: float = math.nan  # the value that the ratios sit on; NaN where they do not

    @property
    def excess(self) -> float:
        """Mean ratio - 1."""
        return self.mean - 1

    @property
    def z(self) -> float:
        """Its distance from 1 in standard errors; NaN without an error."""
        if self.error == 0:
            return math.copysign(math.inf, self.excess) if abs(self.excess) > EXACT else 0.0
        return self.excess / self.error

    @property
    def one_sided(self) -> float:
        """How much of the gap has one sign: -1 where all of it is below 0, 1 above, about 0 for noise."""
        return self.gap / self.size if self.size else math.nan

    @property
    def tail(self) -> float:
        """Mean gap over the logarithm of the mean ratio: 1 for a gap of little spread, far more where a few tokens make it."""
        logarithm = math.log(self.early) if self.early > 0 else math.nan
        return self.gap / logarithm if logarithm else math.nan

    @property
    def words(self) -> str:
        """The number with its error, as it is written in a sentence."""
        error = f" ± {self.error:.2g}" if math.isfinite(self.error) else ""
        return f"{self.mean:.{_digits(self.error)}f}{error}"


def mean_ratio(case: Case) -> MeanRatio | None:
    """From the tokens where they show a gap, else from the step log; None where neither has it."""
    if case.portrait and case.portrait.whole.n:
        return _of_tokens(case, case.portrait)
    return _of_log(case)


def first_steps(portrait: Portrait) -> StepPortrait:
    """The first steps, as many as it takes to see something: before updates could pull the two sides apart."""
    need = PAIRS if portrait.gap.is_discrepancy else LAGGED_PAIRS
    chosen: list[int] = []
    pairs = tokens = 0.0
    for step, one in portrait.steps.items():
        chosen.append(step)
        pairs, tokens = pairs + one.prefix.pairs, tokens + one.n
        if pairs >= need or (not pairs and tokens >= TOKENS) or len(chosen) == MOST:
            break
    return portrait.of(chosen)


def _of_tokens(case: Case, portrait: Portrait) -> MeanRatio:
    whole = portrait.whole
    same = portrait.gap.is_discrepancy
    clean = whole if same else first_steps(portrait)
    steps = list(portrait.steps)
    constant = whole.sd < EXACT
    return MeanRatio(
        mean=whole.mean_ratio,
        error=whole.mean_ratio_error,
        gap=clean.mean,
        size=clean.abs_mean,
        early=clean.mean_ratio,
        metric=f"ratio.{'discrepancy' if same else 'total'}.mean",
        origin="tokens",
        steps=(steps[0], steps[-1]),
        cap=_cap(case, whole.mean_ratio) if constant else math.nan,
    )


def _of_log(case: Case) -> MeanRatio | None:
    total, squares, tokens = (case.series(name) for name in SUMS)
    if len(total) and np.array_equal(total.steps, tokens.steps) and case.series(*LOGGED[:2]).origin == "":
        n = tokens.values
        values, metric, caveat, steps = total.values / n, "ratio.total.mean", total.caveat, total.steps
        second = squares.values / n if np.array_equal(squares.steps, total.steps) else np.full(len(n), np.nan)
        own = np.sqrt(np.maximum(second - values**2, 0.0) / n)
    else:
        found = case.series(*LOGGED)
        found = found if len(found) else _from_kl(case) or found
        values, metric, caveat, steps = found.values, found.metric, found.caveat, found.steps
        n, own = np.ones(len(values)), np.full(len(values), np.nan)
    usable = np.isfinite(values) & (n > 0)
    if not usable.any():
        return None
    mean, error = _pooled(values[usable], n[usable], own[usable])
    gap, size, at = _without_lag(case, metric)
    early = values[usable & np.isin(steps, at)]
    return MeanRatio(
        mean=mean,
        error=error,
        gap=gap,
        size=size,
        early=float(early.mean()) if len(early) else mean,
        metric=metric,
        origin="logged",
        steps=(int(steps[usable][0]), int(steps[usable][-1])),
        cut=any(word in caveat.lower() for word in _CUT),
        cap=_logged_cap(case, metric, mean),
    )


def _from_kl(case: Case) -> Series | None:
    """1 + k3 - k1, which is the mean ratio: k3 = mean(w - 1 - x) and k1 = mean(-x); None without both at the same steps."""
    for kl in KL:
        k1, k3 = case.series(f"{kl}.k1"), case.series(f"{kl}.k3")
        if len(k1) and np.array_equal(k1.steps, k3.steps):
            return replace(k3, metric=f"ratio.{kl.removeprefix('kl.')}.mean", values=1 + k3.values - k1.values)
    return None


def _pooled(values: Floats, n: Floats, own: Floats) -> tuple[float, float]:
    """Mean over steps, each by its weight, and the larger of the two errors that can be had."""
    share = n / n.sum()
    mean = float((share * values).sum())
    within = math.hypot(*(share * own))  # squares of what a log may hold overflow
    if len(values) < FEWEST:
        return mean, within
    residual = share * (values - mean)
    between = math.hypot(*residual) * math.sqrt(len(values) / (len(values) - 1))
    return mean, max(between, within) if math.isfinite(within) else between


def _without_lag(case: Case, metric: str) -> tuple[float, float, Steps]:
    """Mean gap and mean |gap| of the first steps that have no lag in them, and these steps; NaN where there are none."""
    ratio = "discrepancy" if ".discrepancy." in metric or case.has("log_ratio.discrepancy.mean") else "total"
    mean, size = case.series(f"log_ratio.{ratio}.mean"), case.series(f"log_ratio.{ratio}.abs_mean")
    if not len(mean):
        k1 = case.series(f"kl.{ratio}.k1")
        mean = replace(k1, values=-k1.values)
    at = mean.steps[np.isfinite(mean.values)]
    if ratio == "total":
        lag = case.series("version_lag.max", "version_lag.mean")
        at = np.intersect1d(at, lag.steps[lag.values == 0])
    at = at[:FRESH]
    return _at(mean, at), _at(size, at), at


def _at(one: Series, steps: Steps) -> float:
    values = one.values[np.isin(one.steps, steps)]
    return float(values.mean()) if len(values) else math.nan


def _cap(case: Case, value: float) -> float:
    """The bound that a value sits on; NaN where it sits on none."""
    told = case.number("correction.cap")
    return next((cap for cap in ((told,) if told else CAPS) if abs(value - cap) < EXACT), math.nan)


def _logged_cap(case: Case, metric: str, mean: float) -> float:
    most = case.series(metric.replace(".mean", ".max")).values
    most = most[np.isfinite(most)]
    if not len(most):
        return _cap(case, mean)
    return _cap(case, float(most.max())) if len(most) == 1 or np.median(most) == most.max() else math.nan


def _digits(error: float) -> int:
    return min(6, max(3, 1 - math.floor(math.log10(error)))) if 0 < error < math.inf else 4
