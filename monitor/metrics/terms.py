"""The closed sets of words that every metric is named with: which ratio, which level, how far a split can be trusted."""

from __future__ import annotations

from enum import StrEnum


class Ratio(StrEnum):
    """One of the three log ratios of a sampled token; total = discrepancy + lag, exactly (reference: metrics, section 2)."""

    TOTAL = "total"  # log pi - log mu
    DISCREPANCY = "discrepancy"  # log pi_gen - log mu: engine against trainer, same weights
    LAG = "lag"  # log pi - log pi_gen: same trainer, newer weights against the generator's

    @property
    def row(self) -> int:
        """Row of this ratio in every per-ratio array of a partial."""
        return RATIOS.index(self)


RATIOS = tuple(Ratio)


class Level(StrEnum):
    """What one observation of a metric is."""

    TOKEN = "token"  # noqa: S105 - a level, not a password
    SEQUENCE = "sequence"
    SEQUENCE_MEAN = "sequence_mean"
    STEP = "step"


class Provenance(StrEnum):
    """How far the split of one step may be trusted."""

    EXACT = "exact"  # same_weights_logprob is logged
    SYNCHRONOUS = "synchronous"  # old_logprob was computed under the version that sampled every token
    ESTIMATED = "estimated"  # from the version lags; drawn differently
    UPPER_BOUND = "upper bound"  # old_logprob in an asynchronous run: discrepancy and part of the lag
    NOT_SEPARABLE = "not separable"  # only the total
