"""Score centring: subtract what the score is on average under the sampler, which a trainer that sampled itself would not see."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from monitor.corrections._centre import bins, support_of, usable
from monitor.corrections._diagnostics import diagnostics, heaviest_sequence, share
from monitor.corrections._options import check_finite_cap
from monitor.corrections._weights import Tokens
from monitor.corrections.batch import Batch
from monitor.corrections.correction import Estimate
from monitor.metrics.terms import Level


@dataclass(frozen=True, kw_only=True)
class ScoreCentring:
    """A [w(y) grad log pi(y) - sum_v mu(v) w(v) grad log pi(v)]; w = 1, or min(pi / mu, cap) where a cap is given.

    The sum runs over the engine's reported tokens and one bucket for the rest, mu(tail) grad log pi(tail), pi(tail) = 1 - sum pi:
    the same as modelling mu in the tail as pi times a constant. Nothing is renormalised.

    Removes the offset E_mu[A|s] (mu - pi), which needs no reward to pull the trainer towards the engine: in expectation that is
    subtracting the best baseline of each prefix. Leaves an error of first order in mu - pi, proportional to the spread of A given
    the prefix, and the distribution of prefixes. With lag, mu - pi holds the lag as well (see `DLC`). Needs `support`; `rollout`
    where there is a cap. arXiv 2609.20807 (equations 3 and 7 to 12); its form with a cap is TIS + SC, cap 2 in torchtitan.

    Raises:
        ValueError: a cap that is not positive or not finite (None is no cap).
    """

    cap: float | None = None
    id: str = "score_centring"
    title: str = "Score centring"

    def __post_init__(self) -> None:
        """Refuse a cap that has no meaning."""
        check_finite_cap(self.cap)

    def __call__(self, batch: Batch) -> Estimate:
        """Loss and diagnostics of one batch."""
        support = support_of(batch, same_weights=False)
        rollout = [] if self.cap is None else [batch.column("rollout")]
        tokens = Tokens.of(batch, usable(support), *rollout)
        found = bins(support, tokens)
        x = torch.zeros_like(tokens.advantages)
        weights, mass = torch.ones_like(x), found.mass
        if self.cap is not None:
            x = tokens.log_weight(tokens.current.detach(), rollout[0])
            weights = tokens.weight(x).clamp(max=self.cap)
            # mu min(pi / mu, C) = min(pi, C mu), which stays finite where mu is 0
            mass = torch.minimum(found.current.detach().exp(), self.cap * mass)
        loss = -tokens.advantages * (weights * tokens.current - (mass * found.current).sum(-1))
        own = diagnostics(
            batch,
            tokens,
            truncated=share(x > math.log(self.cap or math.inf), tokens.counted),
            clamped=tokens.clamped(x, Level.TOKEN),
            centre_lost=found.lost.sum() / tokens.counted.sum(),
            heaviest_sequence=heaviest_sequence(tokens, weights),
        )
        return Estimate(loss=tokens.loss(loss, batch.current.dtype), diagnostics=own)
