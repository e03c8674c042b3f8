"""Effective sample size of the importance weights, at three levels for each of the three ratios."""

from __future__ import annotations

from functools import partial

from monitor.metrics.metric import NEEDS, Metric, StepView, Value
from monitor.metrics.partial import Count
from monitor.metrics.terms import RATIOS, Level, Ratio

SATURATED_WITHIN = 1e-9  # relative distance from 1/n at which one weight is all there is
LEVELS = {
    Level.TOKEN: ("w = exp(x_t)", "sequence lengths: a token level of 0.999 may be a sequence level of 0.4"),
    Level.SEQUENCE: ("w = exp(sum_t x_t)", "nothing longer than a response; plain noise alone lowers it with length"),
    Level.SEQUENCE_MEAN: ("w = exp(mean_t x_t)", "noise that averages out in a response"),
}


def ess(ratio: Ratio, level: Level, view: StepView) -> Value | None:
    """Which share of the sample still carries weight after importance weighting.

    (sum w)^2 / (n sum w^2), w = exp(x_t), exp(sum_t x_t) or exp(mean_t x_t). Any ratio; the lag ratio at 1/2 is the one to act
    on. A fraction in [1/n, 1]. Shapes x_T or x_S -> (). 1 at no mismatch. Blind to a constant offset (scale cancels), to a tail
    truncated before measuring, and to any mismatch that is not in the sampled tokens. Near 1 the digits of 1 - ESS are kept;
    no |x| overflows it. A sequence cut over parts is one sequence, fully masked ones do not count. At its floor 1/n it is
    saturated, and the caveat says so. Empty mask: NaN, n = 0. Kong 1992; definitions, section 5. Oracle: `oracles.ess`.
    """
    if level is not Level.TOKEN and not view.complete(*_columns(ratio, view)):
        return None  # a sequence whose parts differ in their columns has no weight of its own
    weights = view.weights[ratio, level]
    saturated = weights.n > 1 and weights.ess * weights.n <= 1 + SATURATED_WITHIN
    return Value(value=weights.ess, n=weights.n, caveat="saturated at its floor 1/n: one weight carries everything" if saturated else "")


def truncation_floor(low: float, high: float) -> float:
    """The value that the ESS of weights truncated to [low, high] cannot fall under, whatever the weights were.

    4 low high / (low + high)^2 (Kantorovich's inequality): 0.64 for [1/2, 2], no floor for [0, high]. Definitions, section 5.
    """
    if not 0 <= low <= high or high <= 0:
        raise ValueError(f"weights are truncated to 0 <= low <= high, high > 0; found [{low}, {high}]")
    return 4 * low * high / (low + high) ** 2


def floor_sentence(key: str, *, low: float, high: float, threshold: float) -> str:
    """Why an alert on a logged ESS cannot fire; empty where it can."""
    floor = truncation_floor(low, high)
    if floor <= threshold:
        return ""
    band = f"its weights were truncated to [{low:g}, {high:g}], so it cannot fall under {floor:.4g}"
    return f"an alert at {threshold:g} can never fire on {key}: {band}"


def _columns(ratio: Ratio, view: StepView) -> tuple[Count, ...]:
    generator = Count.SAME_WEIGHTS_ROWS if view.complete(Count.SAME_WEIGHTS_ROWS) else Count.OLD_ROWS
    return {
        Ratio.TOTAL: (Count.ROLLOUT_ROWS, Count.CURRENT_ROWS),
        Ratio.DISCREPANCY: (Count.ROLLOUT_ROWS, generator),
        Ratio.LAG: (generator, Count.CURRENT_ROWS),
    }[ratio]


def _metric(ratio: Ratio, level: Level) -> Metric:
    formula, blind = LEVELS[level]
    return Metric(
        id=f"ess.{ratio}.{level}",
        title=f"ESS ({level.replace('_', ' ')} level), {ratio}",
        unit="fraction",
        formula=f"(sum w)^2 / (n sum w^2), {formula}",
        low=0.0,
        high=1.0,
        ratio=ratio,
        level=level,
        direction="nearer to 1; act on the lag ratio at 1/2",
        no_mismatch=1.0,
        blind_to=f"a constant offset; a tail truncated before measuring; tokens that were not sampled; {blind}",
        reference="Kong 1992; definitions, section 5",
        needs=NEEDS[ratio],
        compute=partial(ess, ratio, level),
    )


METRICS = tuple(_metric(ratio, level) for ratio in RATIOS for level in LEVELS)
