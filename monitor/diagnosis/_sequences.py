"""A row per response: how far its two sides are apart, from which token on, and in its last one."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from monitor.diagnosis._step_tokens import StepTokens

Floats = NDArray[np.float64]
EXTREME = 3.0  # nats: a token twenty times as probable on one side as on the other; bfloat16 noise stays far below (field report A8)


@dataclass(frozen=True, kw_only=True, eq=False)
class Sequences:
    """Arrays (S,) over the responses of one step, or of several."""

    step: NDArray[np.int64]
    sample_id: NDArray[np.int64]
    group_id: NDArray[np.int64]  # or length 0
    n: Floats  # tokens that show the gap
    x: Floats  # sum of the gap, nats
    abs_x: Floats  # sum of |gap|
    weight: Floats  # sum of expm1(gap)
    exp_abs: Floats  # sum of expm1(|gap|)
    worst: Floats  # largest |gap|
    onset: Floats  # place of the first token with |gap| > EXTREME; NaN where there is none
    before: Floats  # mean |gap| before it
    after: Floats  # mean |gap| after it, without the token itself
    last: Floats  # |gap| of the last token; NaN where it does not show it

    @property
    def abs_mean(self) -> Floats:
        """Mean |gap| of each response, nats; NaN without tokens."""
        return _ratio(self.abs_x, self.n)

    @property
    def multiplicative_error(self) -> Floats:
        """Mean exp|gap| of each response; NaN without tokens."""
        return 1 + _ratio(self.exp_abs, self.n)

    def ratio_error(self, n: float) -> float:
        """Standard error of the mean ratio over n tokens, responses being independent; NaN with fewer than two."""
        return _clustered(self.weight, self.n, n)


def sequences(tokens: StepTokens) -> Sequences:
    """The table of one step."""
    count, x, show = len(tokens.starts), tokens.x, tokens.counted
    size = np.abs(x)
    with np.errstate(over="ignore"):
        sums = {
            "n": show.astype(float),
            "x": x,
            "abs_x": size,
            "weight": np.where(show, np.expm1(x), 0.0),
            "exp_abs": np.where(show, np.expm1(size), 0.0),
        }
    added: dict[str, Floats] = {
        name: np.bincount(tokens.sequence, weights=values, minlength=count).astype(float) for name, values in sums.items()
    }
    worst = np.maximum.reduceat(size, tokens.starts)
    onset, before, after = _onset(tokens, size, added["abs_x"], added["n"])
    ends = tokens.starts + tokens.lengths - 1
    return Sequences(
        step=np.full(count, tokens.step),
        sample_id=tokens.sample_id,
        group_id=np.asarray(tokens.group_id, np.int64),
        **added,
        worst=worst,
        onset=onset,
        before=before,
        after=after,
        last=np.where(show[ends], size[ends], np.nan),
    )


def _onset(tokens: StepTokens, size: Floats, total: Floats, n: Floats) -> tuple[Floats, Floats, Floats]:
    """Place of the first extreme token of each response, and the mean |gap| before and after it; NaN where there is none."""
    extreme = np.flatnonzero(size > EXTREME)
    rows, first = np.unique(tokens.sequence[extreme], return_index=True)
    at = extreme[first]
    running, shown = np.cumsum(size), np.cumsum(tokens.counted.astype(float))
    start = tokens.starts[rows]
    sum_before = running[at] - size[at] - (running[start] - size[start])
    n_before = shown[at] - tokens.counted[at] - (shown[start] - tokens.counted[start])
    sum_after, n_after = total[rows] - sum_before - size[at], n[rows] - n_before - 1
    result = [np.full(len(n), np.nan) for _ in range(3)]
    for values, found in zip(result, (tokens.place[at], _ratio(sum_before, n_before), _ratio(sum_after, n_after)), strict=True):
        values[rows] = found
    return result[0], result[1], result[2]


def _ratio(total: Floats, n: Floats) -> Floats:
    result: Floats = np.divide(total, n, out=np.full(len(total), np.nan), where=n > 0)
    return result


def _clustered(sums: Floats, sizes: Floats, n: float) -> float:
    """Standard error of sum(sums) / n where rows are independent of one another and tokens inside a row are not."""
    rows = len(sums)
    if rows < 2 or not n:  # noqa: PLR2004 - one response has no spread
        return math.nan
    with np.errstate(over="ignore", invalid="ignore"):  # an error beyond float64 is infinite, or has no value
        residual = sums - sums.sum() / n * sizes
        return float(np.sqrt((residual**2).sum() * rows / (rows - 1)) / n)
