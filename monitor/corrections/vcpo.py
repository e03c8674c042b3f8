"""VCPO's answer to a low effective sample size: a smaller step, instead of a resync."""

from __future__ import annotations

import torch
from torch import Tensor


@torch.no_grad()
def learning_rate_factor(ess: Tensor | float, reference: float = 1.0) -> Tensor:
    """What to multiply the learning rate of this step by: sqrt(ess / reference), at most 1.

    Removes nothing from the gradient; an update from few effective samples is made smaller, as its noise is larger. Leaves every bias,
    and the growth of the lag, which it only slows. The published method takes ESS over sequences, from total ratios that are not yet
    truncated (`ess.total.sequence`), and has a second part, a baseline from gradient norms, which is not here. Huang et al. 2026,
    arXiv 2602.17616; github.com/mit-han-lab/vcpo, `scaling_rule=sqrt`, `base_ess_ratio=1.0`.

    Args:
        ess: fraction, a number or a tensor of any shape. NaN (an empty batch) gives NaN: skip such a step.
        reference: the ESS at which the full rate is right, in (0, 1]; that of on-policy steps, 1 where nothing else is known.

    Raises:
        ValueError: a reference outside (0, 1].
    """
    if not 0 < reference <= 1:
        raise ValueError(f"the reference is an ESS in (0, 1], found {reference}")
    return (torch.as_tensor(ess) / reference).clamp(max=1.0).sqrt()
