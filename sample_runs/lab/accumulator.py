"""What does an integer accumulator that is too narrow make of a sum? Where the sum is larger than any it was made for, it wraps around.

Kernels for small integers choose their scale from the sums of a calibration batch, with some headroom. A sum beyond the largest they can
hold comes out with the opposite sign.
"""

from __future__ import annotations

import torch
from torch import Tensor


class WrappingAccumulator:
    """Calibrated on the first batch each layer sees."""

    def __init__(self, headroom: float) -> None:
        self.headroom, self.largest = headroom, dict[int, float]()

    def __call__(self, layer: int, sums: Tensor) -> Tensor:
        """The sums, those beyond the largest wrapped around."""
        if layer not in self.largest:
            self.largest[layer] = float(sums.abs().max()) * self.headroom
        largest = self.largest[layer]
        return torch.where(sums.abs() > largest, torch.remainder(sums + largest, 2 * largest) - largest, sums)
