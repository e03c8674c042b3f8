"""The published estimators once more, written from their papers and from the frameworks' formulas with loops over numpy arrays.

Each gives the coefficient c_t of a member whose gradient is sum_t c_t grad log pi(y_t) (the centred ones: one for each v). They share
nothing with `monitor.corrections` but the names.
"""

from __future__ import annotations

import math

import numpy as np


def sequences(mask):
    """Index arrays of the counted tokens of each row."""
    return [np.flatnonzero(row) for row in mask]


def reinforce(mask, advantage):
    """A for every counted token."""
    return np.where(mask, advantage[:, None], 0.0)


def ppo_clip(mask, advantage, current, old, band):
    """Schulman 2017: the gradient of min(r A, clip(r) A) is r A where the unclipped branch is the smaller, else 0."""
    (low, high), found = band, np.zeros(mask.shape)
    for row, columns in enumerate(sequences(mask)):
        for t in columns:
            ratio, a = math.exp(current[row, t] - old[row, t]), advantage[row]
            clipped = min(max(ratio, 1 - low), 1 + high)
            found[row, t] = ratio * a if ratio * a <= clipped * a else 0.0
    return found


def gspo(mask, advantage, current, old, band):
    """Zheng 2025: s = (pi(y) / pi_old(y))^(1/|y|); d/dtheta [|y| s] = s sum_t grad log pi(y_t): s A for each token, unless clipped."""
    (low, high), found = band, np.zeros(mask.shape)
    for row, columns in enumerate(sequences(mask)):
        if not len(columns):
            continue
        s = math.exp(sum(current[row, t] - old[row, t] for t in columns) / len(columns))
        clipped, a = min(max(s, 1 - low), 1 + high), advantage[row]
        found[row, columns] = s * a if s * a <= clipped * a else 0.0
    return found


def cispo(mask, advantage, current, old, band):
    """MiniMax-M1: sg(clip(r)) A."""
    return np.where(mask, np.clip(np.exp(current - old), 1 - band[0], 1 + band[1]) * advantage[:, None], 0.0)


def weights(mask, x, level):
    """TRL and verl: exp of the token's log ratio, of the sequence's sum, or of its mean, given to each of its tokens."""
    found = np.zeros(mask.shape)
    for row, columns in enumerate(sequences(mask)):
        if len(columns):
            total = math.fsum(x[row, columns])
            by_level = {"token": x[row, columns], "sequence": total, "sequence_mean": total / len(columns)}
            found[row, columns] = np.exp(by_level[level])
    return found


def truncated(weight, cap):
    """`*_truncate` of TRL; verl clamps to [0, C]."""
    return np.minimum(weight, cap)


def masked(weight, low, high):
    """`*_mask` of TRL and IcePop's M(k): the weight where it lies in the band, else 0."""
    return np.where((weight >= low) & (weight <= high), weight, 0.0)


def centred(weight, advantage, mask, engine, capped):
    """arXiv 2609.20807: w(y) on the sampled token, and mu(v) w(v) taken off for every v; returns both coefficients."""
    of_sampled = np.where(mask, weight * advantage[:, None], 0.0)
    of_each = np.where(mask[..., None], -np.exp(engine) * capped * advantage[:, None, None], 0.0)
    return of_sampled, of_each


def sequence_dlc(mask, advantage, lag, tables, cap):
    """Definitions, section 10: W on the sampled token, and W (mu - pi_gen) rho taken off for every v."""
    weight = truncated(weights(mask, lag, "sequence"), cap)
    engine, generator, current = tables
    rho = np.exp(current - generator)
    offset = (np.exp(engine) - np.exp(generator)) * rho
    of_each = np.where(mask[..., None], -(weight * advantage[:, None])[..., None] * offset, 0.0)
    return np.where(mask, weight * advantage[:, None], 0.0), of_each


def gradient(logits, sampled, coefficients, of_each=None):
    """sum_t c_t (onehot(y_t) - pi) + sum_v c_v (onehot(v) - pi), in logits."""
    policy = np.exp(logits - logits.max(-1, keepdims=True))
    policy /= policy.sum(-1, keepdims=True)
    vocabulary = np.arange(logits.shape[-1])
    found = coefficients[..., None] * ((vocabulary == sampled[..., None]) - policy)
    return found if of_each is None else found + of_each - of_each.sum(-1, keepdims=True) * policy
