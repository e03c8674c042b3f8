"""Masked importance sampling: a weight outside its band takes the token or the sequence out instead of being cut."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from monitor.corrections._weighted import check_weighting, log_weights, weighted
from monitor.corrections.batch import Batch
from monitor.corrections.correction import Estimate
from monitor.corrections.ppo import PPOClip
from monitor.metrics.terms import Level, Ratio


@dataclass(frozen=True, kw_only=True)
class MIS:
    """W A grad log pi(y), or W times the gradient of the objective `around` which it stands; W = w where low <= w <= high, else 0.

    w as in `TIS`. Removes what lies outside the band altogether: a token or response far from the sampler is not trusted at any weight.
    Leaves the bias of what was left out, which has no bound but the share masked, and may favour the responses that the engine likes
    too; inside the band it corrects as `TIS` does. Needs what `TIS` needs. Liu, Li et al. 2025 (richardli.xyz/rl-collapse, sequence
    and geometric level); the masking modes of TRL's `vllm_importance_sampling_mode`, the band 0.5 to 2 of slime's `mis.yaml`.

    Raises:
        ValueError: a band that is not 0 <= low < high, a level or a ratio that is none (`step` is no level of a weight), or the lag
            ratio around an objective that holds it.
    """

    low: float = 0.5
    high: float = 2.0
    level: Level = Level.TOKEN
    ratio: Ratio = Ratio.TOTAL
    around: PPOClip | None = None
    id: str = "mis"
    title: str = "Masked importance sampling"

    def __post_init__(self) -> None:
        """Refuse what has no meaning."""
        check_weighting(self, self.low, self.high)

    def __call__(self, batch: Batch) -> Estimate:
        """Loss and diagnostics of one batch."""
        tokens, x = log_weights(batch, self)
        outside = (x > math.log(self.high)) | (x < (math.log(self.low) if self.low else -math.inf))
        return weighted(batch, tokens, x, torch.where(outside, 0.0, tokens.weight(x)), self)
