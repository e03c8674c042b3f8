"""Which reader takes a path, and which dialect knows a log's keys: exactly one, or an error that lists each one's objection."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ingest.dialect import Dialect
from ingest.discover import discover
from ingest.errors import UnknownContainerError, UnknownDialectError
from ingest.reader import Reader

GROUP_ENDS = (".group_low", ".group_high")  # how readers name the envelope of a group's mean
_LISTED = 12
_LFS = b"version https://git-lfs"


def readers() -> tuple[Reader, ...]:
    """All containers that can be read."""
    return discover("ingest.readers", "READER")


def dialects() -> tuple[Dialect, ...]:
    """All frameworks whose names are known."""
    return discover("ingest.dialects", "DIALECT")


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


def identify_dialect(keys: Iterable[str]) -> Dialect:
    """Find the dialect that knows the most of a log's keys; words that several frameworks may use count only among equals.

    Raises:
        UnknownDialectError: no dialect knows any key, or several know equally many.
    """
    bases = {base_key(key) for key in keys}
    scores = [(dialect, score(dialect, bases)) for dialect in dialects()]
    best = max(reached for _, reached in scores)
    winners = [dialect for dialect, reached in scores if reached == best]
    if best == (0, 0):
        raise UnknownDialectError(unknown(bases))
    if len(winners) > 1:
        names = ", ".join(dialect.id for dialect in winners)
        raise UnknownDialectError(f"The keys fit {names} equally well; name the dialect. Keys seen: {_listed(bases)}.")
    return winners[0]


def dialect_named(name: str) -> Dialect:
    """Find a dialect by its id.

    Raises:
        UnknownDialectError: there is none of that name.
    """
    known = {dialect.id: dialect for dialect in dialects()}
    if name not in known:
        raise UnknownDialectError(f"There is no dialect named {name[:80]}; there are {', '.join(known)}.")
    return known[name]


def base_key(key: str) -> str:
    """The key without the ending that marks a group's envelope."""
    return next((key.removesuffix(end) for end in GROUP_ENDS if key.endswith(end)), key)


def score(dialect: Dialect, keys: set[str]) -> tuple[int, int]:
    """How many keys a dialect knows for its own, and how many with its aliases."""
    own = sum(key.raw in keys for key in dialect.keys)
    return own, own + sum(key.raw in keys for key in dialect.aliases)


def unknown(keys: set[str]) -> str:
    """The sentence for keys that no dialect knows: what was seen, and how to map it."""
    hints = [f"{key}: {dialect.hints[key]}" for dialect in dialects() for key in sorted(keys) if key in dialect.hints]
    known = ", ".join(dialect.id for dialect in dialects())
    return (
        f"None of the logged keys is known: {_listed(keys)}. "
        + "".join(f"{hint}. " for hint in hints)
        + f"Known dialects: {known}. Rename the keys to our metric ids (kl.total.k3, reward.mean, …); docs/formats.md lists them."
    )


def _listed(keys: set[str]) -> str:
    shown = ", ".join(key[:80] for key in sorted(keys)[:_LISTED]) or "none"
    return shown if len(keys) <= _LISTED else f"{shown} and {len(keys) - _LISTED} more"


def _is_lfs_pointer(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_LFS)) == _LFS
