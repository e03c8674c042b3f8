"""Which tokens make up a sequence: sums over it and back, the same for padded and packed batches."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from monitor.corrections.batch import Batch


@dataclass(frozen=True, kw_only=True, eq=False)
class Layout:
    """Sequences of a batch; no shape depends on the values, so that it compiles to one graph."""

    shape: tuple[int, ...]
    sequence: Tensor | None  # packed: index of each token's sequence [N]
    n_sequences: int

    @classmethod
    def of(cls, batch: Batch) -> Layout:
        """The layout of a batch."""
        return cls.over(tuple(batch.current.shape), batch.offsets)

    @classmethod
    def over(cls, shape: tuple[int, ...], offsets: Tensor | None) -> Layout:
        """The layout of tokens [B, T], or [N] with offsets [S + 1]."""
        if offsets is None:
            return cls(shape=shape, sequence=None, n_sequences=shape[0])
        places = torch.arange(shape[0], device=offsets.device)
        ends = offsets[1:].contiguous()
        return cls(shape=shape, sequence=torch.searchsorted(ends, places, right=True), n_sequences=ends.shape[0])

    def total(self, x: Tensor) -> Tensor:
        """Sum over the tokens of each sequence, [S]."""
        if self.sequence is None:
            return x.sum(-1)
        return torch.zeros(self.n_sequences, dtype=x.dtype, device=x.device).index_add(0, self.sequence, x)

    def spread(self, x: Tensor) -> Tensor:
        """A value of each sequence [S] given to each of its tokens."""
        return x[:, None].expand(self.shape) if self.sequence is None else x[self.sequence]

    def mean(self, x: Tensor, counted: Tensor) -> Tensor:
        """Mean over the counted tokens of each sequence [S]; 0 where it has none. x is 0 where not counted."""
        return self.total(x) / self.total(counted.to(x.dtype)).clamp(min=1.0)

    def per_token(self, values: Tensor) -> Tensor:
        """Advantages in the shape of the tokens, whichever shape they were given in."""
        if tuple(values.shape) == self.shape:
            return values
        return self.spread(values.reshape(-1))
