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

    raw: str  # as the framework writes it
    quantity: str  # metric id
    sign: int = 1  # -1 where the framework logs the negative of the quantity
    estimator: str = ""  # k1, k2, k3 of a KL; "" where there is only one way
    ratio: str = ""  # total, discrepancy, lag; "" for a quantity of one policy
    truncation: str = ""  # whether the ratio was truncated before it was measured, in words
    aggregation: str = ""  # over what the mean is taken, in words, where it is not tokens
    versions: str = ""  # from when to when the framework writes the key
    placeholder: float | None = None  # a value that stands for "none"
    caveat: str = ""

    @property
    def all_caveats(self) -> str:
        """Everything to be known beside the value, in one text."""
        return "; ".join(part for part in (self.caveat, self.truncation, self.aggregation, self.versions) if part)


@dataclass(frozen=True, kw_only=True)
class Derived:
    """Values computed from several keys of one log, with what stood in the way."""

    scalars: pa.Table = field(default_factory=SCALARS.empty_table)  # SCALARS; each caveat begins with "derived"
    problems: tuple[ReadProblem, ...] = ()


def _as_it_is(key: Key, _config: Config) -> Key:
    return key


def _nothing(_raw: RawLog, _config: Config) -> Derived:
    return Derived()


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """One framework. A file of `ingest/dialects` ends in one of these, named DIALECT."""

    id: str
    title: str
    old_is: str  # what the denominator policy of this framework is, in words
    keys: tuple[Key, ...]
    aliases: tuple[Key, ...] = ()  # words that other frameworks may use too: taken, but no reason to choose this dialect
    hints: Mapping[str, str] = field(default_factory=dict)  # raw key -> why it is not taken
    tokens: Mapping[str, str] = field(default_factory=dict)  # raw token column -> canonical column
    config: Mapping[str, str] = field(default_factory=dict)  # raw setting -> our setting
    adjust: Callable[[Key, Config], Key] = _as_it_is  # what the settings change about a key
    derive: Callable[[RawLog, Config], Derived] = _nothing  # values that need several keys
