"""Discrepancy-lag correction: centre the discrepancy, truncate the lag ratio, resynchronise when its ESS falls under 1/2."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import torch
from torch import Tensor

from monitor.corrections._centre import Bins, bins, support_of, usable
from monitor.corrections._diagnostics import diagnostics, heaviest_sequence, share
from monitor.corrections._options import check_cap, settle
from monitor.corrections._weights import Tokens, sides
from monitor.corrections.batch import Batch
from monitor.corrections.correction import Estimate
from monitor.metrics.terms import Level, Ratio


class Variant(StrEnum):
    """Which of the two readings of DLC; its summary settles neither."""

    SEQUENCE = "sequence"  # one weight for the response, the centre at the generator's weights
    TOKEN = "token"  # noqa: S105 - a level, not a password


@dataclass(frozen=True, kw_only=True)
class DLC:
    """What the trainer's own samples under the generator's weights would have given, with the lag ratio truncated.

    With rho(v) = pi(v|s) / pi_gen(v|s) and all weights constant:

        sequence   A W [ grad log pi(y) - sum_v (mu(v) - pi_gen(v)) rho(v) grad log pi(v) ],  W = min(prod_t rho(y_t), cap)
        token      A [ w(y) grad log pi(y) - sum_v mu(v) w(v) grad log pi(v) ],               w = min(rho, cap)

    The sums run over the engine's reported tokens and one bucket for the rest, of masses 1 - sum; nothing is renormalised.

    Removes, `sequence`: the discrepancy's offset, and the lag with the prefixes' distribution, but for the cap. At zero lag it is
    grad(y) - E_mu grad. Removes, `token`: the mean of the truncated weights' bias too; the prefixes stay the generator's. Leaves, both:
    an error of first order in mu - pi_gen, proportional to the spread of A given the prefix; on coarse engines it can be large
    (docs/dlc-study.md, claim 7).
    The third part of DLC, the resync under ESS 1/2, is `ResyncController`. Needs `same_weights` and a `support` with them.
    Known from a summary of a preprint; both variants, and the cap of 2, are our reading (docs/definitions.md, section 10). The
    centre over a top K: arXiv 2609.20807.

    Raises:
        ValueError: a cap that is not positive, or a variant that is none.
    """

    variant: Variant = Variant.SEQUENCE
    cap: float = 2.0
    id: str = "dlc"
    title: str = "Discrepancy-lag correction"

    def __post_init__(self) -> None:
        """Take the variant by name too, and refuse what has no meaning."""
        settle(self, variant=Variant)
        check_cap(self.cap)

    def __call__(self, batch: Batch) -> Estimate:
        """Loss and diagnostics of one batch."""
        support = support_of(batch, same_weights=True)
        current, generator = sides(batch, Ratio.LAG)
        tokens = Tokens.of(batch, generator, usable(support))
        level = Level.SEQUENCE if self.variant is Variant.SEQUENCE else Level.TOKEN
        x = tokens.log_weight(current, generator, level)
        weights = tokens.spread(tokens.weight(x).clamp(max=self.cap), level)
        found = bins(support, tokens)
        if self.variant is Variant.SEQUENCE:
            score = weights * (tokens.current - (_offset(found, tokens) * found.current).sum(-1))
        else:
            score = weights * tokens.current - (_truncated(found, tokens, self.cap) * found.current).sum(-1)
        own = diagnostics(
            batch,
            tokens,
            truncated=share(x > math.log(self.cap), tokens.seen(level)),
            clamped=tokens.clamped(x, level) + found.clamped(tokens.limit),
            centre_lost=found.lost.sum() / tokens.counted.sum(),
            heaviest_sequence=heaviest_sequence(tokens, weights),
        )
        return Estimate(loss=tokens.loss(-tokens.advantages * score, batch.current.dtype), diagnostics=own)


@torch.no_grad()
def _offset(found: Bins, tokens: Tokens) -> Tensor:
    """(mu - pi_gen) rho for each bin; 0 for a bin that holds nothing."""
    rho = tokens.weight(found.current - found.same_weights)
    return torch.where(found.held, (found.mass - found.same_weights.exp()) * rho, 0.0)


@torch.no_grad()
def _truncated(found: Bins, tokens: Tokens, cap: float) -> Tensor:
    """Mu min(rho, cap) for each bin."""
    return found.mass * tokens.weight(found.current - found.same_weights).clamp(max=cap)
