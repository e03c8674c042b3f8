"""Which key of a dialect a logged key is: spelled out, or as a pattern."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from ingest.dialect import Dialect, Key
from ingest.run import Config

GROUP_ENDS = (".group_low", ".group_high")  # how readers name the envelope of a group's mean
_WILD = re.compile(r"(\*\*|\*)")
_MEANS = {"**": ".*", "*": "[^/]*"}


def base_key(key: str) -> str:
    """The key without the ending that marks a group's envelope."""
    return next((key.removesuffix(end) for end in GROUP_ENDS if key.endswith(end)), key)


def is_pattern(raw: str) -> bool:
    """Whether a key of a dialect stands for more than one spelling."""
    return "*" in raw


def matches(raw: str, key: str) -> bool:
    """Whether a logged key is the one a dialect names, as it is or by a pattern."""
    return raw == key or (is_pattern(raw) and compiled(raw).fullmatch(key) is not None)


@lru_cache(maxsize=4096)
def compiled(pattern: str) -> re.Pattern[str]:
    """A pattern of a dialect as a regular expression."""
    return re.compile("".join(_MEANS.get(part) or re.escape(part) for part in _WILD.split(pattern)), re.DOTALL)


def hint_for(hints: Mapping[str, str], key: str) -> str | None:
    """Why a key is not taken: said of the key itself, or of a pattern that it fits."""
    return hints.get(key) or next((said for raw, said in hints.items() if is_pattern(raw) and matches(raw, key)), None)


@dataclass(frozen=True, kw_only=True)
class Names:
    """The keys of a dialect under the settings of one run, for the keys of one log."""

    dialect: Dialect
    config: Config
    present: Iterable[str] = field(default_factory=tuple)  # base keys of the log

    @cached_property
    def known(self) -> dict[str, Key | None]:
        """Key as the dialect spells it -> the same under these settings; None where it is no quantity under them."""
        return {key.raw: self.dialect.adjust(key, self.config) for key in reversed((*self.dialect.keys, *self.dialect.aliases))}

    @cached_property
    def _patterns(self) -> list[str]:
        return [key.raw for key in (*self.dialect.keys, *self.dialect.aliases) if is_pattern(key.raw)]

    @cached_property
    def spelled(self) -> dict[str, str]:
        """Base key of the log -> the dialect's spelling of it; exact keys before patterns, patterns in the dialect's order."""
        return {name: raw for name in self.present if (raw := self._spelling(name)) is not None}

    def _spelling(self, name: str) -> str | None:
        if name in self.known and not is_pattern(name):
            return name
        return next((raw for raw in self._patterns if matches(raw, name)), None)

    def key(self, name: str) -> Key | None:
        """What a base key of the log is; None where the dialect does not take it."""
        raw = self.spelled.get(name)
        return None if raw is None else self.known[raw]

    @cached_property
    def winners(self) -> dict[str, str]:
        """Quantity -> the logged key it is taken from: the first in the dialect's order, of a pattern the first by name."""
        found: dict[str, list[str]] = {}
        for name in sorted(self.spelled):
            found.setdefault(self.spelled[name], []).append(name)
        winners: dict[str, str] = {}
        for known in (*self.dialect.keys, *self.dialect.aliases):
            key = self.known[known.raw]
            if key is not None and known.raw in found:
                winners.setdefault(key.quantity, found[known.raw][0])
        return winners
