"""What the trainer maximises: advantages within a group, and PPO's or GSPO's clipped ratio."""

from __future__ import annotations

import torch
from torch import Tensor

from sample_runs.lab.settings import Objective

LENGTH_SCALE = 10.0  # tokens; a fixed normaliser, so that long responses are not favoured
STANDARD_DEVIATION_FLOOR = 1e-4


def advantages(rewards: Tensor, groups: Tensor) -> Tensor:
    """GRPO: (reward - mean) / (standard deviation + 1e-4) within each group, (S,); the standard deviation is the population's."""
    result = torch.zeros_like(rewards)
    for group in groups.unique():
        inside = groups == group
        result[inside] = (rewards[inside] - rewards[inside].mean()) / (rewards[inside].std(correction=0) + STANDARD_DEVIATION_FLOOR)
    return result


def sequence_ratio(log_ratio: Tensor, mask: Tensor) -> Tensor:
    """GSPO's weight (S, 1): exp of the mean over tokens of the log ratio (S, R)."""
    return ((log_ratio * mask).sum(1, keepdim=True) / mask.sum(1, keepdim=True)).exp()


def loss(current: Tensor, rollout: Tensor, advantage: Tensor, mask: Tensor, objective: Objective) -> Tensor:
    """Minus the clipped objective.

    Args:
        current: log-probabilities under the weights being updated, (S, R), nats.
        rollout: as the engine reported them; the denominator of the ratio, as in PipelineRL.
        advantage: (S,).
        mask: 1 where a token was sampled, (S, R).
        objective: which ratio, which bounds.
    """
    log_ratio, weight = current - rollout, advantage[:, None]
    if objective.loss == "gspo":
        ratio, low, high = sequence_ratio(log_ratio, mask), objective.sequence_eps_low, objective.sequence_eps_high
    else:
        ratio, low, high = log_ratio.exp(), objective.eps_low, objective.eps_high
    gained = torch.minimum(ratio * weight, ratio.clamp(1 - low, 1 + high) * weight)
    return -(gained * mask).sum() / (mask.shape[0] * LENGTH_SCALE)
