"""Sums of the gap over classes of tokens: by position, by distance from the end, by improbability, by version, by version lag."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from monitor.diagnosis._step_tokens import StepTokens

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Columns of every table of sums.
N, X, ABS, X2 = range(4)  # tokens, sum of x, of |x|, of x^2; x is the gap in nats
PLACE_EDGES = np.array([0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024, 2048, 4096, 8192, 16384])
END_EDGES = np.array([0, 1, 2, 3, 4, 8, 16, 32])
SURPRISE_EDGES = np.array([0.0, 0.01, 0.1, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0])  # nats: minus the engine's log-probability
LAGS = 66  # version lags 0 to 64, then more
SHIFTS = (-2, -1, 0, 1, 2)  # tokens by which the trainer's side is moved against the engine's
# Columns of a table of products: of pairs (a, b).
PAIRS, A, B, AA, AB, BB = range(6)


def table(classes: Ints, x: Floats, count: int) -> Floats:
    """Sums by class (count, 4) of the tokens given."""
    weights = (np.ones(len(x)), x, np.abs(x), x * x)
    sums: list[Floats] = [np.bincount(classes, weights=weight, minlength=count).astype(float) for weight in weights]
    return np.stack(sums, axis=1)[:count]


def by_place(tokens: StepTokens) -> Floats:
    """By place in the response, from the first token on; only tokens under their sequence's first weights, where versions are known."""
    use = tokens.counted & tokens.unswitched
    return table(_binned(tokens.place[use], PLACE_EDGES), tokens.x[use], len(PLACE_EDGES))


def by_end(tokens: StepTokens) -> Floats:
    """By number of tokens that follow in the response."""
    use = tokens.counted
    return table(_binned(tokens.from_end[use], END_EDGES), tokens.x[use], len(END_EDGES))


def by_surprise(tokens: StepTokens) -> Floats:
    """By how improbable the engine says the token was."""
    use = tokens.counted
    return table(_binned(np.maximum(-tokens.engine[use], 0.0), SURPRISE_EDGES), tokens.x[use], len(SURPRISE_EDGES))


def by_lag(tokens: StepTokens, x: Floats, use: NDArray[np.bool_]) -> Floats:
    """By version lag; zeros where versions were not recorded."""
    if not len(tokens.version_lag):
        return np.zeros((LAGS, 4))
    return table(np.clip(tokens.version_lag[use], 0, LAGS - 1), x[use], LAGS)


def by_version(tokens: StepTokens) -> dict[int, Floats]:
    """By the version of the weights that sampled the token, before any change inside its sequence: rollout_version -> (4,)."""
    use = tokens.counted & tokens.unswitched
    if not (len(tokens.rollout_version) and use.any()):
        return {}
    versions, classes = np.unique(tokens.rollout_version[use], return_inverse=True)
    sums = table(classes, tokens.x[use], len(versions))
    return {int(version): sums[row] for row, version in enumerate(versions)}


def switched(tokens: StepTokens) -> Floats:
    """Tokens before (row 0) and after (row 1) the first change of weights inside their sequence: (2, 4)."""
    use = tokens.counted
    return table((~tokens.unswitched[use]).astype(np.int64), tokens.x[use], 2)


def shifted(tokens: StepTokens) -> Floats:
    """Products of the engine's side with the trainer's, the latter moved by each of SHIFTS tokens inside its sequence: (5, 6)."""
    rows, total = np.zeros((len(SHIFTS), 6)), len(tokens.engine)
    finite = np.isfinite(tokens.engine) & np.isfinite(tokens.trainer)
    for row, shift in enumerate(SHIFTS):
        low, high = max(0, -shift), min(total, total - shift)
        if low >= high:
            continue
        here, there = np.arange(low, high), np.arange(low, high) + shift
        use = (tokens.sequence[here] == tokens.sequence[there]) & finite[here] & finite[there]
        rows[row] = products(tokens.engine[here[use]], tokens.trainer[there[use]])
    return rows


def products(a: Floats, b: Floats) -> Floats:
    """Number of pairs, sums and sums of products (6,)."""
    return np.array([len(a), a.sum(), b.sum(), (a * a).sum(), (a * b).sum(), (b * b).sum()])


def correlation(sums: Floats) -> float:
    """Pearson's r of a row of products; NaN where one side does not vary."""
    n, a, b, aa, ab, bb = sums
    if n < 2:  # noqa: PLR2004 - one point has no correlation
        return math.nan
    spread = (aa - a * a / n) * (bb - b * b / n)
    return float((ab - a * b / n) / math.sqrt(spread)) if spread > 0 else math.nan


def mean(sums: Floats) -> Floats:
    """Mean gap of each class, nats; NaN where a class is empty."""
    return _over(sums[..., X], sums[..., N])


def abs_mean(sums: Floats) -> Floats:
    """Mean |gap| of each class, nats; NaN where a class is empty."""
    return _over(sums[..., ABS], sums[..., N])


def sd(sums: Floats) -> Floats:
    """Standard deviation of the gap in each class, nats; NaN where a class is empty."""
    return np.sqrt(np.maximum(_over(sums[..., X2], sums[..., N]) - mean(sums) ** 2, 0.0))


def _over(sums: Floats, n: Floats) -> Floats:
    result: Floats = np.divide(sums, n, out=np.full(np.shape(n), np.nan), where=np.asarray(n) > 0)
    return result


def _binned(values: NDArray[np.generic], edges: NDArray[np.generic]) -> Ints:
    return np.asarray(np.searchsorted(edges, values, side="right") - 1, np.int64)
