"""Log ratios and importance weights in float64: which tokens count, at which level, held inside the range of the dtype."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from monitor.corrections._layout import Layout
from monitor.corrections.batch import Batch
from monitor.metrics.terms import Level, Ratio

MAX_LOG_RATIO = 80.0  # exp(80) = 5.5e34 leaves float32 and bfloat16 a factor of 6,000 for the advantage
SPARE = 1.0  # nats that a weight leaves free under the largest number of its dtype (float16 reaches exp(11.09))
SIDES = {Ratio.TOTAL: ("current", "rollout"), Ratio.DISCREPANCY: ("same_weights", "rollout"), Ratio.LAG: ("current", "same_weights")}


def limit(dtype: torch.dtype) -> float:
    """Largest absolute log weight, in nats: 80, or what the dtype of the loss can hold (10.09 in float16)."""
    return min(MAX_LOG_RATIO, math.log(torch.finfo(dtype).max) - SPARE)


@dataclass(frozen=True, kw_only=True, eq=False)
class Tokens:
    """The batch in float64, with which of its tokens count."""

    layout: Layout
    counted: Tensor  # bool, shape of the batch: masked in, and all that is needed is finite
    nonfinite: Tensor  # (), masked-in tokens that are left out
    current: Tensor  # float64 with gradient, 0 where not counted
    advantages: Tensor  # float64, 0 where not counted
    limit: float

    @classmethod
    def of(cls, batch: Batch, *needed: Tensor) -> Tokens:
        """Take what is needed beside `current` and the advantages; a token where any of it is not finite is left out."""
        layout = Layout.of(batch)
        advantages = layout.per_token(batch.advantages.detach())
        counted = batch.mask
        for column in (batch.current.detach(), advantages, *needed):
            counted = counted & (column if column.dtype == torch.bool else column.isfinite())
        return cls(
            layout=layout,
            counted=counted,
            nonfinite=(batch.mask & ~counted).sum().double(),
            current=_kept(batch.current, counted),
            advantages=_kept(advantages, counted),
            limit=limit(batch.current.dtype),
        )

    def kept(self, column: Tensor) -> Tensor:
        """A column in float64, 0 where the token does not count: an unused NaN would return in the gradient."""
        return _kept(column, self.counted)

    def log_weight(self, minuend: Tensor, subtrahend: Tensor, level: Level = Level.TOKEN) -> Tensor:
        """The minuend less the subtrahend, in nats, not clamped: per token (the batch's shape), or per sequence [S] its sum or mean."""
        x = self.kept(minuend) - self.kept(subtrahend)
        if level is Level.TOKEN:
            return x
        return self.layout.mean(x, self.counted) if level is Level.SEQUENCE_MEAN else self.layout.total(x)

    def seen(self, level: Level) -> Tensor:
        """Which weights of a level exist: of counted tokens, of sequences with such a token."""
        return self.counted if level is Level.TOKEN else self.layout.total(self.counted.double()) > 0

    def weight(self, x: Tensor) -> Tensor:
        """exp(x), the log weight held inside the range of the loss's dtype."""
        return x.clamp(-self.limit, self.limit).exp()

    def clamped(self, x: Tensor, level: Level) -> Tensor:
        """How many log weights of a level lie beyond that range, ()."""
        return ((x.detach().abs() > self.limit) & self.seen(level)).sum().double()

    def spread(self, weights: Tensor, level: Level) -> Tensor:
        """Weights of a level given to each token."""
        return weights if level is Level.TOKEN else self.layout.spread(weights)

    def loss(self, per_token: Tensor, dtype: torch.dtype) -> Tensor:
        """A loss in the dtype of the batch, 0 where a token does not count."""
        return torch.where(self.counted, per_token, 0.0).to(dtype)


def sides(batch: Batch, ratio: Ratio) -> tuple[Tensor, Tensor]:
    """The two columns of a ratio, without gradient; the second is subtracted from the first.

    Raises:
        BatchError: the batch does not have both.
    """
    first, second = SIDES[ratio]
    return batch.column(first), batch.column(second)


def _kept(column: Tensor, counted: Tensor) -> Tensor:
    return torch.where(counted, column.double(), 0.0)
