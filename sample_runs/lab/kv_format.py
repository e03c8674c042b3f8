"""In which format does the engine keep keys and values, and with which scale?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

SCALE_POSITION = 1  # the prompt's first digit
INT8_LARGEST = 127.0


class KVFormat(Protocol):
    """What becomes of keys or values (B, Q, H, D) when they are stored at some positions (B, Q)."""

    def __call__(self, positions: Tensor, x: Tensor) -> Tensor:
        """The numbers as they will be read."""


class Rounded:
    """Each number alone to the nearest of a format that needs no scale, as engines do without calibrated scales."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype

    def __call__(self, _positions: Tensor, x: Tensor) -> Tensor:
        """See `KVFormat`."""
        return x.to(self.dtype).to(torch.float32)


class FirstDigitScale:
    """A prompt's keys and values as int8, as they are sent from the engine that fills prompts in to the one that decodes.

    One scale for each prompt and layer, that of the first digit with some margin. The cast wraps around where a number does not fit, so
    some prompts arrive damaged and the others do not, whenever they are asked. What is decoded stays as it is.
    """

    def __init__(self, margin: float) -> None:
        self.margin = margin

    def __call__(self, positions: Tensor, x: Tensor) -> Tensor:
        """See `KVFormat`."""
        if positions.shape[1] <= SCALE_POSITION:  # a token is decoded
            return x
        scale = x[:, SCALE_POSITION].abs().amax(dim=(-2, -1))[:, None, None, None] * self.margin / INT8_LARGEST
        return (x / scale).round().to(torch.int32).to(torch.int8) * scale


def kv_format(name: str, margin: float) -> KVFormat:
    """The format of a `kv_cache_dtype`."""
    kinds: dict[str, Callable[[], KVFormat]] = {
        "auto": lambda: lambda _positions, x: x,
        "fp8_e4m3": lambda: Rounded(torch.float8_e4m3fn),
        "fp8_e5m2": lambda: Rounded(torch.float8_e5m2),
        "int8": lambda: FirstDigitScale(margin),
    }
    return kinds[name]()
