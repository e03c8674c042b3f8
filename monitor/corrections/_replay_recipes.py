"""Which corrections are tried on a log: what each does to the importance weight of a token or a sequence, and at which cap."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from monitor.corrections._options import WEIGHT_LEVELS, settle
from monitor.metrics.bounds import ClipBounds
from monitor.metrics.terms import Level

CAPS = (1.5, 2.0, 3.0, 5.0)
ICEPOP_FLOOR = 0.5  # IcePop's lower bound in NeMo-RL and OpenRLHF
_SPOKEN = {Level.TOKEN: "token", Level.SEQUENCE: "sequence", Level.SEQUENCE_MEAN: "sequence mean"}


class Family(StrEnum):
    """Whose correction it is."""

    NONE = "none"
    PPO_CLIP = "ppo_clip"
    GSPO = "gspo"
    CISPO = "cispo"
    TIS = "tis"
    MIS = "mis"
    ICEPOP = "icepop"
    DLC = "dlc"
    REJECTION = "rejection"  # units outside the bounds are dropped, those inside keep weight 1: verl's rollout_rs


class Action(StrEnum):
    """What happens to a weight."""

    KEEP = "every weight is 1"
    CLIP = "dropped where the objective's clip takes the gradient away"
    TRUNCATE = "held within the bounds"
    MASK = "set to 0 outside the bounds"
    REJECT = "set to 0 outside the bounds, 1 inside"


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One correction with its bounds on the weight w = exp(log ratio) of one unit of its level."""

    family: Family
    action: Action
    level: Level
    low: float = 0.0
    high: float = math.inf

    def __post_init__(self) -> None:
        """Take family, action and level by name too; a ValueError says which names there are."""
        settle(self, family=Family, action=Action, level=WEIGHT_LEVELS)

    @property
    def id(self) -> str:
        """`<family>.<level>` and its bounds, for tables and JSON."""
        bounds = "" if self.action is Action.KEEP else f"@{self.low:.5g}-{self.high:.5g}" if self.low else f"@{self.high:.4g}"
        return f"{self.family}.{self.level}{bounds}"

    @property
    def title(self) -> str:
        """The correction as a reader calls it, without its bounds."""
        level = _SPOKEN[self.level]
        return {
            Family.NONE: "No correction",
            Family.PPO_CLIP: "PPO clip",
            Family.GSPO: "GSPO clip",
            Family.CISPO: "CISPO",
            Family.TIS: f"TIS, {level}",
            Family.MIS: f"MIS, {level}",
            Family.ICEPOP: "IcePop",
            Family.DLC: f"DLC, {level}",
            Family.REJECTION: f"rejection, {level}",
        }[self.family]

    @property
    def bounds(self) -> str:
        """Its bounds in words; empty where it has none."""
        if self.action is Action.KEEP:
            return ""
        if not math.isfinite(self.high):
            return f"at least {self.low:.4g}" if self.low else "no cap"
        return f"{self.low:.5g} to {self.high:.5g}" if self.low else f"at most {self.high:.4g}"

    @property
    def capped(self) -> bool:
        """Whether its upper bound is a cap that one chooses: not without weights, and not an objective's own clip."""
        return self.action not in (Action.KEEP, Action.CLIP)

    @property
    def weighs(self) -> tuple[Action, Level, float, float]:
        """All that its weights depend on; recipes of two families may share it."""
        return (self.action, self.level, self.low, self.high)

    @property
    def logs(self) -> tuple[float, float]:
        """The bounds as log ratios; x itself is compared, so that no rounding of exp decides at the edge."""
        return (math.log(self.low) if self.low > 0 else -math.inf), (math.log(self.high) if self.high > 0 else -math.inf)


NONE = Recipe(family=Family.NONE, action=Action.KEEP, level=Level.TOKEN)


def ppo_clip(low: float = ClipBounds.eps_low, high: float = ClipBounds.eps_high) -> Recipe:
    """PPO's clip: a token's gradient is lost where its ratio leaves [1 - low, 1 + high] in the advantage's direction."""
    return Recipe(family=Family.PPO_CLIP, action=Action.CLIP, level=Level.TOKEN, low=max(0.0, 1 - low), high=1 + high)


def gspo(low: float = ClipBounds.sequence_eps_low, high: float = ClipBounds.sequence_eps_high) -> Recipe:
    """GSPO's clip: the same for the geometric mean of a sequence's ratios."""
    return Recipe(family=Family.GSPO, action=Action.CLIP, level=Level.SEQUENCE_MEAN, low=max(0.0, 1 - low), high=1 + high)


def cispo(high: float, low: float = 0.0) -> Recipe:
    """CISPO: the token's ratio is held within [low, high], and every token keeps its gradient."""
    return Recipe(family=Family.CISPO, action=Action.TRUNCATE, level=Level.TOKEN, low=low, high=high)


def tis(level: Level, cap: float, low: float = 0.0) -> Recipe:
    """Truncated importance sampling: min(w, cap)."""
    return Recipe(family=Family.TIS, action=Action.TRUNCATE, level=level, low=low, high=cap)


def mis(level: Level, cap: float, low: float | None = None) -> Recipe:
    """Masked importance sampling: w inside [low, cap], else 0; low is 1/cap where not given."""
    return Recipe(family=Family.MIS, action=Action.MASK, level=level, low=1 / cap if low is None else low, high=cap)


def icepop(cap: float, low: float = ICEPOP_FLOOR) -> Recipe:
    """IcePop: a token's ratio inside [low, cap], else 0."""
    return Recipe(family=Family.ICEPOP, action=Action.MASK, level=Level.TOKEN, low=low, high=cap)


def dlc(level: Level, cap: float) -> Recipe:
    """The lag weight of DLC (definitions, section 10): min(w, cap); what centring adds needs the engine's distribution."""
    return Recipe(family=Family.DLC, action=Action.TRUNCATE, level=level, high=cap)


DEFAULT = (
    NONE,
    ppo_clip(),
    gspo(),
    *(tis(level, cap) for level in _SPOKEN for cap in CAPS),
    *(dlc(level, cap) for level in (Level.SEQUENCE, Level.TOKEN) for cap in CAPS),
    *(cispo(cap) for cap in CAPS),
    *(mis(level, cap) for level in _SPOKEN for cap in CAPS),
    *(icepop(cap) for cap in CAPS),
)
"""What is tried where nothing else is asked for."""
