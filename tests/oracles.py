"""Every formula once more, as plainly as it can be written, in exact or wide arithmetic; shares no code with the kernels."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np


def _exact(values):
    return [Fraction(float(value)) for value in values]


def log_ratio_mean(x):
    return float(sum(_exact(x)) / len(x))


def log_ratio_abs_mean(x):
    return float(sum(abs(value) for value in _exact(x)) / len(x))


def log_ratio_sd(x):
    values = _exact(x)
    mean = sum(values) / len(values)
    return math.sqrt(sum((value - mean) ** 2 for value in values) / len(values))


def log_ratio_min(x):
    return min(float(value) for value in x)


def log_ratio_max(x):
    return max(float(value) for value in x)


def log_ratio_quantile(x, q):
    return sorted(float(value) for value in x)[max(1, math.ceil(q * len(x))) - 1]


def _decimals(x, scale=1):
    return [(Decimal(float(value)) * scale).exp() for value in x]


def _in_decimal(function):
    def wide(*arguments):
        with localcontext() as context:
            context.prec = 80
            context.Emax, context.Emin = 10**9, -(10**9)
            return function(*arguments)

    return wide


@_in_decimal
def ratio_mean(x):
    return _as_float(sum(_decimals(x)) / len(x))


@_in_decimal
def ratio_mean_error(x):
    weights = _decimals(x)
    mean = sum(weights) / len(weights)
    return _as_float((sum((weight - mean) ** 2 for weight in weights) / (len(weights) - 1) / len(weights)).sqrt())


@_in_decimal
def ratio_z(x):
    weights = _decimals(x)
    mean = sum(weights) / len(weights)
    error = (sum((weight - mean) ** 2 for weight in weights) / (len(weights) - 1) / len(weights)).sqrt()
    return _as_float((mean - 1) / error)


@_in_decimal
def ratio_largest_share(x):
    weights = _decimals(x)
    return _as_float(max(weights) / sum(weights))


@_in_decimal
def ess(x):
    weights = _decimals(x)
    return _as_float(sum(weights) ** 2 / (len(weights) * sum(weight * weight for weight in weights)))


@_in_decimal
def ess_deficit(x):
    weights = _decimals(x)
    return _as_float(1 - sum(weights) ** 2 / (len(weights) * sum(weight * weight for weight in weights)))


def k1(x):
    return -log_ratio_mean(x)


def k2(x):
    return float(sum(value * value for value in _exact(x)) / len(x) / 2)


@_in_decimal
def k3(x):
    return _as_float(sum(weight - 1 - Decimal(float(value)) for weight, value in zip(_decimals(x), x, strict=True)) / len(x))


@_in_decimal
def k3_error(x):
    values = [weight - 1 - Decimal(float(value)) for weight, value in zip(_decimals(x), x, strict=True)]
    mean = sum(values) / len(values)
    return _as_float((sum((value - mean) ** 2 for value in values) / (len(values) - 1) / len(values)).sqrt())


def mean(values):
    return float(sum(_exact(values)) / len(values))


def mean_error(values):
    return float(np.std(np.asarray(values, np.longdouble), ddof=1) / np.sqrt(np.longdouble(len(values))))


def clip_outside(x, low, high):
    return sum(math.exp(value) < 1 - low or math.exp(value) > 1 + high for value in x) / len(x)


def clip_effective(x, advantage, low, high):
    def dropped(value, gain):
        return (gain > 0 and math.exp(value) > 1 + high) or (gain < 0 and math.exp(value) < 1 - low)

    return sum(dropped(value, gain) for value, gain in zip(x, advantage, strict=True)) / len(x)


def by_sequence(x, sample_id):
    """Log ratios of each sequence, in the order of the ids."""
    return [[value for value, owner in zip(x, sample_id, strict=True) if owner == wanted] for wanted in sorted(set(sample_id))]


def clip_sequence(x, sample_id, low, high):
    means = [log_ratio_mean(tokens) for tokens in by_sequence(x, sample_id)]
    return sum(math.exp(value) < 1 - low or math.exp(value) > 1 + high for value in means) / len(means)


def ess_sequence(x, sample_id):
    return ess([float(sum(_exact(tokens))) for tokens in by_sequence(x, sample_id)])


def ess_sequence_mean(x, sample_id):
    return ess([log_ratio_mean(tokens) for tokens in by_sequence(x, sample_id)])


def split_share(discrepancy, lag):
    sizes = [log_ratio_abs_mean(term) for term in (discrepancy, lag)]
    return [size / sum(sizes) for size in sizes]


def version_lag(trainer, rollout):
    """Mean, maximum and share at each lag."""
    lags = [int(new) - int(old) for new, old in zip(trainer, rollout, strict=True)]
    return sum(lags) / len(lags), max(lags), {lag: lags.count(lag) / len(lags) for lag in set(lags)}


def version_spanning(rollout, sample_id):
    owners = sorted(set(sample_id))
    spans = [len({version for version, owner in zip(rollout, sample_id, strict=True) if owner == wanted}) > 1 for wanted in owners]
    return sum(spans) / len(spans)


def reward(values, sample_id):
    return mean([values[list(sample_id).index(wanted)] for wanted in sorted(set(sample_id))])


def nonfinite(*columns):
    return sum(not all(math.isfinite(value) for value in row) for row in zip(*columns, strict=True))


def positive(*columns):
    return sum(any(math.isfinite(value) and value > 1e-6 for value in row) for row in zip(*columns, strict=True))


def repeated(*columns):
    keys = list(zip(*columns, strict=True))
    return len(keys) - len(set(keys))


def _as_float(value):
    try:
        return float(value)
    except OverflowError:
        return math.inf
