"""Which reader takes a path, and which dialect knows a log's keys: exactly one, or an error that lists each one's objection."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ingest._names import GROUP_ENDS, base_key, hint_for, is_pattern, matches
from ingest.dialect import Dialect, Key
from ingest.discover import discover
from ingest.errors import UnknownContainerError, UnknownDialectError
from ingest.reader import Reader
from ingest.run import Config

_LISTED = 12
_DECISIVE = 5  # keys named as the reason for a dialect
_LFS = b"version https://git-lfs"
_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+):(?!\\)\S.*")  # at least two letters before the colon: one is a drive


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The dialect of a log, and why it is that one."""

    dialect: Dialect
    why: str


def readers() -> tuple[Reader, ...]:
    """All containers that can be read."""
    return discover("ingest.readers", "READER")


def dialects() -> tuple[Dialect, ...]:
    """All frameworks whose names are known."""
    return discover("ingest.dialects", "DIALECT")


def address_reader(text: str) -> Reader | None:
    """The reader of an address such as `wandb:entity/project/run`; None for what is a path."""
    match = _ADDRESS.fullmatch(text)
    if match is None or Path(text).exists():
        return None
    return next((reader for reader in readers() if match[1] in reader.schemes), None)


def identify_reader(path: Path) -> Reader:
    """Find the one reader that takes a path, by its content.

    Raises:
        UnknownContainerError: the path does not exist, no reader takes it, or several do.
    """
    if not path.exists():
        raise UnknownContainerError(f"{path}: there is no such file or folder.")
    if path.is_file() and _is_lfs_pointer(path):
        raise UnknownContainerError(f"{path}: this is a Git LFS pointer, not the file itself. Fetch it with 'git lfs pull'.")
    objections = [(reader, reader.objection(path)) for reader in readers()]
    takers = [reader for reader, objection in objections if objection is None]
    if len(takers) == 1:
        return takers[0]
    if takers:
        raise UnknownContainerError(f"{path}: could be any of {', '.join(reader.title for reader in takers)}.")
    listed = "; ".join(f"no {reader.title}: {objection}" for reader, objection in objections)
    raise UnknownContainerError(f"{path}: no known kind of log ({listed}). docs/formats.md says what can be read.")


def identify_dialect(keys: Iterable[str], config: Config | None = None) -> Dialect:
    """Find the dialect of a log's keys; see `choose_dialect`."""
    return choose_dialect(keys, config).dialect


def choose_dialect(keys: Iterable[str], config: Config | None = None) -> Choice:
    """Find the dialect that knows the most of a log's keys.

    Among equals count, in this order: words that several frameworks may use, settings that are spelled as the framework spells them,
    and what the run calls its own framework. Words that mean the same to all of them are read in our own names.

    Raises:
        UnknownDialectError: no dialect knows any key, or several are equal in all of this.
    """
    bases, settings = {base_key(key) for key in keys}, config or {}
    scores = {dialect.id: (score(dialect, bases), *_claims(dialect, settings)) for dialect in dialects()}
    ranked = sorted(dialects(), key=lambda dialect: scores[dialect.id], reverse=True)
    if scores[ranked[0].id][0] == (0, 0):
        raise UnknownDialectError(unknown(bases))
    equal = [dialect for dialect in ranked if scores[dialect.id] == scores[ranked[0].id]]
    best = ranked[0] if len(equal) == 1 else _neutral(equal, bases)
    return Choice(dialect=best, why=_why(best, [dialect for dialect in ranked if dialect is not best], bases, settings))


def dialect_named(name: str) -> Dialect:
    """Find a dialect by its id.

    Raises:
        UnknownDialectError: there is none of that name.
    """
    known = {dialect.id: dialect for dialect in dialects()}
    if name not in known:
        raise UnknownDialectError(f"There is no dialect named {name[:80]}; there are {', '.join(known)}.")
    return known[name]


def score(dialect: Dialect, keys: set[str]) -> tuple[int, int]:
    """How many keys of a dialect's own a log has, and how many with its aliases; a pattern counts once, whatever it matches."""
    own = sum(has(key, keys) for key in dialect.keys)
    return own, own + sum(has(key, keys) for key in dialect.aliases)


