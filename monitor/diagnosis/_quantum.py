"""The step of one side's logits: do differences of its log-probabilities after one prefix come in multiples of a power of two?"""

from __future__ import annotations

import math
from dataclasses import dataclass

from monitor.diagnosis._prefixes import QUANTA
from monitor.diagnosis.outcome import Curve, Evidence
from monitor.diagnosis.portrait import Portrait

SHARE = 0.9  # of the differences, from which they are multiples of a step; 0.04 by chance
FEWEST = 30  # differences


@dataclass(frozen=True, kw_only=True)
class Quantum:
    """The coarsest step of which nearly all differences of one side are multiples."""

    side: str  # engine or trainer
    step: float  # nats of logits
    temperature: float  # by which log-probabilities were multiplied to give logits
    share: float


def coarsest(portrait: Portrait, side: str) -> Quantum | None:
    """The coarsest step of a side at any temperature; None where there is none, or too few differences to tell."""
    prefix = portrait.whole.prefix
    if prefix.differences < FEWEST:
        return None
    shares = getattr(prefix, f"{side}_multiples") / prefix.differences
    found = [
        Quantum(side=side, step=step, temperature=temperature, share=float(shares[row, column]))
        for row, temperature in enumerate(portrait.temperatures)
        for column, step in enumerate(QUANTA)
        if shares[row, column] > SHARE
    ]
    return max(found, key=lambda one: one.step, default=None)


def steps_evidence(portrait: Portrait, one: Quantum) -> Evidence:
    """The share of multiples by step, as a picture."""
    prefix, row = portrait.whole.prefix, portrait.temperatures.index(one.temperature)
    shares = getattr(prefix, f"{one.side}_multiples")[row] / prefix.differences
    return Evidence(
        metric="portrait.same_prefix_multiples",
        says=f"{one.share:.1%} of the {one.side}'s same-prefix differences, times {one.temperature:g}, are multiples of "
        f"{fraction(one.step)}",
        value=one.share,
        threshold=SHARE,
        source="4 % by chance",
        curve=Curve(
            x=tuple(math.log2(step) for step in QUANTA),
            y=tuple(float(share) for share in shares),
            x_title="log2 of the step in nats",
            y_title="share of differences that are multiples",
            expected=(0.04,) * len(QUANTA),
        ),
    )


def fraction(step: float) -> str:
    """A power of two in words."""
    return "1" if step == 1 else f"1/{round(1 / step)}"
