"""Truncated importance sampling: weights cut at a cap, per token, per sequence or by the sequence's mean."""

from __future__ import annotations

import math
from dataclasses import dataclass

from monitor.corrections._diagnostics import share
from monitor.corrections._weighted import check_weighting, log_weights, weighted
from monitor.corrections.batch import Batch
from monitor.corrections.correction import Estimate
from monitor.corrections.ppo import PPOClip
from monitor.metrics.terms import Level, Ratio


@dataclass(frozen=True, kw_only=True)
class TIS:
    """W A grad log pi(y), or W times the gradient of the objective `around` which it stands; W = min(w, cap), constant.

    w = exp(x_t), exp(sum_t x_t) or exp(mean_t x_t) by `level`; x is the log ratio. Around PPO, `Ratio.TOTAL` leaves W the part of the
    total that PPO's own ratio does not hold, pi_anchor / mu, as the frameworks do it.

    Removes: the discrepancy and the lag (`total`), or one of them. `sequence` is the only level that corrects the distribution of
    prefixes, and is unbiased but for the cap; its weights collapse with length. `token` leaves the prefixes as the sampler had them.
    `sequence_mean` keeps weights near 1 and corrects for neither. Leaves the bias of the cap, at most E[(w - cap)+] max|A grad|;
    gives E[W^2] <= cap. Needs `rollout` (`total`), `same_weights` and `rollout` (`discrepancy`), or `same_weights` (`lag`).
    Espeholt et al. 2018 (arXiv 1802.01561, the truncated ratio of V-trace); Yao et al. 2025 (fengyao.notion.site/off-policy-rl, for the
    mismatch of engines, token, cap 2). Token and sequence truncation: verl's rollout correction and TRL's
    `vllm_importance_sampling_mode`. Cap 2.0: verl's `rollout_is_threshold`.

    Raises:
        ValueError: a cap that is not positive, a level or a ratio that is none (`step` is no level of a weight), or the lag
            ratio around an objective that holds it already.
    """

    cap: float = 2.0
    level: Level = Level.TOKEN
    ratio: Ratio = Ratio.TOTAL
    around: PPOClip | None = None
    id: str = "tis"
    title: str = "Truncated importance sampling"

    def __post_init__(self) -> None:
        """Refuse what has no meaning."""
        check_weighting(self, 0.0, self.cap)

    def __call__(self, batch: Batch) -> Estimate:
        """Loss and diagnostics of one batch."""
        tokens, x = log_weights(batch, self)
        weights = tokens.weight(x).clamp(max=self.cap)
        truncated = share(x > math.log(self.cap), tokens.seen(self.level))
        return weighted(batch, tokens, x, weights, self, truncated=truncated)
