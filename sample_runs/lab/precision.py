"""How coarse is the engine's arithmetic? Number formats, emulated by rounding the operands and results of every operation.

Products are accumulated in float32, as the hardware does. Native bfloat16 products are twenty times slower on a CPU that lacks them,
hence the emulation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

FP8_E4M3_LARGEST = 448.0  # largest finite value of the format
SCALE_MARGIN = 1.05  # a scale chosen a little too large, so that nothing saturates
INT4_LARGEST = 7.0  # symmetric range -7 .. 7


@dataclass(frozen=True, kw_only=True)
class Precision:
    """One number format: how weights (rounded once, when they are loaded) and activations (at each operation) are rounded."""

    name: str
    weights: Callable[[Tensor], Tensor]
    values: Callable[[Tensor], Tensor]
    attention_block: int = 0  # positions an attention kernel sums before it rounds; 0: all at once


def exact(x: Tensor) -> Tensor:
    """Float32 as it is."""
    return x


def bfloat16(x: Tensor) -> Tensor:
    """Nearest bfloat16 (8 significant bits), kept in float32."""
    return x.to(torch.bfloat16).to(torch.float32)


def fp8_e4m3(x: Tensor) -> Tensor:
    """Nearest fp8-e4m3 (4 significant bits) after scaling each row's largest magnitude to the format's largest value."""
    scale = x.abs().amax(dim=-1, keepdim=True).clamp(min=1e-12) / FP8_E4M3_LARGEST
    return (x / scale).to(torch.float8_e4m3fn).to(torch.float32) * scale


def int4(x: Tensor) -> Tensor:
    """Nearest of 15 levels, one scale for each output channel (row)."""
    scale = x.abs().amax(dim=-1, keepdim=True).clamp(min=1e-12) / INT4_LARGEST
    return (x / scale).round().clamp(-INT4_LARGEST, INT4_LARGEST) * scale


def requantised(x: Tensor, bits: int) -> Tensor:
    """To integers and back with a fresh scale for each row, by a cast that cuts off: a little is lost each time it is done."""
    scale = x.abs().amax(dim=-1, keepdim=True).clamp(min=1e-12) * SCALE_MARGIN / (2 ** (bits - 1) - 1)
    return (x / scale).trunc() * scale


def untouched(_layer: int, sums: Tensor) -> Tensor:
    """Sums of a wide accumulator."""
    return sums


@dataclass(frozen=True, kw_only=True)
class Arithmetic:
    """The formats of a forward pass: of everything but the head, of the last product with its logits, and of a mixture's router."""

    body: Precision
    head: Precision
    router: Precision
    accumulated: Callable[[int, Tensor], Tensor] = untouched  # what a layer's accumulator makes of the sums of its MLP's last product


PRECISIONS = {
    precision.name: precision
    for precision in (
        Precision(name="float32", weights=exact, values=exact),
        Precision(name="bfloat16", weights=bfloat16, values=bfloat16),
        Precision(name="fp8_e4m3", weights=fp8_e4m3, values=fp8_e4m3),
        Precision(name="int4", weights=int4, values=bfloat16),  # weight-only, as int4 kernels are
    )
}
EXACT = Arithmetic(body=PRECISIONS["float32"], head=PRECISIONS["float32"], router=PRECISIONS["float32"])
