"""KL divergence of the pair each log ratio compares, by Schulman's three estimators; samples come from the engine."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from monitor.metrics import spread
from monitor.metrics.metric import NEEDS, Metric, StepView, Value
from monitor.metrics.partial import RatioCount, RatioSum
from monitor.metrics.terms import RATIOS, Ratio


def k1(ratio: Ratio, view: StepView) -> Value | None:
    """KL(mu || pi) as the mean of -x: unbiased, signed, noisy.

    mean(-x_T). Total: KL(engine || trainer); the same form for the other ratios. Nats, any real although the KL is not negative.
    Per token; shapes x_T -> (). 0 at no mismatch. Blind to differences that cancel in the sample. Empty mask: NaN, n = 0.
    joschu.net/blog/kl-approx.html; definitions, section 4. Oracle: `oracles.k1`.
    """
    n, sums = _sums(ratio, view)
    found = spread.mean(n, -float(sums[RatioSum.X]), float(sums[RatioSum.X2]))
    return Value(value=found.value + 0.0, n=n, standard_error=found.standard_error)  # + 0.0: no negative zero


def k2(ratio: Ratio, view: StepView) -> Value | None:
    """KL(mu || pi) as half the mean square: biased, never negative, little noise.

    mean(x_T^2) / 2, nats, at least 0; 0 at no mismatch; no direction. Empty mask: NaN, n = 0. Definitions, section 4.
    Oracle: `oracles.k2`.
    """
    n, sums = _sums(ratio, view)
    return spread.mean(n, float(sums[RatioSum.X2]) / 2, float(sums[RatioSum.X4]) / 4)


def k3(ratio: Ratio, view: StepView) -> Value | None:
    """KL(mu || pi) as the mean of w - 1 - x: unbiased where the support is full, never negative.

    mean(exp(x_T) - 1 - x_T), without cancellation down to x = 1e-30. Nats, at least 0, inf where it leaves float64. 0 at no
    mismatch. Blind to tokens the engine never samples. Empty mask: NaN, n = 0. Definitions, section 4. Oracle: `oracles.k3`.
    """
    n, sums = _sums(ratio, view)
    return spread.mean(n, float(sums[RatioSum.K3]), float(sums[RatioSum.K3_SQ]))


def _sums(ratio: Ratio, view: StepView) -> tuple[int, np.ndarray[tuple[int], np.dtype[np.float64]]]:
    return int(view.partial.ratio_counts[ratio.row][RatioCount.N]), view.partial.ratio_sums[ratio.row]


def _metric(ratio: Ratio, name: str, formula: str, compute: Callable[[Ratio, StepView], Value | None], blind: str) -> Metric:
    pair = {Ratio.TOTAL: "engine ‖ trainer", Ratio.DISCREPANCY: "engine ‖ trainer at the same weights", Ratio.LAG: "old ‖ new weights"}
    return Metric(
        id=f"kl.{ratio}.{name}",
        title=f"KL {name}, {ratio} ({pair[ratio]})",
        unit="nats",
        formula=formula,
        low=-np.inf if name == "k1" else 0.0,
        ratio=ratio,
        direction="smaller",
        no_mismatch=0.0,
        blind_to=blind,
        reference="joschu.net/blog/kl-approx.html; definitions, section 4",
        needs=NEEDS[ratio],
        compute=partial(compute, ratio),
    )


METRICS = tuple(
    metric
    for ratio in RATIOS
    for metric in (
        _metric(ratio, "k1", "mean(-x)", k1, "differences that cancel in the sample"),
        _metric(ratio, "k2", "mean(x^2) / 2", k2, "the direction; it is biased for large x"),
        _metric(ratio, "k3", "mean(exp(x) - 1 - x)", k3, "tokens the engine never samples"),
    )
)
