"""Moments of importance weights w = exp(x) that stay right near 1 and beyond the range of float64.

Near 1 they come from sums of expm1(x) and of its square, so that 1 - ESS and mean - 1 keep their digits; otherwise from a
log-space pair shifted by the maximum, so that x = 999 overflows nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from monitor.metrics.partial import HUGE, NEAR, Far, RatioCount, RatioSum, StepPartial
from monitor.metrics.terms import Ratio

NAN = float("nan")


@dataclass(frozen=True, kw_only=True)
class Weights:
    """Moments of n weights; every field is NaN where n = 0."""

    n: int
    ess: float = NAN  # fraction, (sum w)^2 / (n sum w^2)
    deficit: float = NAN  # 1 - ess, with its own digits
    excess: float = NAN  # mean of w, minus 1; inf where the mean leaves float64
    log_sum: float = NAN  # log of sum w
    log_sum_sq: float = NAN  # log of sum w^2
    log_top: float = NAN  # log of the largest w

    @classmethod
    def of_partial(cls, partial: StepPartial, ratio: Ratio) -> Self:
        """Token weights of one ratio, from its partial sums."""
        place = ratio.row
        counts, sums = partial.ratio_counts[place], partial.ratio_sums[place]
        near = (sums[RatioSum.NEAR_E], sums[RatioSum.NEAR_E2])
        middle = (sums[RatioSum.MID_E], sums[RatioSum.MID_E2])
        return cls._of(
            int(counts[RatioCount.N]), int(counts[RatioCount.FAR]), near, middle, partial.far[place], partial.ratio_highest[place]
        )

    @classmethod
    def of_logs(cls, x_S: NDArray[np.float64]) -> Self:
        """Weights given one by one as logarithms, in nats."""
        if not len(x_S):
            return cls(n=0)
        near_S, far_S = x_S[np.abs(x_S) <= NEAR], x_S[np.abs(x_S) > NEAR]
        near_e, middle_e = np.expm1(near_S), np.expm1(far_S[far_S <= HUGE])
        top = far_S.max() if len(far_S) else -np.inf
        shifted = np.exp(far_S - top) if len(far_S) else far_S
        triple = np.array([top, shifted.sum(), (shifted**2).sum()])
        near, middle = (near_e.sum(), (near_e**2).sum()), (middle_e.sum(), (middle_e**2).sum())
        return cls._of(len(x_S), len(far_S), near, middle, triple, x_S.max())

    @classmethod
    def _of(  # noqa: PLR0913, PLR0917 - the sums it finishes
        cls,
        n: int,
        n_far: int,
        near: tuple[float, float],
        middle: tuple[float, float],
        far: NDArray[np.float64],
        top: float,
    ) -> Self:
        if n == 0:
            return cls(n=0)
        # With half of the weights near 1, the sum n + e keeps all its digits, and so do the moments around 1.
        around_one = top <= HUGE and 2 * n_far <= n
        if around_one:
            shift, e, e2 = 0.0, near[0] + middle[0], near[1] + middle[1]
            first, second, spread = n + e, n + 2 * e + e2, n * e2 - e * e
        else:
            n_near = n - n_far
            shift = max(float(far[Far.MAX]), 0.0) if n_near else float(far[Far.MAX])
            scale = np.exp(-shift) if n_near else 0.0
            first = (n_near + near[0]) * scale + far[Far.S1] * np.exp(far[Far.MAX] - shift)
            second = (n_near + 2 * near[0] + near[1]) * scale**2 + far[Far.S2] * np.exp(2 * (far[Far.MAX] - shift))
            spread = n * second - first * first
        log_sum = shift + float(np.log(first))
        return cls(
            n=n,
            ess=float(min(max(first * first / (n * second), 1 / n), 1.0)),
            deficit=float(min(max(spread / (n * second), 0.0), 1 - 1 / n)),
            excess=float(e / n) if around_one else _expm1(log_sum - np.log(n)),
            log_sum=log_sum,
            log_sum_sq=2 * shift + float(np.log(second)),
            log_top=float(top),
        )

    @property
    def log_standard_error(self) -> float:
        """Logarithm of the iid standard error of the mean weight: var = sum w^2 (1 - ESS) / (n - 1). -inf where all are equal."""
        if self.n < 2:  # noqa: PLR2004 - a spread needs two
            return NAN
        with np.errstate(divide="ignore"):
            return float(0.5 * (self.log_sum_sq + np.log(self.deficit) - np.log(self.n - 1.0) - np.log(self.n)))

    @property
    def standard_error(self) -> float | None:
        """The same as a number; None where n < 2, inf where it leaves float64."""
        return None if self.n < 2 else _exp(self.log_standard_error)  # noqa: PLR2004

    @property
    def z(self) -> float | None:
        """(mean - 1) / standard error, also where both overflow; None where n < 2."""
        if self.n < 2:  # noqa: PLR2004
            return None
        if self.excess == 0:
            return 0.0
        log_se = self.log_standard_error
        if log_se == -np.inf:
            return float(np.copysign(np.inf, self.excess))
        if np.isfinite(self.excess):
            return self.excess * _exp(-log_se)
        return _exp(self.log_sum - float(np.log(self.n)) - log_se) - _exp(-log_se)

    @property
    def largest_share(self) -> float:
        """Share of the largest weight in the sum."""
        return float(np.exp(self.log_top - self.log_sum)) if self.n else NAN


def _exp(x: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.exp(x))


def _expm1(x: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.expm1(x))
