"""What does the engine hold after a push? All of what was sent, unless the load leaves parts out, damages them or works on old ones.

Every load reports success and the new version, as in the reports that these switches were made from.
"""

from __future__ import annotations

import torch
from torch import Tensor

from sample_runs.lab.model import Weights
from sample_runs.lab.precision import bfloat16, requantised
from sample_runs.lab.settings import EngineFaults

PARTS = {"all": "", "head": "head", "layer": "1."}  # sync_missing -> how the names begin that are not loaded
POSITION_BITS = 8


class Loader:
    """Takes pushes; `held` is what the engine has, before it is rounded to the engine's formats."""

    def __init__(self, faults: EngineFaults) -> None:
        self.faults, self.pushes = faults, -1
        self.held: Weights = {}
        self.head_copy: Tensor | None = None

    def load(self, sent: Weights) -> Weights:
        """What the engine holds after a push; the first load always brings everything."""
        self.pushes += 1
        loaded = dict(sent)
        if self.pushes:
            loaded |= self._left_out()
            loaded |= damaged(loaded, self.faults)
        if every := self.faults.requantise_position:
            position = self.held.get("position", sent["position"])
            loaded["position"] = position if self.pushes % every else requantised(position, POSITION_BITS)
        if self.faults.cached_head:
            loaded["head"] = self._copied(sent["head"])
        self.held = loaded
        return loaded

    def overlapped(self) -> bool:
        """True when a forward pass reads the head while this push writes it: a race that one push in so many loses."""
        share = self.faults.overlapping_updates
        return int(self.pushes * share) > int((self.pushes - 1) * share)

    def _left_out(self) -> Weights:
        missing = self.faults.sync_missing
        return {name: value for name, value in self.held.items() if missing and name.startswith(PARTS[missing])}

    def _copied(self, head: Tensor) -> Tensor:
        """The head in float32, converted from the bfloat16 that was sent; converted once, or again after some pushes."""
        refresh = self.faults.cached_head_refresh
        if self.head_copy is None or (refresh and self.pushes % refresh == 0):
            self.head_copy = bfloat16(head)
        return self.head_copy


def damaged(weights: Weights, faults: EngineFaults) -> Weights:
    """The parts that a second load brings in another order than the first."""
    if faults.sync_damage == "permuted":  # the rows of `up` through an index made for the first load, the columns of `down` without
        up, rows = weights["0.up"], faults.damaged_rows
        return {"0.up": torch.cat([up[:rows].roll(1, dims=0), up[rows:]])}
    if faults.sync_damage == "transposed":
        return {"1.out": weights["1.out"].T.contiguous()}
    return {}


def half_written(head: Tensor) -> Tensor:
    """A head whose second half was not written yet: fresh memory, which may hold anything, NaN included."""
    written = head.clone()
    written[len(head) // 2 :] = torch.nan
    return written
