"""A raw log becomes a run: which dialect it is in, on which clock, what its settings and its numbers are called here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from ingest._clock import Timed, timed
from ingest._mapping import map_scalars
from ingest._names import base_key
from ingest._sampled import sampled
from ingest._seams import Joined, joined
from ingest._settings import settings
from ingest.dialect import Dialect, Key
from ingest.errors import ReadError, UnknownDialectError
from ingest.identify import choose_dialect, has, score, unknown
from ingest.readers._rows import coded
from ingest.readers.run_folder import DESCRIPTION
from ingest.run import Config, ProblemKind, RawLog, ReadProblem, Role, Run
from ingest.user_mapping import laid_over

_NOT_SETTINGS = ("name", "role", "group")  # of run.toml: they are fields of the Run
_NO_DIALECT = Dialect(id="", title="", old_is="", keys=())
_MAPPED = Dialect(id="mapping", title="the user's mapping", old_is="not known: the mapping names quantities, not policies", keys=())


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What the user says about a log before it is looked at."""

    dialect: Dialect | None = None
    keys: tuple[Key, ...] = ()  # the user's word on single keys


@dataclass(frozen=True, kw_only=True)
class Explained:
    """What is known of a log before its numbers are named."""

    dialect: Dialect
    why: str
    config: Config
    sources: Mapping[str, str]
    on_clock: Timed
    whole: Joined


def understand(raw: RawLog, wish: Wish, run_id: str) -> Run:
    """Turn one raw log into a run.

    Raises:
        UnknownDialectError: no dialect knows any of its keys, or several know equally many, and it has no token log.
    """
    return understood(raw, explained(raw, wish), wish, run_id)


def explained(raw: RawLog, wish: Wish) -> Explained:
    """Find out in which dialect a log is, under which settings, and at which steps its values stand.

    Raises:
        UnknownDialectError: as `understand`.
    """
    dialect, why = _dialect(raw, wish)
    config, sources = settings(raw.config, dialect)
    on_clock = timed(raw, dialect.step)
    return Explained(dialect=dialect, why=why, config=config, sources=sources, on_clock=on_clock, whole=joined(on_clock.raw))


def understood(raw: RawLog, known: Explained, wish: Wish, run_id: str) -> Run:
    """Name the numbers of a log that is explained."""
    dialect, config, whole = known.dialect, known.config, known.whole
    scalars, problems = map_scalars(whole.raw, dialect, config, whole.marks, known.on_clock.caveats)
    return Run(
        id=run_id,
        name=raw.name,
        path=raw.path,
        dialect=dialect.id,
        old_is=dialect.old_is_for(config) if dialect.old_is_for else dialect.old_is,
        scalars=scalars,
        tokens=raw.tokens,
        config={key: value for key, value in config.items() if key not in _NOT_SETTINGS},
        problems=(*whole.raw.problems, *sampled(whole.raw), *problems, *_misspelled(raw, wish)),
        role=_role(raw),
        group=str(raw.config.get("group", "")),
        root=Path(raw.path) if Path(raw.path).is_dir() else None,
        container=raw.container,
        why=known.why,
        config_sources=known.sources,
    )


def _misspelled(raw: RawLog, wish: Wish) -> list[ReadProblem]:
    """Keys that the user names and the log does not have: a misspelling would otherwise change nothing, without a word."""
    seen = [base_key(key) for key in coded(raw.scalars.column("key"))[0]]
    problems = []
    for key in wish.keys:
        if not has(key, set(seen)):
            near = get_close_matches(key.raw, seen, n=1)
            what = "the mapping names this key, and the log does not have it" + (f"; it has {near[0]}" if near else "")
            problems.append(ReadProblem(path=raw.path, place=f"key {key.raw}", what=what, kind=ProblemKind.NOTE))
    return problems


def _dialect(raw: RawLog, wish: Wish) -> tuple[Dialect, str]:
    """The dialect of a log's keys and the reason; none where it has no keys, or none that is known beside a token log."""
    keys = {base_key(key) for key in coded(raw.scalars.column("key"))[0]}
    if not keys:
        return _NO_DIALECT, "no logged keys"
    mapped = sum(has(key, keys) for key in wish.keys)
    if wish.dialect is not None:
        if not raw.tokens and not mapped and score(wish.dialect, keys) == (0, 0):
            raise UnknownDialectError(f"{raw.path}, run {raw.name}: {wish.dialect.id} knows none of the keys. {unknown(keys)}")
        return laid_over(wish.dialect, wish.keys), "named by the user"
    try:
        choice = choose_dialect(keys, raw.config)
    except UnknownDialectError as refused:
        if mapped:
            return laid_over(_MAPPED, wish.keys), f"the mapping names {mapped} of the {len(keys)} keys"
        if raw.tokens:
            return _NO_DIALECT, "no dialect knows a key of the step log; its tokens are read"
        raise UnknownDialectError(f"{raw.path}, run {raw.name}: {refused}") from refused
    also = f"; the mapping names {mapped} more" if mapped else ""
    return laid_over(choice.dialect, wish.keys) if wish.keys else choice.dialect, choice.why + also


def _role(raw: RawLog) -> Role:
    named = raw.config.get("role", Role.CANDIDATE)
    if named not in tuple(Role):
        expected = f"role = {' or '.join(Role)}"
        raise ReadError(f"{raw.path}/{DESCRIPTION}", expected=expected, found=f"{str(named)[:80]!r}", remedy="Correct or remove it.")
    return Role(str(named))
