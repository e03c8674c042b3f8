"""No correction: the policy gradient as if the engine's samples were the trainer's own."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from monitor.corrections._diagnostics import diagnostics, heaviest_sequence
from monitor.corrections._weights import Tokens
from monitor.corrections.batch import Batch
from monitor.corrections.correction import Estimate


@dataclass(frozen=True, kw_only=True)
class Uncorrected:
    """A grad log pi(y): REINFORCE with an advantage.

    Removes nothing. Leaves all of both terms: the lag, and the discrepancy, whose offset E_mu[A|s] (mu - pi) pulls the trainer
    towards the engine at every step. Right only where both are zero. Needs `current`. Williams 1992.
    """

    id: str = "none"
    title: str = "No correction"

    def __call__(self, batch: Batch) -> Estimate:
        """Loss and diagnostics of one batch."""
        tokens = Tokens.of(batch)
        ones = torch.ones_like(tokens.advantages)
        found = diagnostics(batch, tokens, heaviest_sequence=heaviest_sequence(tokens, ones))
        return Estimate(loss=tokens.loss(-tokens.advantages * tokens.current, batch.current.dtype), diagnostics=found)
