"""The compiled pass: tight loops over token columns, one sequence at a time, sums in registers.

Only `kernel.py` imports this file, because importing it needs numba. Each public function fills arrays of a `StepPartial`; what
the columns of these arrays mean is said in `partial.py`. `kernel_numpy.py` says the same in plain numpy.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-untyped-decorators=False
# ruff: noqa: ANN001, ANN201, ANN202, PLR0913, PLR0917
# numba infers the types of these functions from their arguments, and a compiled loop takes arrays one by one.
from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

# Never nnan or ninf: with them the compiler deletes the tests for values that are not finite.
OPTIONS: Any = {"nogil": True, "cache": True, "fastmath": {"reassoc", "contract", "nsz", "arcp"}, "error_model": "numpy"}

# Constants of partial.py, histogram.py and k3.py, written out once more and compared with them by a test. numba's cache notices a
# change of this file only: an imported constant that changes elsewhere would leave compiled code with the old one in it.
N, FAR, LOW, HIGH, EFFECTIVE, ADVANTAGE_N = range(6)  # RatioCount
X, ABS, X2, X4, K3, K3_SQ, NEAR_E, NEAR_E2, MID_E, MID_E2 = range(10)  # RatioSum
TOP, S1, S2 = range(3)  # Far
MASKED_IN, BAD_ENGINE, BAD_TRAINER, ENTROPY_N, LAG_SUM, NOT_OLD, POSITIVE_ENGINE, POSITIVE_TRAINER = 1, 12, 13, 14, 15, 16, 17, 18  # Count
ENTROPY, ENTROPY_SQ = range(2)  # Sum
ROLLOUT, TRAINER, LAG = range(3)  # Version
NEAR, HUGE, LAG_BINS, POSITIVE = 1.0, 300.0, 67, 1e-6
SHIFT, SIDE, ZERO, FIRST = 48, 512, 512, 15984
SERIES_BELOW = 0.0625


@njit(**OPTIONS)
def pick(low, high, mask, rollout, generator, current, x, kept, counts):
    """Fill x[3, :] with the log ratios of the finite masked-in tokens of [low, high); kept holds their rows. Returns how many."""
    n = 0
    has_generator, has_current = generator.size > 0, current.size > 0
    for i in range(low, high):
        if mask[i] == 0:
            continue
        counts[MASKED_IN] += 1
        mu = np.float64(rollout[i])
        gen = np.float64(generator[i]) if has_generator else 0.0
        now = np.float64(current[i]) if has_current else 0.0
        engine = math.isfinite(mu)
        trainer = math.isfinite(gen) and math.isfinite(now)
        if not engine:
            counts[BAD_ENGINE] += 1
        if not trainer:
            counts[BAD_TRAINER] += 1
        if mu > POSITIVE or gen > POSITIVE or now > POSITIVE:  # one test for nearly every token
            counts[POSITIVE_ENGINE] += int(mu > POSITIVE and engine)
            counts[POSITIVE_TRAINER] += int((gen > POSITIVE and math.isfinite(gen)) or (now > POSITIVE and math.isfinite(now)))
        if engine and trainer:
            x[0, n] = now - mu
            x[1, n] = gen - mu
            x[2, n] = now - gen
            kept[n] = i
            n += 1
    return n


@njit(**OPTIONS)
def add_ratio(x, n, low, high, counts, sums, span, far, histogram):
    """Add n log ratios to the arrays of one ratio; returns their sum, for the sequence table.

    Sums, extremes and bins are loops of their own: together they would not vectorise, and x is still in the nearest cache.
    """
    total = _add_series(x, n, sums)
    outer = _add_extremes(x, n, low, high, counts, span)
    if outer > 0:
        _add_outer(x, n, counts, sums, far)
    _add_bins(x, n, histogram)
    counts[N] += n
    return total


@njit(**OPTIONS)
def _add_series(x, n, sums):
    """Add the plain sums of every value, and k3 and expm1 of those the series reaches (the others count as 0 here)."""
    total = magnitude = squares = fourths = k3 = k3_sq = e1 = e2 = 0.0
    for i in range(n):
        v = x[i]
        a = abs(v)
        u = v if a <= SERIES_BELOW else 0.0
        # Horner's scheme of k3.py, unrolled so that the loop is straight-line and vectorises.
        t = 1.0 + u * (1.0 / 10)
        t = 1.0 + u * (1.0 / 9) * t
        t = 1.0 + u * (1.0 / 8) * t
        t = 1.0 + u * (1.0 / 7) * t
        t = 1.0 + u * (1.0 / 6) * t
        t = 1.0 + u * (1.0 / 5) * t
        t = 1.0 + u * (1.0 / 4) * t
        t = 1.0 + u * (1.0 / 3) * t
        k = 0.5 * u * u * t
        e = u + k
        q = v * v
        total += v
        magnitude += a
        squares += q
        fourths += q * q
        k3 += k
        k3_sq += k * k
        e1 += e
        e2 += e * e
    sums[X] += total
    sums[ABS] += magnitude
    sums[X2] += squares
    sums[X4] += fourths
    sums[K3] += k3
    sums[K3_SQ] += k3_sq
    sums[NEAR_E] += e1
    sums[NEAR_E2] += e2
    return total


@njit(**OPTIONS)
def _add_extremes(x, n, low, high, counts, span):
    """Count what lies outside the clip band, widen the span; returns how many values the series does not reach."""
    outer = under = over = 0
    for i in range(n):
        v = x[i]
        outer += 1 if abs(v) > SERIES_BELOW else 0
        under += 1 if v < low else 0
        over += 1 if v > high else 0
    lowest, highest = span[0], span[1]
    for i in range(n):
        lowest = min(lowest, x[i])
        highest = max(highest, x[i])
    counts[LOW] += under
    counts[HIGH] += over
    span[0], span[1] = lowest, highest
    return outer


@njit(**OPTIONS)
def _add_outer(x, n, counts, sums, far):
    """Add the values beyond the series: k3 from expm1, weights beyond NEAR in log space as well."""
    for i in range(n):
        v = x[i]
        a = abs(v)
        if a <= SERIES_BELOW:
            continue
        e = math.expm1(v)
        k = e - v
        sums[K3] += k
        sums[K3_SQ] += k * k
        if a <= NEAR:
            sums[NEAR_E] += e
            sums[NEAR_E2] += e * e
            continue
        counts[FAR] += 1
        if v <= HUGE:
            sums[MID_E] += e
            sums[MID_E2] += e * e
        if v > far[TOP]:
            shrink = math.exp(far[TOP] - v)  # 0 for the first, whose far[TOP] is -inf
            far[S1] = far[S1] * shrink + 1.0
            far[S2] = far[S2] * shrink * shrink + 1.0
            far[TOP] = v
        else:
            w = math.exp(v - far[TOP])
            far[S1] += w
            far[S2] += w * w


@njit(**OPTIONS)
def _add_bins(x, n, histogram):
    """Count each value in its bin, without a branch: signs are random, and a mispredicted one costs more than the rest."""
    bits = x.view(np.int64)
    for i in range(n):
        b = bits[i]
        rank = ((b & 0x7FFFFFFFFFFFFFFF) >> SHIFT) - FIRST
        rank = min(max(rank, 0), SIDE - 1)
        sign = 1 + 2 * (b >> 63)
        histogram[ZERO + sign * (rank + 1) * np.int64(x[i] != 0.0)] += 1


@njit(**OPTIONS)
def add_clipped(x, n, kept, advantage, low, high, counts):
    """Count the tokens whose gradient PPO drops, among those whose advantage is finite."""
    known = dropped = 0
    for i in range(n):
        a = advantage[kept[i]]
        finite = math.isfinite(a)
        known += int(finite)
        dropped += int(finite & (((a > 0) & (x[i] > high)) | ((a < 0) & (x[i] < low))))
    counts[ADVANTAGE_N] += known
    counts[EFFECTIVE] += dropped


@njit(**OPTIONS)
def add_entropy(mask, entropy, counts, sums):
    """Add the finite entropies of the masked-in tokens."""
    known = 0
    total = squares = 0.0
    for i in range(entropy.size):
        if mask[i] != 0 and math.isfinite(entropy[i]):
            v = np.float64(entropy[i])
            known += 1
            total += v
            squares += v * v
    counts[ENTROPY_N] += known
    sums[ENTROPY] += total
    sums[ENTROPY_SQ] += squares


@njit(**OPTIONS)
def add_versions(mask, rollout, trainer, old, counts, lowest, highest, bins):
    """Lag histogram and extremes of the versions of the masked-in tokens."""
    has_rollout, has_trainer, has_old = rollout.size > 0, trainer.size > 0, old.size > 0
    for i in range(mask.size):
        if mask[i] == 0:
            continue
        if has_rollout:
            lowest[ROLLOUT] = min(lowest[ROLLOUT], rollout[i])
            highest[ROLLOUT] = max(highest[ROLLOUT], rollout[i])
        if has_trainer:
            lowest[TRAINER] = min(lowest[TRAINER], trainer[i])
            highest[TRAINER] = max(highest[TRAINER], trainer[i])
        if has_rollout and has_old and rollout[i] != old[i]:
            counts[NOT_OLD] += 1
        if has_rollout and has_trainer:
            lag = trainer[i] - rollout[i]
            lowest[LAG] = min(lowest[LAG], lag)
            highest[LAG] = max(highest[LAG], lag)
            counts[LAG_SUM] += lag
            bins[min(max(lag + 1, 0), LAG_BINS - 1)] += 1


@njit(**OPTIONS)
def add_sequence(low, high, mask, reward, version, position):
    """Length, reward sum, tokens with a finite reward, span of versions, span of positions of the masked-in tokens of [low, high)."""
    length = known = 0
    total = 0.0
    first, last = np.iinfo(np.int64).max, np.iinfo(np.int64).min
    nearest, farthest = np.iinfo(np.int64).max, np.iinfo(np.int64).min
    has_reward, has_version, has_position = reward.size > 0, version.size > 0, position.size > 0
    for i in range(low, high):
        if mask[i] == 0:
            continue
        length += 1
        if has_reward and math.isfinite(reward[i]):
            known += 1
            total += np.float64(reward[i])
        if has_version:
            first = min(first, version[i])
            last = max(last, version[i])
        if has_position:
            nearest = min(nearest, position[i])
            farthest = max(farthest, position[i])
    return length, total, known, first, last, nearest, farthest


@njit(**OPTIONS)
def scan(
    starts,
    mask,
    rollout,
    generator,
    current,
    advantage,
    reward,
    version,
    position,
    low,
    high,
    counts,
    ratio_counts,
    ratio_sums,
    spans,
    far,
    histograms,
    whole,
    real,
):
    """Every sequence of one step; `whole` (7, S) and `real` (4, S) become the columns of the sequence table."""
    longest = np.max(np.diff(starts))
    x = np.empty((3, longest))
    kept = np.empty(longest, np.int64)
    present = (current.size > 0, generator.size > 0, current.size > 0 and generator.size > 0)
    for s in range(starts.size - 1):
        n = pick(starts[s], starts[s + 1], mask, rollout, generator, current, x, kept, counts)
        for r in range(3):
            if present[r]:
                real[r, s] = add_ratio(x[r], n, low, high, ratio_counts[r], ratio_sums[r], spans[r], far[r], histograms[r])
                if advantage.size > 0:
                    add_clipped(x[r], n, kept, advantage, low, high, ratio_counts[r])
        whole[1, s] = n
        found = add_sequence(starts[s], starts[s + 1], mask, reward, version, position)
        whole[0, s], real[3, s], whole[2, s], whole[3, s], whole[4, s], whole[5, s], whole[6, s] = found
