"""How many ratios the objective clips: whatever the advantage, only where the gradient is dropped, or per sequence (GSPO)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from monitor.metrics import spread
from monitor.metrics.metric import NEEDS, Metric, StepView, Value
from monitor.metrics.partial import Count, RatioCount
from monitor.metrics.terms import RATIOS, Level, Ratio


def outside(ratio: Ratio, view: StepView) -> Value | None:
    """Share of tokens whose ratio leaves the clip band, whatever their advantage.

    mean(w < 1 - eps_low or w > 1 + eps_high), compared as log ratios. Any ratio. A share in [0, 1]. Per token; shapes x_T -> ().
    0 at no mismatch. Blind to everything inside the band. Empty mask: NaN, n = 0. Standard error: binomial. PPO, arXiv
    1707.06347; definitions, section 3. Oracle: `oracles.clip_outside`.
    """
    counts = view.partial.ratio_counts[ratio.row]
    return spread.share(int(counts[RatioCount.LOW] + counts[RatioCount.HIGH]), int(counts[RatioCount.N]), caveat=_band(view))


def effective(ratio: Ratio, view: StepView) -> Value | None:
    """Share of tokens whose gradient PPO really drops.

    mean((A > 0 and w > 1 + eps_high) or (A < 0 and w < 1 - eps_low)); a share in [0, 1], never above `outside`; 0 at no
    mismatch. Blind to ratios that leave the band on the harmless side. Tokens whose advantage is not finite are left out and
    counted in the caveat. Empty mask: NaN, n = 0. Definitions, section 3. Oracle: `oracles.clip_effective`.
    """
    if not view.complete(Count.ADVANTAGE_ROWS):
        return None
    counts = view.partial.ratio_counts[ratio.row]
    n, left_out = int(counts[RatioCount.ADVANTAGE_N]), int(counts[RatioCount.N] - counts[RatioCount.ADVANTAGE_N])
    note = f"{_band(view)}; {left_out} tokens without a finite advantage left out" if left_out else _band(view)
    return spread.share(int(counts[RatioCount.EFFECTIVE]), n, caveat=note)


def sequence(ratio: Ratio, view: StepView) -> Value | None:
    """Share of responses whose GSPO ratio leaves its much narrower band; read it only beside a reference run.

    mean(w_S outside [1 - low, 1 + high]) with w_S = exp(mean_t x_t); a share in [0, 1]; 0 at no mismatch. No absolute meaning.
    Empty mask: NaN, n = 0. GSPO, arXiv 2507.18071; definitions, section 3. Oracle: `oracles.clip_sequence`.
    """
    low, high = view.bounds.sequence
    x_S = view.log_weights[ratio, Level.SEQUENCE_MEAN]
    band = f"band 1 - {view.bounds.sequence_eps_low:g} to 1 + {view.bounds.sequence_eps_high:g}"
    return spread.share(int(((x_S < low) | (x_S > high)).sum()), len(x_S), caveat=band)


def _band(view: StepView) -> str:
    return f"band 1 - {view.bounds.eps_low:g} to 1 + {view.bounds.eps_high:g}"


def _metric(  # noqa: PLR0913, PLR0917 - the fields in which the three differ
    ratio: Ratio,
    name: str,
    title: str,
    formula: str,
    compute: Callable[[Ratio, StepView], Value | None],
    blind: str,
) -> Metric:
    return Metric(
        id=f"clip_rate.{ratio}.{name}",
        title=f"clip rate ({title}), {ratio}",
        unit="share",
        formula=formula,
        low=0.0,
        high=1.0,
        ratio=ratio,
        level=Level.SEQUENCE_MEAN if name == "sequence" else Level.TOKEN,
        direction="smaller, and like the reference",
        no_mismatch=0.0,
        blind_to=blind,
        reference="arXiv 1707.06347, arXiv 2507.18071; definitions, section 3",
        needs=(*NEEDS[ratio], "advantage") if name == "effective" else NEEDS[ratio],
        compute=partial(compute, ratio),
    )


def _metrics(ratio: Ratio) -> tuple[Metric, ...]:
    dropped = "mean((A > 0 and w > 1 + high) or (A < 0 and w < 1 - low))"
    return (
        _metric(ratio, "outside", "outside the band", "mean(w < 1 - low or w > 1 + high)", outside, "everything inside the band"),
        _metric(ratio, "effective", "gradient dropped", dropped, effective, "ratios that leave on the harmless side"),
        _metric(ratio, "sequence", "per sequence", "mean(exp(mean_t x) outside its band)", sequence, "tokens that cancel in a response"),
    )


METRICS = tuple(metric for ratio in RATIOS for metric in _metrics(ratio))
