"""Where a ratio counts as clipped: the bounds of the objective that was trained with."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:  # so that the corrections of a training loop need no pyarrow
    from ingest.run import Config


@dataclass(frozen=True, kw_only=True)
class ClipBounds:
    """Distances from 1 at which a ratio w is clipped: w < 1 - low or w > 1 + high.

    The defaults are PPO's 0.2 (arXiv 1707.06347) and GSPO's 3e-4 / 4e-4 for the sequence ratio (arXiv 2507.18071).
    """

    eps_low: float = 0.2
    eps_high: float = 0.2
    sequence_eps_low: float = 3e-4
    sequence_eps_high: float = 4e-4

    def __post_init__(self) -> None:
        """Refuse bounds that no ratio could be compared with."""
        for name, value in self.as_dict().items():
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} must be a finite number of at least 0, found {value}")

    @classmethod
    def of(cls, config: Config) -> Self:
        """Take what the run's configuration says under `objective.*`; the default where it says nothing."""
        named = {name: config.get(f"objective.{name}") for name in cls.__dataclass_fields__}
        return cls(**{name: float(value) for name, value in named.items() if value is not None})

    def as_dict(self) -> dict[str, float]:
        """The four bounds by name, for a file's metadata."""
        return {name: float(getattr(self, name)) for name in self.__dataclass_fields__}

    @property
    def token(self) -> tuple[float, float]:
        """The token bounds as log ratios; x itself is compared, so that no rounding of exp decides at the edge."""
        return _logs(self.eps_low, self.eps_high)

    @property
    def sequence(self) -> tuple[float, float]:
        """The same for the mean log ratio of a sequence."""
        return _logs(self.sequence_eps_low, self.sequence_eps_high)


def _logs(low: float, high: float) -> tuple[float, float]:
    return (math.log1p(-low) if low < 1 else -math.inf), math.log1p(high)
