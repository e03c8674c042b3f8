"""How many tokens have a gap of which size: does everybody share in it, or do a few tokens make all of it?

Only tokens under their response's first weights count, where versions are known: keys and values that outlive a push make heavy tails of
their own. Tokens the engine is certain of are kept apart, since nothing can move a probability of 1 by much.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from monitor.diagnosis._profiles import PLACE_EDGES, SURPRISE_EDGES, table
from monitor.diagnosis._step_tokens import StepTokens

Floats = NDArray[np.float64]

EDGES = 2.0 ** (np.arange(-28, 15) / 2)  # nats: 6e-5 to 128 in steps of sqrt(2); class 0 is below the first, the last above the last
CERTAIN = 0.1  # nats of surprise; below it the engine gave the token more than 90 %


def by_size(tokens: StepTokens) -> Floats:
    """Tokens by |gap|: (2, len(EDGES) + 1), of which the engine was certain (row 0) or not (row 1)."""
    use = tokens.counted & tokens.unswitched
    size = np.searchsorted(EDGES, np.abs(tokens.x[use]), side="right")
    unsure = (-tokens.engine[use] >= CERTAIN).astype(np.int64)
    width = len(EDGES) + 1
    return np.bincount(unsure * width + size, minlength=2 * width).reshape(2, width).astype(float)


def by_place_and_surprise(tokens: StepTokens) -> Floats:
    """Sums of the gap by place in the response and by improbability: (places, surprises, 4), see `_profiles`."""
    use = tokens.counted & tokens.unswitched
    place = np.searchsorted(PLACE_EDGES, tokens.place[use], side="right") - 1
    surprise = np.searchsorted(SURPRISE_EDGES, np.maximum(-tokens.engine[use], 0.0), side="right") - 1
    shape = (len(PLACE_EDGES), len(SURPRISE_EDGES))
    return table(place * shape[1] + surprise, tokens.x[use], shape[0] * shape[1]).reshape(*shape, 4)


def quantile(sizes: Floats, share: float) -> float:
    """|gap| under which a share of the tokens of a row of `by_size` lies, nats, to half a class; NaN without tokens."""
    total = sizes.sum()
    if not total:
        return math.nan
    place = int(np.searchsorted(np.cumsum(sizes), share * total))
    return float(EDGES[0] / 2 if place == 0 else EDGES[place - 1] * 2**0.25)


def beyond(sizes: Floats, nats: float) -> float:
    """Tokens of a row of `by_size` with a larger |gap|; `nats` is rounded to an edge."""
    return float(sizes[int(np.argmin(np.abs(np.log(EDGES / nats)))) + 1 :].sum())
