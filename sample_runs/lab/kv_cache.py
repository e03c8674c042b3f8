"""The engine's memory: keys and values of every slot, layer and position."""

from __future__ import annotations

import torch
from torch import Tensor

from sample_runs.lab.kv_format import KVFormat, kv_format
from sample_runs.lab.model import HEAD_WIDTH, HEADS, LAYERS
from sample_runs.lab.precision import requantised
from sample_runs.lab.settings import NO_FAULTS, EngineFaults
from sample_runs.lab.task import CONTEXT, PROMPT

PREFIX = PROMPT - 1  # the last prompt token is fed by the decoding step, which needs its logits


class KVCache:
    """Keys and values (L, N, C, H, D); what lies behind a slot's last token is masked, so it need not be cleared."""

    def __init__(self, slots: int, faults: EngineFaults = NO_FAULTS) -> None:
        self.format: KVFormat = kv_format(faults.kv_cache_dtype, faults.kv_scale_margin)
        self.requantised_bits = faults.kv_requantised_bits
        self.keys = torch.zeros(LAYERS, slots, CONTEXT, HEADS, HEAD_WIDTH)
        self.values = torch.zeros_like(self.keys)

    def requantise(self, layer: int, slots: Tensor) -> None:
        """Bring what some slots hold of a layer to a fresh scale for each position, in place."""
        for stored in (self.keys, self.values):
            stored[layer, slots] = requantised(stored[layer, slots].flatten(-2), self.requantised_bits).view(-1, CONTEXT, HEADS, HEAD_WIDTH)

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
        if self.cache.requantised_bits and positions.shape[1] == 1:  # a token is decoded
            self.cache.requantise(layer, self.slots)
        at = (layer, self.slots[:, None], positions)
        stored = self.cache.format
        self.cache.keys[at] = stored(positions, keys)
        self.cache.values[at] = stored(positions, values)
        visible = torch.arange(CONTEXT)[None, None, :] <= positions[:, :, None]
        return self.cache.keys[layer, self.slots], self.cache.values[layer, self.slots], visible
