"""IcePop: PPO on the tokens on which engine and trainer agree, weighted by how far they do."""

from __future__ import annotations

from dataclasses import dataclass, field

from monitor.corrections.batch import Batch
from monitor.corrections.correction import Estimate
from monitor.corrections.mis import MIS
from monitor.corrections.ppo import PPOClip
from monitor.metrics.terms import Level, Ratio


@dataclass(frozen=True, kw_only=True)
class IcePop:
    """M(k) times the gradient of PPO's objective, k = pi_anchor / mu per token, M(k) = k where low <= k <= high, else 0.

    `MIS` of tokens around PPO. Removes tokens on which the engine and the trainer differ most (in mixtures of experts, other experts were
    chosen). Leaves the prefixes, the discrepancy that is small on each token and adds up over a response, and what PPO leaves of the
    lag. Needs `rollout`, and `same_weights` or `old`: without them the anchor is `rollout` itself, and nothing is masked. Zhao et al. 2025
    (ringtech.notion.site/icepop), alpha 0.5 and beta 5.0; Ring-1T, arXiv 2510.18855.

    Raises:
        ValueError: a band that is not 0 <= low < high.
    """

    low: float = 0.5
    high: float = 5.0
    around: PPOClip = field(default_factory=PPOClip)
    id: str = "icepop"
    title: str = "IcePop"

    def __post_init__(self) -> None:
        """Refuse what has no meaning."""
        self._masked()

    def __call__(self, batch: Batch) -> Estimate:
        """Loss and diagnostics of one batch."""
        return self._masked()(batch)

    def _masked(self) -> MIS:
        return MIS(low=self.low, high=self.high, level=Level.TOKEN, ratio=Ratio.TOTAL, around=self.around)
