"""GSPO: the clipped objective with one ratio for the response, the geometric mean of its tokens'."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from monitor.corrections._diagnostics import diagnostics, heaviest_sequence, share
from monitor.corrections._options import check_band
from monitor.corrections._weights import Tokens
from monitor.corrections.batch import Batch
from monitor.corrections.correction import Estimate
from monitor.corrections.ppo import clipped_loss, dropped_by_clip
from monitor.metrics.terms import Level


@dataclass(frozen=True, kw_only=True)
class GSPO:
    """min(s A, clip(s, 1 - low, 1 + high) A), s = exp(mean_t log(pi / pi_old)), once for each of the response's tokens.

    Each token carries s with its own gradient (s is constant, times pi / pi without gradient below: GSPO-token with one advantage),
    so that the published objective is the mean of the loss over each response, then over responses.

    Removes the noise of single tokens from the decision to clip. Corrects neither for the prefixes (the mean is not the sequence's
    weight) nor, unless the anchor is `rollout`, for the discrepancy. Needs `current`; the anchor as for PPO. Zheng et al.
    2025, arXiv 2507.18071, whose experiments have the band 3e-4 / 4e-4; verl's `compute_policy_loss_gspo`.

    Raises:
        ValueError: a bound that is negative or NaN.
    """

    low: float = 3e-4
    high: float = 4e-4
    id: str = "gspo"
    title: str = "GSPO"

    def __post_init__(self) -> None:
        """Refuse a band that has no meaning."""
        check_band(self.low, self.high)

    def __call__(self, batch: Batch) -> Estimate:
        """Loss and diagnostics of one batch."""
        anchor = batch.anchor
        tokens = Tokens.of(batch, anchor)
        x = tokens.log_weight(batch.current.detach(), anchor, Level.SEQUENCE_MEAN)
        ratio = tokens.layout.spread(tokens.weight(x)) * (tokens.current - tokens.current.detach()).exp()
        dropped = dropped_by_clip(tokens.layout.spread(x), tokens.advantages, self.low, self.high)
        found = diagnostics(
            batch,
            tokens,
            masked=share(dropped, tokens.counted),
            clamped=tokens.clamped(x, Level.SEQUENCE_MEAN),
            heaviest_sequence=heaviest_sequence(tokens, torch.where(dropped, 0.0, ratio)),
        )
        loss = clipped_loss(ratio, tokens.advantages, self.low, self.high)
        return Estimate(loss=tokens.loss(loss, batch.current.dtype), diagnostics=found)
