"""How far apart the log-probabilities are, token by token: mean, spread, extremes and quantiles of each log ratio."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from monitor.metrics import histogram, spread
from monitor.metrics.metric import NEEDS, Metric, StepView, Value
from monitor.metrics.partial import RatioCount, RatioSum
from monitor.metrics.terms import RATIOS, Ratio

QUANTILES = (0.01, 0.05, 0.50, 0.95, 0.99)


def mean(ratio: Ratio, view: StepView) -> Value | None:
    """Where the log ratio sits on average.

    mean(x_T). Any of the three ratios, positive where the second policy is the more certain. Nats, any real. Per token; shapes
    x_T -> (). 0 where the policies agree. Blind to differences that cancel. Empty mask: NaN, n = 0. Definitions, section 2.
    Standard error: sd / sqrt(n), tokens taken as independent. Oracle: `oracles.log_ratio_mean`.
    """
    return _mean(ratio, view, RatioSum.X)


def abs_mean(ratio: Ratio, view: StepView) -> Value | None:
    """How large the log ratio is whatever its sign, which nothing can cancel.

    mean(|x_T|), nats, at least 0; 0 where the policies agree; says no direction. Empty mask: NaN, n = 0. Definitions, section 2.
    Oracle: `oracles.log_ratio_abs_mean`.
    """
    return _mean(ratio, view, RatioSum.ABS)


def deviation(ratio: Ratio, view: StepView) -> Value | None:
    """How much the log ratio scatters over tokens.

    sqrt(mean(x_T^2) - mean(x_T)^2): the population's, divided by n and not by n - 1. Nats, at least 0. 0 at no mismatch; blind to a
    constant offset. A spread under 1e-7 of the offset is below what the sums resolve and comes out 0. Healthy noise obeys
    mean = -sd^2/2. Empty mask: NaN, n = 0. Definitions, section 7. Oracle: `oracles.log_ratio_sd`.
    """
    n, sums = _n(ratio, view), view.partial.ratio_sums[ratio.row]
    if n == 0:
        return Value(value=math.nan, n=0)
    return Value(value=math.sqrt(spread.variance(n, sums[RatioSum.X], sums[RatioSum.X2])), n=n)


def lowest(ratio: Ratio, view: StepView) -> Value | None:
    """The smallest log ratio of a finite masked-in token, exact, in nats. Empty mask: NaN, n = 0. Oracle: `oracles.log_ratio_min`."""
    n = _n(ratio, view)
    return Value(value=float(view.partial.ratio_lowest[ratio.row]) if n else math.nan, n=n)


def highest(ratio: Ratio, view: StepView) -> Value | None:
    """The largest log ratio of a finite masked-in token, exact, in nats. Empty mask: NaN, n = 0. Oracle: `oracles.log_ratio_max`."""
    n = _n(ratio, view)
    return Value(value=float(view.partial.ratio_highest[ratio.row]) if n else math.nan, n=n)


def quantile(q: float, ratio: Ratio, view: StepView) -> Value | None:
    """The log ratio under which a share q of the tokens lies, from the float-bits histogram.

    The value of rank ceil(q n); relative error at most 1/33 for magnitudes between 2^-24 and 2^8 nats, exact at 0. Nats. 0 at no
    mismatch. Empty mask: NaN, n = 0. DDSketch, arXiv 1908.10693; definitions, section 9. Oracle: `oracles.log_ratio_quantile`.
    """
    place, n = ratio.row, _n(ratio, view)
    found = view.partial
    low, high = float(found.ratio_lowest[place]), float(found.ratio_highest[place])
    return Value(value=histogram.quantile(found.histograms[place], q, low, high), n=n)


def _mean(ratio: Ratio, view: StepView, total: RatioSum) -> Value:
    sums = view.partial.ratio_sums[ratio.row]
    return spread.mean(_n(ratio, view), float(sums[total]), float(sums[RatioSum.X2]))


def _n(ratio: Ratio, view: StepView) -> int:
    return int(view.partial.ratio_counts[ratio.row][RatioCount.N])


def _metric(  # noqa: PLR0913, PLR0917 - the fields in which the rows differ
    ratio: Ratio,
    name: str,
    title: str,
    formula: str,
    compute: Callable[[Ratio, StepView], Value | None],
    blind: str,
) -> Metric:
    return Metric(
        id=f"log_ratio.{ratio}.{name}",
        title=f"{title} log ratio, {ratio}",
        unit="nats",
        formula=formula,
        low=0.0 if name in {"abs_mean", "sd"} else -np.inf,
        ratio=ratio,
        direction="nearer to 0",
        no_mismatch=0.0,
        blind_to=blind,
        reference="definitions, sections 2 and 9",
        needs=NEEDS[ratio],
        compute=partial(compute, ratio),
    )


def _metrics(ratio: Ratio) -> tuple[Metric, ...]:
    return (
        _metric(ratio, "mean", "mean", "mean(x)", mean, "differences that cancel"),
        _metric(ratio, "abs_mean", "mean absolute", "mean(|x|)", abs_mean, "the direction"),
        _metric(
            ratio,
            "sd",
            "standard deviation of the",
            "sqrt(mean(x^2) - mean(x)^2), divided by n, not n - 1",
            deviation,
            "a constant offset",
        ),
        _metric(ratio, "min", "smallest", "min(x)", lowest, "everything but one token"),
        _metric(ratio, "max", "largest", "max(x)", highest, "everything but one token"),
        *(
            _metric(
                ratio,
                f"p{round(q * 100):02d}",
                f"{round(q * 100)} % quantile of the",
                f"x of rank ceil({q} n)",
                partial(quantile, q),
                "the tail beyond it",
            )
            for q in QUANTILES
        ),
    )


METRICS = tuple(metric for ratio in RATIOS for metric in _metrics(ratio))
