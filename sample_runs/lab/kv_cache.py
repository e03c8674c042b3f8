"""The engine's memory: keys and values of every slot, layer and position."""

from __future__ import annotations

import torch
from torch import Tensor

from sample_runs.lab.model import HEAD_WIDTH, HEADS, LAYERS
from sample_runs.lab.task import CONTEXT, PROMPT

PREFIX = PROMPT - 1  # the last prompt token is fed by the decoding step, which needs its logits


class KVCache:
    """Keys and values (L, N, C, H, D); what lies behind a slot's last token is masked, so it need not be cleared."""

    def __init__(self, slots: int) -> None:
        self.keys = torch.zeros(LAYERS, slots, CONTEXT, HEADS, HEAD_WIDTH)
        self.values = torch.zeros_like(self.keys)

    def rows(self, slots: Tensor) -> CachedRows:
        """The memory of some slots, for one pass."""
        return CachedRows(self, slots)

    def prefix(self, slot: int) -> tuple[Tensor, Tensor]:
        """A copy of one slot's keys and values of the prompt."""
        return self.keys[:, slot, :PREFIX].clone(), self.values[:, slot, :PREFIX].clone()

    def put_prefix(self, slot: int, prefix: tuple[Tensor, Tensor]) -> None:
        """Use keys and values of a prompt that were computed earlier, under whatever weights."""
        self.keys[:, slot, :PREFIX], self.values[:, slot, :PREFIX] = prefix


class CachedRows:
    """`model.Memory` over some slots of a cache: writes the new positions, then shows all up to each query."""

    def __init__(self, cache: KVCache, slots: Tensor) -> None:
        self.cache, self.slots = cache, slots

    def attend(self, layer: int, keys: Tensor, values: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Store and look up; see `model.Memory`."""
        at = (layer, self.slots[:, None], positions)
        self.cache.keys[at], self.cache.values[at] = keys, values
        visible = torch.arange(CONTEXT)[None, None, :] <= positions[:, :, None]
        return self.cache.keys[layer, self.slots], self.cache.values[layer, self.slots], visible
