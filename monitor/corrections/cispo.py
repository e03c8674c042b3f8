"""CISPO: the token ratio is cut and held constant, so that no token loses its gradient."""

from __future__ import annotations

from dataclasses import dataclass

from monitor.corrections._diagnostics import diagnostics, heaviest_sequence, share
from monitor.corrections._options import check_band
from monitor.corrections._weights import Tokens
from monitor.corrections.batch import Batch
from monitor.corrections.correction import Estimate
from monitor.metrics.terms import Level


@dataclass(frozen=True, kw_only=True)
class CISPO:
    """clip(r, 1 - low, 1 + high) A grad log pi(y), r = pi(y) / pi_old(y), the clipped ratio constant.

    Removes the lag since the anchor, per token and up to the cut; no token is dropped, as PPO drops rare ones that grow. Leaves the
    discrepancy (unless the anchor is `rollout`), the prefixes, and the bias of the cut. With `low` 1 there is no lower bound, which is
    how it was used. Needs `current`; the anchor as for PPO. MiniMax 2025, arXiv 2506.13585; it gives no number for the
    upper bound: 1 + 4 is the default of torchforge and SkyRL.

    Raises:
        ValueError: a bound that is negative or NaN.
    """

    low: float = 1.0
    high: float = 4.0
    id: str = "cispo"
    title: str = "CISPO"

    def __post_init__(self) -> None:
        """Refuse a band that has no meaning."""
        check_band(self.low, self.high)

    def __call__(self, batch: Batch) -> Estimate:
        """Loss and diagnostics of one batch."""
        anchor = batch.anchor
        tokens = Tokens.of(batch, anchor)
        x = tokens.log_weight(batch.current.detach(), anchor)
        ratio = tokens.weight(x)
        weights = ratio.clamp(1 - self.low, 1 + self.high)
        found = diagnostics(
            batch,
            tokens,
            truncated=share(weights != ratio, tokens.counted),
            clamped=tokens.clamped(x, Level.TOKEN),
            heaviest_sequence=heaviest_sequence(tokens, weights),
        )
        return Estimate(loss=tokens.loss(-weights * tokens.advantages * tokens.current, batch.current.dtype), diagnostics=found)
