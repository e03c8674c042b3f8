"""Are a few responses far worse than the others, and is it the prompt that decides which?

A response is judged without its worst token, so that one giant token does not make it an outlier.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from monitor.diagnosis._sequences import Sequences

Floats = NDArray[np.float64]

TIMES = 5.0  # times the typical response's mean |gap| from which a response is an outlier; bfloat16 in the lab stays under 4 in 99 %
LEAST = 0.05  # nats, and at least this
_GROUND = 0.002  # nats added before the logarithm: differences below it are of no interest


@dataclass(frozen=True, kw_only=True, eq=False)
class Prompts:
    """Responses with their outliers, and how these keep to prompts."""

    bulk: Floats  # (S,) mean |gap| without the worst token, nats
    outlier: NDArray[np.bool_]  # (S,)
    step: NDArray[np.int64]  # (S,)
    prompt: NDArray[np.int64]  # (S,) number of the (step, group), or length 0

    @property
    def typical(self) -> float:
        """Median response's mean |gap|, nats."""
        return float(np.median(self.bulk)) if len(self.bulk) else math.nan

    @property
    def share(self) -> float:
        """Share of responses that are outliers."""
        return float(self.outlier.mean()) if len(self.outlier) else math.nan

    @property
    def size(self) -> float:
        """Median mean |gap| of the outliers, nats; NaN without one."""
        return float(np.median(self.bulk[self.outlier])) if self.outlier.any() else math.nan

    @property
    def mates(self) -> float:
        """Share of outliers among the other responses to an outlier's prompt; NaN where nothing says."""
        if not len(self.prompt) or not self.outlier.any():
            return math.nan
        members, bad = np.bincount(self.prompt), np.bincount(self.prompt, weights=self.outlier)
        pairs = float((bad * (members - 1)).sum())
        return float((bad * (bad - 1)).sum()) / pairs if pairs else math.nan

    @property
    def bad_prompts(self) -> int:
        """Prompts of which at least half the responses are outliers, two at least."""
        if not len(self.prompt):
            return 0
        members, bad = np.bincount(self.prompt), np.bincount(self.prompt, weights=self.outlier)
        return int(((bad >= members / 2) & (bad > 1)).sum())

    @property
    def bound(self) -> float:
        """Share of the variance of log(mean |gap|) that the prompt decides (one-way analysis of variance): 0 to 1; NaN without groups."""
        if not len(self.prompt):
            return math.nan
        values, members = np.log(self.bulk + _GROUND), np.bincount(self.prompt).astype(float)
        count, total = len(members), len(values)
        if count < 2 or total <= count:  # noqa: PLR2004 - one prompt cannot be told from others
            return math.nan
        means = np.bincount(self.prompt, weights=values) / members
        between = float((members * (means - values.mean()) ** 2).sum()) / (count - 1)
        within = float(((values - means[self.prompt]) ** 2).sum()) / (total - count)
        size = (total - float((members**2).sum()) / total) / (count - 1)
        return (between - within) / (between + (size - 1) * within) if between + within > 0 else math.nan

    def early(self, part: float = 1 / 3) -> float:
        """Share of outliers in the first part of the steps over that of the whole run; NaN without outliers."""
        steps = np.unique(self.step)
        first = self.step <= steps[max(0, math.ceil(part * len(steps)) - 1)]
        return float(self.outlier[first].mean()) / self.share if self.outlier.any() else math.nan


def prompts(table: Sequences) -> Prompts:
    """Look at the responses of a step, or of several."""
    use = table.n > 1
    bulk = (table.abs_x[use] - table.worst[use]) / (table.n[use] - 1)
    limit = max(TIMES * float(np.median(bulk)), LEAST) if len(bulk) else LEAST
    group = np.zeros(0, np.int64)
    if len(table.group_id) == len(use):
        pairs = np.stack([table.step[use], table.group_id[use]])
        group = np.unique(pairs, axis=1, return_inverse=True)[1].reshape(-1)
    return Prompts(bulk=bulk, outlier=bulk > limit, step=table.step[use], prompt=group)
