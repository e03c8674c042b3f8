"""Which of the two causes makes up the mismatch: engine against trainer, or new weights against old."""

from __future__ import annotations

import math
from functools import partial

from monitor.metrics.metric import NEEDS, Metric, StepView, Value
from monitor.metrics.partial import RatioCount, RatioSum
from monitor.metrics.terms import Ratio


def share(ratio: Ratio, view: StepView) -> Value | None:
    """How much of the mismatch one term of the split carries, also where the terms cancel in the total.

    abs_mean of the term over the sum of both abs_means; a share in [0, 1], the two add to 1. Per token; shapes x_T -> ().
    Undefined (not emitted) where both terms are 0. Blind to the size of the mismatch. Empty mask: NaN, n = 0. Only where the
    split is exact or synchronous. Terms as in definitions, section 2. Oracle: `oracles.split_share`.
    """
    if not view.shows(Ratio.LAG):
        return None
    found = view.partial
    n = int(found.ratio_counts[ratio.row][RatioCount.N])
    sizes = {term: float(found.ratio_sums[term.row][RatioSum.ABS]) for term in (Ratio.DISCREPANCY, Ratio.LAG)}
    both = sum(sizes.values())
    if n and not both:
        return None
    return Value(value=sizes[ratio] / both if n else math.nan, n=n)


def _metric(ratio: Ratio) -> Metric:
    return Metric(
        id=f"split.{ratio}.share",
        title=f"share of the mismatch that is {ratio}",
        unit="share",
        formula=f"mean(|x_{ratio}|) / (mean(|x_discrepancy|) + mean(|x_lag|))",
        low=0.0,
        high=1.0,
        ratio=ratio,
        direction="says which cause to look at, not how bad it is",
        no_mismatch=None,
        blind_to="the size of the mismatch",
        reference="the two absolute means of definitions, section 2, as shares of their sum",
        needs=tuple(dict.fromkeys((*NEEDS[Ratio.DISCREPANCY], *NEEDS[Ratio.LAG]))),
        compute=partial(share, ratio),
    )


METRICS = (_metric(Ratio.DISCREPANCY), _metric(Ratio.LAG))
