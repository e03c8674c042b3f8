"""What a dialect is: the names one framework has for our quantities, and what must be known to read its numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from ingest.run import Config, RawLog, ReadProblem
from ingest.schema import SCALARS


@dataclass(frozen=True, kw_only=True)
class Key:
    """One raw key of a framework and the quantity it stands for. A quantity that several keys give is taken from the first of them."""

    raw: str  # as the framework writes it; `*` stands for anything but a slash, `**` for anything at all
    quantity: str  # metric id
    sign: int = 1  # -1 where the framework logs the negative of the quantity
    scale: float = 1.0  # the value is multiplied by it, to reach the quantity's unit
    estimator: str = ""  # k1, k2, k3 of a KL; "" where there is only one way
    ratio: str = ""  # total, discrepancy, lag; "" for a quantity of one policy
    truncation: str = ""  # whether the ratio was truncated before it was measured, in words
    aggregation: str = ""  # over what the mean is taken, in words, where it is not tokens
    versions: str = ""  # from when to when the framework writes the key
    placeholder: float | None = None  # a value that stands for "none"
    constant: str = ""  # why the value is always the same, in words, where it is so by construction
    floor: float | None = None  # what the value cannot fall under, however bad the run is
    caveat: str = ""

    @property
    def all_caveats(self) -> str:
        """Everything to be known beside the value, in one text."""
        parts = (self.caveat, self.truncation, self.aggregation, self.versions, self._bound, self._constant)
        return "; ".join(part for part in parts if part)

    @property
    def _bound(self) -> str:
        return "" if self.floor is None else f"cannot fall under {self.floor:g}: an alert below that can never fire on this key"

    @property
    def _constant(self) -> str:
        return f"constant by construction: {self.constant}" if self.constant else ""


Settings = Mapping[str, tuple[str | int | float | bool, str]]
"""Our setting -> its value, and the key of the framework's own configuration that says so."""


@dataclass(frozen=True, kw_only=True)
class Derived:
    """Values computed from several keys of one log, with what stood in the way."""

    scalars: pa.Table = field(default_factory=SCALARS.empty_table)  # SCALARS; each caveat begins with "derived"
    problems: tuple[ReadProblem, ...] = ()


def _as_it_is(key: Key, _config: Config) -> Key:
    return key


def _nothing(_raw: RawLog, _config: Config) -> Derived:
    return Derived()


def _no_course(_config: Config, _course: Mapping[int, float]) -> Config:
    return {}


def _no_settings(_config: Config) -> Settings:
    return {}


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """One framework. A file of `ingest/dialects` ends in one of these, named DIALECT."""

    id: str
    title: str
    old_is: str  # what the denominator policy of this framework is, in words
    keys: tuple[Key, ...]
    aliases: tuple[Key, ...] = ()  # words that other frameworks may use too: taken, but no reason to choose this dialect
    hints: Mapping[str, str] = field(default_factory=dict)  # raw key, or pattern as in Key.raw -> why it is not taken
    tokens: Mapping[str, str] = field(default_factory=dict)  # raw token column -> canonical column
    config: Mapping[str, str] = field(default_factory=dict)  # raw setting -> our setting, where only the name differs
    step: tuple[str, ...] = ()  # raw keys that are the true step, the best first, for logs whose reader counted something else
    adjust: Callable[[Key, Config], Key | None] = _as_it_is  # what the settings change about a key; None: no quantity under them
    derive: Callable[[RawLog, Config], Derived] = _nothing  # values that need several keys
    pooled: str = ""  # raw key whose course over all steps enters derived values, by way of `pool`; else they depend on their own step only
    pool: Callable[[Config, Mapping[int, float]], Config] = _no_course  # settings, and step -> value: what `derive` is given of the course
    old_is_for: Callable[[Config], str] | None = None  # what the denominator policy is where the settings decide
    settings: Callable[[Config], Settings] = _no_settings  # settings that need more than a rename
