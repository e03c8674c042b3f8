"""PPO's clipped objective: the token ratio to the anchor, whose gradient stops where it has moved far enough."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from monitor.corrections._diagnostics import diagnostics, heaviest_sequence, share
from monitor.corrections._options import check_band
from monitor.corrections._weights import Tokens
from monitor.corrections.batch import Batch
from monitor.corrections.correction import Estimate
from monitor.metrics.terms import Level


@dataclass(frozen=True, kw_only=True)
class PPOClip:
    """min(r A, clip(r, 1 - low, 1 + high) A) with r = pi(y) / pi_old(y), which carries the gradient.

    Removes large steps away from the anchor. Corrects for the anchor, not for the sampler: where the anchor is `old` or
    `same_weights`, the discrepancy stays; where it is `rollout`, r is the total ratio and engine noise alone clips. The token ratio
    ignores how likely the prefix was. Beyond the range of the dtype (`correction.clamped`) r is constant. Needs `current`.
    Schulman et al. 2017, arXiv 1707.06347, equation 7; `high` above `low` is DAPO's clip-higher, arXiv 2503.14476.

    Raises:
        ValueError: a bound that is negative or NaN.
    """

    low: float = 0.2
    high: float = 0.2
    id: str = "ppo_clip"
    title: str = "PPO clip"

    def __post_init__(self) -> None:
        """Refuse a band that has no meaning."""
        check_band(self.low, self.high)

    def __call__(self, batch: Batch) -> Estimate:
        """Loss and diagnostics of one batch."""
        tokens = Tokens.of(batch, batch.anchor)
        loss, weights, x = self.objective(batch, tokens)
        dropped = dropped_by_clip(x, tokens.advantages, self.low, self.high)
        found = diagnostics(
            batch,
            tokens,
            masked=share(dropped, tokens.counted),
            clamped=tokens.clamped(x, Level.TOKEN),
            heaviest_sequence=heaviest_sequence(tokens, torch.where(dropped, 0.0, weights)),
        )
        return Estimate(loss=tokens.loss(loss, batch.current.dtype), diagnostics=found)

    def objective(self, batch: Batch, tokens: Tokens) -> tuple[Tensor, Tensor, Tensor]:
        """The loss per token in float64, its ratios, and the log ratios; for corrections that weigh it."""
        x = tokens.current - tokens.kept(batch.anchor)
        ratio = tokens.weight(x)
        return clipped_loss(ratio, tokens.advantages, self.low, self.high), ratio, x


def clipped_loss(ratio: Tensor, advantages: Tensor, low: float, high: float) -> Tensor:
    """-min(r A, clip(r) A)."""
    return -torch.minimum(ratio * advantages, ratio.clamp(1 - low, 1 + high) * advantages)


def dropped_by_clip(x: Tensor, advantages: Tensor, low: float, high: float) -> Tensor:
    """Where the clipped branch is the smaller, so that no gradient flows; x is the log ratio."""
    ratio = x.detach().exp()
    return ((advantages > 0) & (ratio > 1 + high)) | ((advantages < 0) & (ratio < 1 - low))
