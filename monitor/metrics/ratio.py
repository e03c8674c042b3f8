"""The mean-ratio test: whether the recorded log-probabilities are those the tokens were sampled with."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from monitor.metrics.metric import NEEDS, Metric, StepView, Value
from monitor.metrics.terms import RATIOS, Level, Ratio

LAG_NOTE = "tokens come from the engine, so the mean of the lag ratio is 1 only where the discrepancy is 0"


def mean(ratio: Ratio, view: StepView) -> Value | None:
    """Whether importance weights average to 1, as they must when the engine's recorded log-probabilities are the sampler's.

    mean(exp(x_T)). Total and discrepancy: 1 for any policy and any weights (definitions, section 7); lag: only where the
    discrepancy is 0. No unit, at least 0, inf where it leaves float64. Per token; shapes x_T -> (). 1 at no mismatch. Blind to a
    trainer that forgets the temperature, and to rows filtered after sampling (then the test is void, and the caveat says so).
    Empty mask: NaN, n = 0. Standard error: under the null, w_t - 1 has mean zero given everything sampled before it (a
    martingale difference), so tokens are uncorrelated and the iid standard error is right although tokens of a response depend
    on each other. Oracle: `oracles.ratio_mean`.
    """
    weights = view.weights[ratio, Level.TOKEN]
    return Value(value=1 + weights.excess, n=weights.n, standard_error=weights.standard_error, caveat=_caveat(ratio, view))


def z(ratio: Ratio, view: StepView) -> Value | None:
    """How many standard errors the mean ratio lies from 1.

    (mean(w) - 1) / standard error; no unit, any real; about N(0, 1) at no mismatch, 0 where all weights are 1, infinite where
    they are equal and not 1. Heavy tails break it: read it beside `largest_share`. Not emitted under two tokens and where the
    test is void. Definitions, section 7. Oracle: `oracles.ratio_z`.
    """
    weights = view.weights[ratio, Level.TOKEN]
    found = None if view.void else weights.z
    return None if found is None else Value(value=found, n=weights.n, caveat=_caveat(ratio, view))


def largest_share(ratio: Ratio, view: StepView) -> Value | None:
    """How much of the mean ratio one single token makes up; a large share means that the mean cannot be trusted.

    max(w_T) / sum(w_T), in (0, 1]; 1/n at no mismatch. Empty mask: NaN, n = 0. Definitions, section 7. Oracle:
    `oracles.ratio_largest_share`.
    """
    weights = view.weights[ratio, Level.TOKEN]
    return Value(value=weights.largest_share, n=weights.n)


def _caveat(ratio: Ratio, view: StepView) -> str:
    void = f"mean-ratio test void: {view.void}" if view.void else ""
    return "; ".join(filter(None, (void, LAG_NOTE if ratio is Ratio.LAG else "")))


def _metric(  # noqa: PLR0913, PLR0917 - the fields in which the three differ
    ratio: Ratio,
    name: str,
    title: str,
    formula: str,
    compute: Callable[[Ratio, StepView], Value | None],
    direction: str,
    no_mismatch: float | None,
    low: float,
    high: float,
    blind: str,
) -> Metric:
    return Metric(
        id=f"ratio.{ratio}.{name}",
        title=f"{title}, {ratio}",
        unit="",
        formula=formula,
        low=low,
        high=high,
        ratio=ratio,
        direction=direction,
        no_mismatch=no_mismatch,
        blind_to=blind,
        reference="definitions, section 7",
        needs=NEEDS[ratio],
        compute=partial(compute, ratio),
    )


def _metrics(ratio: Ratio) -> tuple[Metric, ...]:
    forgets = "a trainer that forgets the temperature; rows filtered after sampling"
    mean_row = ("mean", "mean ratio", "mean(exp(x))", mean, "nearer to 1", 1.0, 0.0, np.inf, forgets)
    z_row = ("z", "mean-ratio test", "(mean(exp(x)) - 1) / standard error", z, "within 3 of 0", 0.0, -np.inf, np.inf, "heavy tails")
    share_row = (
        "largest_share",
        "share of the largest ratio",
        "max(w) / sum(w)",
        largest_share,
        "smaller",
        None,
        0.0,
        1.0,
        "a common scale",
    )
    return tuple(_metric(ratio, *row) for row in (mean_row, z_row, share_row))


METRICS = tuple(metric for ratio in RATIOS for metric in _metrics(ratio))
