"""How stale the tokens are: optimizer steps between the weights that sampled a token and the weights being updated."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from monitor.metrics import spread
from monitor.metrics.metric import Metric, StepView, Value
from monitor.metrics.partial import LAG_BINS, NO_HIGHEST, Count, Version
from monitor.metrics.terms import Level

NEEDS = ("rollout_version", "trainer_version")
SHARES = ("negative", *map(str, range(LAG_BINS - 2)), "over_64")  # names of the lag bins, in their order


def mean(view: StepView) -> Value | None:
    """Average staleness of the batch.

    mean(trainer_version - rollout_version) over masked-in tokens, in optimizer steps; 0 where every token was sampled by the
    newest weights. Negative values mean wrong versions. Blind to how much a step changed the weights. Empty mask: NaN, n = 0.
    Definitions, section 6. Oracle: `oracles.version_lag`.
    """
    n = _n(view)
    if not view.partial.counts[Count.LAG_ROWS]:
        return None
    return Value(value=int(view.partial.counts[Count.LAG_SUM]) / n if n else math.nan, n=n)


def highest(view: StepView) -> Value | None:
    """Lag of the stalest masked-in token, in optimizer steps, exact at any size. Empty mask: NaN, n = 0. Oracle: `oracles.version_lag`."""
    n = _n(view)
    if not view.partial.counts[Count.LAG_ROWS]:
        return None
    return Value(value=float(view.partial.highest[Version.LAG]) if n else math.nan, n=n)


def share(place: int, view: StepView) -> Value | None:
    """Share of masked-in tokens at one lag; emitted only for lags that occur in the step. Oracle: `oracles.version_lag`."""
    count = int(view.partial.lag_bins[place])
    return spread.share(count, _n(view)) if count else None


def spanning(view: StepView) -> Value | None:
    """Share of responses that were sampled by several versions, because weights were updated in flight.

    mean(max_t rollout_version > min_t rollout_version) over responses with a masked-in token; a share in [0, 1]; 0 without
    in-flight updates. Blind to how many tokens lie on each side. Empty mask: NaN, n = 0. Definitions, section 6. Oracle:
    `oracles.version_spanning`.
    """
    if not view.partial.counts[Count.ROLLOUT_VERSION_ROWS]:
        return None
    table = view.partial.sequences
    seen = table["version_highest"] > NO_HIGHEST
    several = seen & (table["version_highest"] > table["version_lowest"])
    return spread.share(int(several.sum()), int(seen.sum()))


def _n(view: StepView) -> int:
    return int(view.partial.lag_bins.sum())


def _metric(name: str, title: str, formula: str, compute: Callable[[StepView], Value | None], *, unit: str = "share") -> Metric:
    return Metric(
        id=f"version_lag.{name}",
        title=title,
        unit=unit,
        formula=formula,
        low=0.0,
        high=1.0 if unit == "share" else math.inf,
        level=Level.SEQUENCE if name == "spanning" else Level.TOKEN,
        direction="smaller",
        no_mismatch=1.0 if name == "share_0" else 0.0,
        blind_to="how much each optimizer step changed the weights",
        reference="definitions, section 6",
        needs=NEEDS[:1] if name == "spanning" else NEEDS,
        compute=compute,
    )


def _share(place: int, name: str) -> Metric:
    words = name.replace("_", " ")
    return _metric(f"share_{name}", f"tokens at version lag {words}", f"mean(version lag is {words})", partial(share, place))


METRICS = (
    _metric("mean", "mean version lag", "mean(trainer_version - rollout_version)", mean, unit="optimizer steps"),
    _metric("max", "largest version lag", "max(trainer_version - rollout_version)", highest, unit="optimizer steps"),
    _metric("spanning", "responses over several versions", "mean(max_t rollout_version > min_t rollout_version)", spanning),
    *(_share(place, name) for place, name in enumerate(SHARES)),
)
