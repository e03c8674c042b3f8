"""What a correction is: from a batch to a loss whose gradient is its estimator, and what it did on the way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from monitor.corrections.batch import Batch


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimate:
    """A loss per token, and diagnostics.

    Args:
        loss: the shape and dtype of `batch.current`, 0 where a token does not count. Its gradient is minus the estimator, so it is
            minimised. Reduce it yourself: `estimate.loss.sum() / n`, with an n that does not depend on the batch (the mean over a
            sequence gives long responses less weight). Its value means nothing where weights are constants,
            and in float16 it can overflow where its gradient does not.
        diagnostics: scalars, float64, without gradient, by the ids of the glossary where it has one: `ess.<ratio>.<level>`,
            `ratio.<ratio>.mean`, `clip_rate.<ratio>.<rule>`; beside them
            `correction.truncated`: share of the weights that were cut at the cap, one weight a token or a sequence,
            `correction.masked`: share of the counted tokens whose gradient is dropped,
            `correction.nonfinite`: tokens left out, of the loss and of their sequence's weight, because a log-probability that is
            needed or an advantage is NaN or infinite,
            `correction.clamped`: log weights beyond the range of `monitor.corrections._weights.limit`, held at it,
            `correction.heaviest_sequence`: share of the weight, summed over tokens, that one sequence carries,
            `correction.centre_lost`: mean engine mass that a centre leaves out, because the trainer gives it none or its tail cannot be
            told from rounding.
            NaN where nothing counts.
    """

    loss: Tensor
    diagnostics: dict[str, Tensor]


class Correction(Protocol):
    """A member of the family, or your own."""

    @property
    def id(self) -> str:
        """Short name, stable: the key in files."""
        ...

    @property
    def title(self) -> str:
        """Name for people."""
        ...

    def __call__(self, batch: Batch) -> Estimate:
        """Loss and diagnostics of one batch."""
        ...
