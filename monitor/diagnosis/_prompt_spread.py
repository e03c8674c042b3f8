"""Whether a growth of the gap is shared by all prompts alike or hits some more than others, and whether it is there at equal tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from monitor.diagnosis._profiles import ABS, N
from monitor.diagnosis.portrait import Portrait

FEWEST = 10  # groups of several responses, for a spread between them
ENOUGH = 8  # tokens in a class on both sides, for its means to be compared; with more, the first places of a small step drop out


def spread(portrait: Portrait, steps: Sequence[int]) -> float:
    """Spread of the size of the gap between the prompts of a step, beyond what responses of one prompt differ by.

    The standard deviation of log(mean |gap|) between prompts, less that of the responses of a prompt divided by their number: 0 where all
    prompts are alike; NaN without group ids, or with fewer than ten groups of several responses.
    """
    rows = portrait.whole.sequences
    if not len(rows.group_id):
        return math.nan
    use = np.isin(rows.step, list(steps)) & (rows.abs_x > 0)
    size = np.log(rows.abs_x[use] / rows.n[use])
    (_, step), (_, group) = (np.unique(ids[use], return_inverse=True) for ids in (rows.step, rows.group_id))
    if not use.any():
        return math.nan
    key, label, count = np.unique(step * (group.max() + 1) + group, return_inverse=True, return_counts=True)
    if (count > 1).sum() < FEWEST:
        return math.nan
    total = np.log(np.bincount(label, rows.abs_x[use]) / np.bincount(label, rows.n[use]))
    within = size - (np.bincount(label, size) / count)[label]
    noise = float((within**2).sum() / max(len(size) - len(count), 1) / count.mean())
    at = key // (group.max() + 1)
    off = total - (np.bincount(at, total) / np.bincount(at))[at]
    between = float((off**2).sum() / max(len(total) - len(np.unique(at)), 1))
    return math.sqrt(max(between - noise, 0.0))


def at_equal_tokens(portrait: Portrait, early: Sequence[int], late: Sequence[int]) -> float:
    """Factor by which the mean |gap| grew at equal place in the response and equal improbability of the token.

    So neither longer responses nor a higher entropy count as growth. NaN where no class has enough tokens on both sides.
    """
    before, after = portrait.of(early).place_surprise, portrait.of(late).place_surprise
    both = (before[..., N] >= ENOUGH) & (after[..., N] >= ENOUGH)
    then, now = before[both], after[both]
    was = float(then[:, ABS].sum())
    return float((then[:, N] * now[:, ABS] / now[:, N]).sum()) / was if was else math.nan


def in_the_middle(portrait: Portrait, early: Sequence[int], late: Sequence[int]) -> float:
    """Factor by which the mean |gap| of the median response grew; NaN without responses on either side."""
    rows = portrait.whole.sequences
    size = rows.abs_mean
    before, after = (size[np.isin(rows.step, list(steps)) & np.isfinite(size)] for steps in (early, late))
    if not (len(before) and len(after)) or not np.median(before):
        return math.nan
    return float(np.median(after) / np.median(before))
