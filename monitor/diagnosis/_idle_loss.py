"""Whether the loss's own ratio ever leaves 1: a clip that cannot act, whatever the engine does."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from monitor.diagnosis.case import Case
from monitor.metrics.series import Series, series

RATIOS = ("update", "lag", "total")  # what a framework's ratio may be; its own words decide
CLIPS = ("outside", "effective", "sequence", "high", "low")
EXACT = 1e-6  # a ratio of the same forward pass is 1 but for the digits of the log
FEWEST = 3  # steps; fewer may be the start of a run, where every ratio is 1


@dataclass(frozen=True, kw_only=True)
class Idle:
    """A clip rate of 0 and a ratio of 1 at every step."""

    clip: Series
    ratio: Series  # a mean ratio, or a KL or log ratio that is 0

    @property
    def kind(self) -> str:
        """Which ratio it is, as metric ids name it."""
        return self.clip.metric.split(".")[1]


def idle_loss(case: Case) -> Idle | None:
    """What a framework logged of its own loss, where it never moves; None where it moves, or is not logged.

    Only what was logged counts: tokens show the ratios of the definitions, not the one the loss was taken with.
    """
    for kind in RATIOS:
        clip = _first(case, [f"clip_rate.{kind}.{end}" for end in CLIPS], 0.0)
        ratio = _first(case, [f"ratio.{kind}.mean", f"ratio_sequence_mean.{kind}.mean"], 1.0)
        still = ratio or _first(case, [f"log_ratio.{kind}.abs_mean", *(f"kl.{kind}.{end}" for end in ("k1", "k3"))], 0.0)
        if clip and still:
            return Idle(clip=clip, ratio=still)
    return None


def _first(case: Case, metrics: list[str], value: float) -> Series | None:
    """The first metric that has this value at every step; None where one of them has another."""
    logged = [one for one in (series(case.frame, name, origin="logged") for name in metrics) if np.isfinite(one.values).sum() >= FEWEST]
    still = [one for one in logged if np.nanmax(np.abs(one.values - value)) <= EXACT]
    return still[0] if still and len(still) == len(logged) else None
