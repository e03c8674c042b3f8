"""The expectation of the score under the engine, over the tokens it reported and one bucket for the rest."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from monitor.corrections._weights import Tokens
from monitor.corrections.batch import Batch, BatchError, Support

FLOOR = 8.0  # roundings of the dtype under which the mass of a tail is noise; 1e-6 in float32, as torchtitan has it
REMEDY = "Ask the engine for its top log-probabilities, and read the trainer's at the same ids (monitor.corrections.selected)."


@dataclass(frozen=True, kw_only=True, eq=False)
class Bins:
    """The K reported tokens and, unless they are all there are, the tail: float64, [..., K + 1] or [..., K].

    A bin is held where the trainer gives it probability (and the generator, if it is needed). One that is not held has mass and
    log-probabilities 0, so that it adds nothing to a sum, and its engine mass is counted in `lost`.
    """

    held: Tensor  # bool
    mass: Tensor  # mu, no gradient
    current: Tensor  # log pi_theta, gradient
    same_weights: Tensor  # log pi_gen, no gradient; `current` without gradient where the support has none
    lost: Tensor  # [...], engine mass of the bins that are not held

    def clamped(self, limit: float) -> Tensor:
        """How many log ratios of current to generator lie beyond a limit, ()."""
        return ((self.current.detach() - self.same_weights).abs() > limit).sum().double()


def support_of(batch: Batch, *, same_weights: bool) -> Support:
    """The support of a batch.

    Raises:
        BatchError: there is none, or it lacks the generator's weights.
    """
    support = batch.support
    if support is None:
        raise BatchError("batch.support", expected="the engine's log-probabilities of several tokens", found="none", remedy=REMEDY)
    if same_weights and support.same_weights is None:
        remedy = "Read log pi_gen at the same ids when the responses are scored under the weights that sampled them."
        raise BatchError("batch.support.same_weights", expected="log-probabilities", found="none", remedy=remedy)
    if same_weights:
        return support
    return Support(engine=support.engine, current=support.current, complete=support.complete)  # a NaN that nobody needs hurts nobody


@torch.no_grad()
def usable(support: Support) -> Tensor:
    """Which tokens have a support that can be read, bool [...]: no NaN, no +inf, and no ratio that divides by zero."""
    fine = _is_log_probability(support.engine) & _is_log_probability(support.current)
    if support.same_weights is not None:
        impossible = support.same_weights.isneginf() & ~support.current.isneginf()
        fine = fine & _is_log_probability(support.same_weights) & ~impossible
    return fine.all(-1)


def bins(support: Support, tokens: Tokens) -> Bins:
    """The bins of every token; a token that does not count holds none."""
    generator = support.current if support.same_weights is None else support.same_weights
    sides = [_readable(side, tokens.counted) for side in (support.engine.detach(), support.current, generator.detach())]
    if not support.complete:
        floor = FLOOR * max(torch.finfo(side.dtype).eps for side in (support.engine, support.current, generator))
        sides = [torch.cat([side, tail], -1) for side, tail in zip(sides, _tails(sides, floor), strict=True)]
    engine, current, same_weights = sides
    held = current.detach().isfinite() & same_weights.isfinite()
    mass = engine.exp()
    return Bins(
        held=held,
        mass=torch.where(held, mass, 0.0),
        current=torch.where(held, current, 0.0),
        same_weights=torch.where(held, same_weights, 0.0),
        lost=torch.where(held, 0.0, mass).sum(-1),
    )


def _is_log_probability(column: Tensor) -> Tensor:
    return column.isfinite() | column.isneginf()


def _readable(column: Tensor, counted: Tensor) -> Tensor:
    return torch.where(counted[..., None], column.double(), -torch.inf)


def _tails(sides: list[Tensor], floor: float) -> list[Tensor]:
    """log(1 - sum p) of each side, [..., 1]; -inf where it cannot be told from rounding (the sum may even exceed 1)."""
    heads = [side.exp().sum(-1, keepdim=True) for side in sides]
    told = [head.detach() < 1 - floor for head in heads]
    return [torch.where(fine, torch.log1p(-torch.where(fine, head, 0.0)), -torch.inf) for head, fine in zip(heads, told, strict=True)]