def has(key: Key, keys: set[str]) -> bool:
    """Whether a log has a key of a dialect, or one that fits its pattern."""
    return key.raw in keys or (is_pattern(key.raw) and any(matches(key.raw, name) for name in keys))


def unknown(keys: set[str]) -> str:
    """The sentence for keys that no dialect knows: what was seen, and how to map it."""
    known = ", ".join(dialect.id for dialect in dialects())
    return (
        f"None of the logged keys is known: {_listed(keys)}. {_hints(keys)}Known dialects: {known}. "
        "Say what the keys are in a mapping file (--map, or the Upload page), or rename them to our metric ids (kl.total.k3, reward.mean); "
        "docs/formats.md has both."
    )


def _hints(keys: set[str]) -> str:
    said = {f"{key}: {hint}. ": None for dialect in dialects() for key in sorted(keys)[:_LISTED] if (hint := hint_for(dialect.hints, key))}
    return "".join(list(said)[:_DECISIVE])


def _claims(dialect: Dialect, settings: Config) -> tuple[int, bool]:
    framework = str(settings.get("framework.name", "")).lower()
    return sum(raw in settings for raw in dialect.config), framework in (dialect.id, dialect.title.lower())


def _neutral(equal: list[Dialect], keys: set[str]) -> Dialect:
    """Our own names, where every key that the equal dialects know is a word of ours as well.

    Raises:
        UnknownDialectError: they are not.
    """
    known = {name for name in keys for dialect in equal if _knows(dialect, name)}
    own = next((dialect for dialect in dialects() if dialect.id == "plain"), None)
    claims = own is not None and own in equal and score(own, keys)[0] > 0  # its ids are in the log: no mere words
    if own is not None and not claims and all(_knows(own, name) for name in known):
        return own
    names = ", ".join(sorted(dialect.id for dialect in equal))
    shared = sorted(name for name in known if all(_knows(dialect, name) for dialect in equal))
    deciding = f" All of them know {_named(shared)}." if shared else ""
    sentence = f"The keys fit {names} equally well; name the dialect (--dialect {equal[0].id}).{deciding} {_hints(keys)}"
    raise UnknownDialectError(f"{sentence}Keys seen: {_listed(keys)}.")


def _knows(dialect: Dialect, name: str) -> bool:
    return any(matches(key.raw, name) for key in (*dialect.keys, *dialect.aliases))


def _why(best: Dialect, others: list[Dialect], keys: set[str], settings: Config) -> str:
    """Which keys decided, and how far the next dialect was."""
    own = sorted(name for name in keys if any(matches(key.raw, name) for key in best.keys))
    shared = sorted(name for name in keys if any(matches(key.raw, name) for key in best.aliases))
    taken = f"{best.title} writes {len(own)} of the {len(keys)} keys: {_named(own)}"
    said = [taken if own else f"common words, taken as {best.title}: {_named(shared)}"]
    rival = others[0] if others else None
    if rival is not None and own and (reached := score(rival, keys)) != (0, 0):
        settled = f"knows as many; the settings decided ({_named(sorted(set(best.config) & set(settings)))})"
        said.append(f"the next, {rival.title}, " + (settled if reached == score(best, keys) else f"knows {reached[1]}"))
    return "; ".join(said)


def _named(keys: list[str]) -> str:
    return _listed(set(keys), _DECISIVE)


def _listed(keys: set[str], most: int = _LISTED) -> str:
    shown = ", ".join(key[:80] for key in sorted(keys)[:most]) or "none"
    return shown if len(keys) <= most else f"{shown} and {len(keys) - most} more"


def _is_lfs_pointer(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_LFS)) == _LFS


__all__ = [
    "GROUP_ENDS",
    "Choice",
    "address_reader",
    "base_key",
    "choose_dialect",
    "dialect_named",
    "dialects",
    "has",
    "identify_dialect",
    "identify_reader",
    "readers",
    "score",
    "unknown",
]
