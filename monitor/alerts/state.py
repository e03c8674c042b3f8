"""The state of one rule in one run: what it has seen, what was told of it, and until when it is silenced; as JSON and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self

from monitor.alerts._plain import from_plain, packed, plain, unpacked
from monitor.alerts._runs import Run
from monitor.alerts._seen import Seen
from monitor.alerts._told import Told
from monitor.alerts._walk import Phase, Stay, Walk
from monitor.alerts.levels import Mark


@dataclass(frozen=True, kw_only=True)
class State:
    """See the module. Immutable: `machine.update` returns another."""

    rule: str
    run: str
    phase: Phase = Phase.ABSENT
    since: int | None = None  # step from which the phase holds, where that is a step
    seen: Seen = field(default_factory=Seen)
    told: Told = field(default_factory=Told)  # of the rule's own episodes
    told_nan: Told = field(default_factory=Told)  # of stretches without a number
    count: int = 0  # notifications so far, against the rule's cap
    silenced_until: float = 0.0  # seconds since the epoch
    news_at: float | None = None  # when the last new step came, for a rule on missing data
    armed: bool = False  # whether the run has been seen to grow, for the same rule
    due: float = 0.0  # when an update without any value may next change something; infinite where only a value can
    sign: str = ""  # under which condition the marks were made, see `levels.Against.sign`

    @property
    def episode(self) -> str:
        """Id of the episode that was told and is not over; "" where there is none. A stretch without a number comes first."""
        return self.told_nan.episode or self.told.episode

    def to_json(self) -> str:
        """The state as one line of JSON."""
        said = {each.name: getattr(self, each.name) for each in fields(self)}
        said |= {"seen": _seen(self.seen), "told": _differs(self.told), "told_nan": _differs(self.told_nan), "due": plain(self.due)}
        return json.dumps(said, allow_nan=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """What `to_json` wrote."""
        said: dict[str, Any] = json.loads(text)
        parts = {"phase": Phase(said["phase"]), "seen": _unseen(said["seen"]), "due": _number(said["due"])}
        return cls(**{**said, **parts, "told": Told(**said["told"]), "told_nan": Told(**said["told_nan"])})


def _differs(told: Told) -> dict[str, Any]:
    """The fields that are not as they are when nothing was told."""
    return {name: value for name, value in asdict(told).items() if value != getattr(Told(), name)}


def _seen(seen: Seen) -> dict[str, Any]:
    return {
        "runs": [[run.first, run.last, run.distance, run.mark] for run in seen.runs],
        "base": {each.name: getattr(seen.base, each.name) for each in fields(seen.base)},
        "folded": seen.folded,
        "place": seen.place,
        "last": None if seen.last is None else [seen.last[0], plain(seen.last[1])],
        "values": packed(seen.values),
        "floor_values": seen.floor_values,
    }


def _unseen(said: Mapping[str, Any]) -> Seen:
    base = {**said["base"], **{name: None if said["base"][name] is None else Stay(*said["base"][name]) for name in ("firing", "nan")}}
    return Seen(
        runs=tuple(Run(first, last, distance, Mark(mark)) for first, last, distance, mark in said["runs"]),
        base=Walk(**base),
        folded=said["folded"],
        place=said["place"],
        last=None if said["last"] is None else (said["last"][0], _number(said["last"][1])),
        values=unpacked(said["values"]),
        floor_values=tuple((step, value) for step, value in said["floor_values"]),
    )


def _number(said: float | str) -> float:
    number = from_plain(said)
    assert number is not None  # noqa: S101 - plain makes None of None only
    return number
