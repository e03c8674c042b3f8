"""The level of the gap under each version of the weights: does it leave its floor at the first update, or only later?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from monitor.diagnosis._profiles import ABS, X2, N
from monitor.diagnosis.portrait import Portrait, StepPortrait

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SURE = 3.0  # standard errors, of each level; a tenth of the tokens at such levels is far beyond chance
DESIGN = 2.0  # tokens of a response are not independent: their mean is this much less certain than that of as many independent ones
DOUBLED = 2.0  # a mean |gap| that left its floor
DOUBLED_SQUARE = math.sqrt(2.0)  # the same of a root mean square: as much again on top of it
LEAST = 0.005  # nats; an engine at its floor shows as much (field report A31)
SHARE, SHARE_TEMPERED = 0.1, 0.5  # of the later tokens; the line through a few samples is less sure than a mean
DAMAGE, DAMAGE_FACTOR = 0.1, 3.0  # nats, and times the floor
STEADY = 1.5  # factor by which a level may still grow after a jump
AT_ONCE = 1.25  # times the floor, at the very first update
TEMPERED, EXPLAINED = 0.05, 0.5  # distance of the same-prefix slope from 1, and share of the gap it explains, for a wrong temperature
FEWEST = 20  # tokens or pairs under a level, for it to be one
FIRST_UPDATES = 2  # versions after the first in which a load fails for the first time


class Shape(StrEnum):
    """What the levels do."""

    SINGLE = "one version"
    FLAT = "flat"
    JUMP = "jump at the first update"
    AT_ONCE = "grows from the first update on"
    LATER = "grows later than the first update"


@dataclass(frozen=True, kw_only=True, eq=False)
class Levels:
    """The size of the gap under each version of the weights, or in each step where versions were not recorded."""

    by: str  # rollout_version or step
    keys: Ints  # (V,) rising
    n: Floats
    level: Floats  # mean |gap|, nats; root mean square about the same-prefix line where `tempered`
    error: Floats
    tempered: bool  # a wrong temperature was taken out

    @property
    def factor(self) -> float:
        """From where a level is no longer the first one."""
        return DOUBLED_SQUARE if self.tempered else DOUBLED

    @property
    def high(self) -> NDArray[np.bool_]:
        """Levels beyond the first one, in size and surely."""
        apart = self.level - self.level[0] > SURE * np.hypot(self.error, self.error[0])
        return np.asarray(apart & (self.level > self.factor * self.level[0]) & (self.level > LEAST))

    @property
    def share(self) -> float:
        """Share of the tokens after the first level that are at levels beyond it."""
        return float(self.n[self.high].sum() / self.n[1:].sum())

    @property
    def late(self) -> float:
        """Mean level where it is beyond the first one; NaN where it nowhere is."""
        return float(np.average(self.level[self.high], weights=self.n[self.high])) if self.high.any() else math.nan

    @property
    def shape(self) -> Shape:
        """What the levels do."""
        if len(self.keys) < 2:  # noqa: PLR2004 - one level cannot change
            return Shape.SINGLE
        if self.share < (SHARE_TEMPERED if self.tempered else SHARE):
            return Shape.FLAT
        first = int(np.argmax(self.high))
        # A stretch of a run has several updates in it: only the second can be the first that is all beyond the first update.
        if first <= (1 if self.tempered else FIRST_UPDATES) and self._damaging(first):
            return Shape.JUMP
        early = self.level[1] - self.level[0] > 3 * np.hypot(self.error[0], self.error[1])
        return Shape.AT_ONCE if early and self.level[1] > AT_ONCE * self.level[0] else Shape.LATER

    def _damaging(self, first: int) -> bool:
        # A step may begin under the first weights and end under the second.
        jump = self.level[first : first + 2].max() if self.by == "step" else self.level[first]
        return bool(jump > max(DAMAGE, DAMAGE_FACTOR * self.level[0]) and np.median(self.level[first:]) < STEADY * jump)


def levels(portrait: Portrait) -> Levels:
    """The levels of a run; by step, and without the part that a wrong temperature explains, where there is such a part."""
    if _tempered(portrait):
        return _tempered_levels(portrait)
    if "rollout_version" in portrait.columns:
        by, rows = "rollout_version", portrait.whole.version
    else:
        by, rows = "step", {step: np.array([one.n, 0.0, one.abs_sum, one.moments[2]]) for step, one in portrait.steps.items()}
    keys = np.array(sorted(key for key, sums in rows.items() if sums[N] >= FEWEST), np.int64)
    sums = np.array([rows[int(key)] for key in keys]).reshape(-1, 4)
    level = sums[:, ABS] / sums[:, N]
    spread = np.sqrt(np.maximum(sums[:, X2] / sums[:, N] - level**2, 0.0))
    return Levels(by=by, keys=keys, n=sums[:, N], level=level, error=DESIGN * spread / np.sqrt(sums[:, N]), tempered=False)


def since(portrait: Portrait, found: Levels) -> int | None:
    """First step with tokens of a high level; None where there is none."""
    high = set(found.keys[found.high].tolist())
    if found.by == "step":
        return min(high, default=None)
    return next((step for step, one in portrait.steps.items() if high & set(one.version)), None)


def affected(portrait: Portrait) -> tuple[int, ...]:
    """Steps whose mean |gap| is beyond that of the first one."""
    first = next(iter(portrait.steps.values())).abs_mean
    return tuple(step for step, one in portrait.steps.items() if one.abs_mean > max(DOUBLED * first, LEAST))


def _tempered(portrait: Portrait) -> bool:
    """Whether the trainer's side is the engine's at another temperature, already in the first steps."""
    one = portrait.of(list(portrait.steps)[: max(1, len(portrait.steps) // 5)]).prefix
    if not one.engine or not one.within:
        return False
    slope = one.both / one.engine
    return bool(abs(slope - 1) > TEMPERED and 1 - (one.trainer - slope * one.both) / one.within > EXPLAINED)


def _tempered_levels(portrait: Portrait) -> Levels:
    """Root mean square about the same-prefix line, over tenths of the run: the line is the temperature, what is left is not."""
    parts = np.array_split(np.array(list(portrait.steps)), min(10, len(portrait.steps)))
    found = [portrait.of(part.tolist()) for part in parts]
    use = np.array([one.prefix.pairs >= FEWEST for one in found])
    n, level = (np.array(values)[use] for values in ([one.prefix.pairs for one in found], [_about_the_line(one) for one in found]))
    keys = np.array([part[0] for part in parts], np.int64)[use]
    return Levels(by="step", keys=keys, n=n, level=level, error=DESIGN * level / np.sqrt(2 * n), tempered=True)


def _about_the_line(one: StepPortrait) -> float:
    found = one.prefix
    if not found.engine or not found.pairs:
        return math.nan
    return math.sqrt(max(found.trainer - found.both**2 / found.engine, 0.0) / found.pairs)
