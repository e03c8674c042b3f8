"""The layers in which engine and trainer may part, in the order in which the questions are asked."""

from __future__ import annotations

from enum import StrEnum


class Layer(StrEnum):
    """Where a fault sits, or a setting acts (field reports, C2)."""

    DATA = "data"  # can the pair be compared at all
    SEMANTICS = "semantics"  # are the recorded log-probabilities those of the sampler
    INFERENCE_PATH = "inference_path"  # caches, scheduling, weight sync
    NUMERICS = "numerics"  # precision and kernels, at fixed weights
    LAG = "lag"  # the trainer moved on
    OBJECTIVE = "objective"  # only what is left
    OTHER = "other"  # of settings that act in none of them

    @property
    def words(self) -> str:
        """As it is written on a page."""
        return "inference path" if self is Layer.INFERENCE_PATH else str(self)


LAYERS = tuple(layer for layer in Layer if layer is not Layer.OTHER)
