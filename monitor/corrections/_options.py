"""Whether the options of a correction mean something: names become members of their set, and numbers lie where they can."""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import StrEnum

from monitor.metrics.terms import Level

WEIGHT_LEVELS = (Level.TOKEN, Level.SEQUENCE, Level.SEQUENCE_MEAN)  # a weight belongs to a token or a sequence; a step has none


def settle(of: object, **sets: Iterable[StrEnum]) -> None:
    """Turn the named options of a dataclass, frozen or not, into members of their sets; `level="token"` then is `Level.TOKEN`.

    Without it a name would be taken for none of the members: they are compared by identity.

    Raises:
        ValueError: an option is neither a member nor the name of one; with the names.
    """
    for option, members in sets.items():
        given = getattr(of, option)
        found = _member(option, given, tuple(members))
        if found is not given:
            object.__setattr__(of, option, found)


def check_cap(cap: float) -> None:
    """Refuse a cap that no weight could reach, and NaN, which compares with none; infinity is no cap.

    Raises:
        ValueError: with what was found.
    """
    if not cap > 0:
        raise ValueError(f"a cap is positive, found {cap}")


def check_band(low: float, high: float) -> None:
    """Refuse the bounds of a ratio's clip to [1 - low, 1 + high] where 1 lies outside of them, and NaN.

    Raises:
        ValueError: with what was found.
    """
    if not (low >= 0 and high >= 0):
        raise ValueError(f"a ratio is clipped to [1 - low, 1 + high] around 1, low and high at least 0; found low {low}, high {high}")


def check_finite_cap(cap: float | None) -> None:
    """The same for a cap that may be absent, and that infinity cannot stand for.

    Raises:
        ValueError: with what was found.
    """
    if cap is not None and not 0 < cap < math.inf:
        raise ValueError(f"a cap is positive and finite, or None for no cap; found {cap}")


def _member(option: str, given: object, members: tuple[StrEnum, ...]) -> StrEnum:
    for member in members:
        if given is member:
            return member
    for member in members:
        if given == member.value:
            return member
    raise ValueError(f"{option} is one of {', '.join(members)}; found {given!r}")
