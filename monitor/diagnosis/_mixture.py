"""Do most tokens agree while a few are far off: two kinds of tokens, and not one kind with a broad spread?"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from monitor.diagnosis import _profiles, _sizes
from monitor.diagnosis.outcome import Curve, Evidence
from monitor.diagnosis.portrait import FAR, Portrait, StepPortrait

Floats = NDArray[np.float64]

GIANT = 4.0  # nats: a factor of 55
_BROAD = 2.2  # one kind of noise with heavy tails has a share s of uncertain tokens beyond _BROAD * s^-_SLOPE medians
_SLOPE = 0.6  # (fitted to fp8, int4 and bfloat16 bodies and caches of the lab, whose tails are heavier than normal noise)
_POPULATED = 100  # tokens of a place class


@dataclass(frozen=True, kw_only=True)
class Mixture:
    """The far tokens beside the others, before any change of weights inside a response."""

    tokens: float
    far: float  # tokens beyond ln 2
    giants: float  # tokens beyond GIANT
    floor: float  # median |gap| of tokens the engine was not certain of, nats
    apart: float  # how many times farther ln 2 lies than a broad noise of one kind would reach; above 1: two kinds of tokens
    uneven: float  # largest over smallest mean |gap| by place, improbability taken out; 1: spread evenly
    last: float  # share of the squared gap that last tokens of responses make
    early: float  # share of far tokens in the first third of the steps over that of the run
    kurtosis: float

    @property
    def share(self) -> float:
        """Share of tokens beyond ln 2."""
        return self.far / self.tokens if self.tokens else math.nan


def mixture(portrait: Portrait) -> Mixture:
    """Look at all tokens of a run."""
    whole = portrait.whole
    every, unsure = whole.size.sum(axis=0), whole.size[1]
    floor = _sizes.quantile(unsure, 0.5)
    share = _sizes.beyond(unsure, FAR) / unsure.sum() if unsure.sum() else 0.0
    squares = whole.end[:, _profiles.X2]
    return Mixture(
        tokens=float(every.sum()),
        far=_sizes.beyond(every, FAR),
        giants=_sizes.beyond(every, GIANT),
        floor=floor,
        apart=FAR / (floor * _BROAD * share**-_SLOPE) if share else 0.0,
        uneven=_uneven(whole),
        last=float(squares[0] / squares.sum()) if squares.sum() else 0.0,
        early=_early(portrait),
        kurtosis=whole.kurtosis,
    )


def by_place(whole: StepPortrait) -> tuple[Floats, Floats]:
    """Sum of |gap| at each place, and what tokens as improbable have on average; both NaN where a place has few tokens."""
    table = whole.place_surprise
    usual = np.nan_to_num(_profiles.abs_mean(table.sum(axis=0)))
    expected = (table[..., _profiles.N] * usual).sum(axis=1)
    few = (table[..., _profiles.N].sum(axis=1) < _POPULATED) | (expected <= 0)
    return np.where(few, np.nan, table[..., _profiles.ABS].sum(axis=1)), np.where(few, np.nan, expected)


def sizes_evidence(whole: StepPortrait, found: Mixture) -> Evidence:
    """The histogram of |gap|, as a picture of two kinds of tokens."""
    every = whole.size.sum(axis=0)
    return Evidence(
        metric="portrait.far_share",
        says=f"{found.share:.3%} of {found.tokens:.0f} tokens are beyond ln 2, half of the uncertain ones within {found.floor:.2g} nats",
        value=found.share,
        curve=Curve(
            x=tuple(float(value) for value in np.log10(_sizes.EDGES)),
            y=tuple(float(value) for value in every[1:] / max(every.sum(), 1.0)),
            x_title="log10 of |gap| in nats, from",
            y_title="share of tokens",
        ),
    )


def _uneven(whole: StepPortrait) -> float:
    own, expected = by_place(whole)
    values = (own / expected)[np.isfinite(own)]
    return float(values.max() / max(values.min(), 1e-9)) if len(values) else math.nan


def _early(portrait: Portrait) -> float:
    steps = list(portrait.steps)
    first = portrait.of(steps[: max(1, math.ceil(len(steps) / 3))])
    return first.far_share / portrait.whole.far_share if portrait.whole.far else math.nan
