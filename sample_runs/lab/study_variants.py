"""Does something in the centre of DLC hurt on coarse engines? Two changes to it, for that question only: nobody offers them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from monitor.corrections.batch import Batch, Support
from monitor.corrections.correction import Estimate
from monitor.corrections.tis import TIS
from monitor.metrics.terms import Level, Ratio

RARE = 1e-3  # probability under which a token is called rare


@dataclass(frozen=True, kw_only=True)
class PlainOffset:
    """A W [grad(y) - sum_v (mu(v) - pi_gen(v)) grad(v)]: DLC (sequence) without rho in its centre."""

    cap: float
    id: str = "plain_offset"
    title: str = "explanation only"

    def __call__(self, batch: Batch) -> Estimate:
        """Loss and diagnostics of one batch."""
        return _centred(batch, self.cap, offset(batch))


@dataclass(frozen=True, kw_only=True)
class WithoutRare:
    """DLC (sequence) whose centre leaves out the tokens that the trainer called rare at the generator's weights."""

    cap: float
    id: str = "without_rare"
    title: str = "explanation only"

    def __call__(self, batch: Batch) -> Estimate:
        """Loss and diagnostics of one batch."""
        return _centred(batch, self.cap, (offset(batch) * rho(batch)).masked_fill(same_weights(batch) < RARE, 0.0))


def same_weights(batch: Batch) -> Tensor:
    """pi_gen of every token of the vocabulary."""
    return _whole(batch)[1].exp()


def offset(batch: Batch) -> Tensor:
    """Mu - pi_gen of every token of the vocabulary."""
    support, same = _whole(batch)
    return support.engine.exp() - same.exp()


def rho(batch: Batch) -> Tensor:
    """pi_theta / pi_gen of every token of the vocabulary, without gradient."""
    support, same = _whole(batch)
    return (support.current.detach() - same).exp()


def _whole(batch: Batch) -> tuple[Support, Tensor]:
    """The distributions, and log pi_gen among them."""
    if batch.support is None or batch.support.same_weights is None:
        raise ValueError("the study's batches carry whole distributions of all three policies")
    return batch.support, batch.support.same_weights


def _centred(batch: Batch, cap: float, centre: Tensor) -> Estimate:
    """Sequence TIS of the lag, less the same weight times a given centre."""
    found = TIS(cap=cap, level=Level.SEQUENCE, ratio=Ratio.LAG)(batch)
    lag = ((batch.current.detach() - batch.column("same_weights")) * batch.mask).sum(dim=1, keepdim=True)
    weight = lag.exp().clamp(max=cap) * batch.advantages.view(-1, 1)
    subtracted = weight * (centre * _whole(batch)[0].current).sum(dim=-1)
    return Estimate(loss=found.loss + torch.where(batch.mask, subtracted, 0.0), diagnostics=found.diagnostics)
