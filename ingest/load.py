"""Any path becomes runs: read by the one reader that takes it, understood by the one dialect that knows its keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from ingest._experiments import join
from ingest._ids import id_of, ids_of
from ingest._merge import merged
from ingest._places import parts
from ingest._understand import Wish, understand
from ingest.errors import RatiometerError, ReadError
from ingest.identify import address_reader, dialect_named, identify_reader
from ingest.run import RawLog, ReadProblem, Run
from ingest.user_mapping import UserMapping

T = TypeVar("T")
Paths = Path | str | Sequence[Path | str]


def load(path: Paths, dialect: str | None = None, mapping: UserMapping | None = None) -> tuple[Run, ...]:
    """Read one file, one run's folder, a folder of runs, several exports of the same runs, or an address such as `wandb:…`.

    What cannot be read beside others that can is a problem of the first run, by its path.

    Args:
        path: a file, folder or address; several wandb CSV files are merged by run name.
        dialect: id of the dialect to use instead of the one that the keys suggest.
        mapping: the user's own word on keys, and on the dialect where `dialect` says nothing.

    Raises:
        UnknownContainerError: no reader takes a path.
        UnknownDialectError: no dialect knows any key of a run, and it has no token log.
        ReadError: a file cannot be read; TooLargeError where it exceeds a bound.
    """
    wish = wished(dialect, mapping)
    failed = _Failed()
    raws = _raws(path, failed)
    pairs = zip(raws, _ids(raws), strict=True)
    runs = failed.passed_over((raw.path, partial(_understood, raw, wish, name)) for raw, name in pairs)
    return (replace(runs[0], problems=(*runs[0].problems, *failed.problems)), *runs[1:])


def wished(dialect: str | None = None, mapping: UserMapping | None = None) -> Wish:
    """What the user says about a log, as `load` takes it.

    Raises:
        UnknownDialectError: there is no such dialect.
    """
    mapping = mapping or UserMapping()
    named = dialect if dialect is not None else mapping.dialect
    return Wish(dialect=dialect_named(named) if named is not None else None, keys=mapping.keys)


def raw_logs(path: Paths) -> tuple[RawLog, ...]:
    """The same, not interpreted: what the files say, key by key, in no dialect.

    Raises:
        UnknownContainerError, ReadError: as `load`.
    """
    return _raws(path, _Failed())


def _raws(path: Paths, failed: _Failed) -> tuple[RawLog, ...]:
    paths = [path] if isinstance(path, (str, Path)) else list(dict.fromkeys(path))
    reads = [each for one in paths for each in _reads(str(one))]
    raws = combined(failed.passed_over(reads) if reads else [])
    if not any(raw.scalars.num_rows or _has_tokens(raw) or raw.config for raw in raws):
        raise _nothing(paths)
    return raws


def combined(raws: Iterable[RawLog]) -> tuple[RawLog, ...]:
    """The runs that some logs are: exports of one run merged, processes of one experiment joined, files of one name told apart."""
    return _told_apart(join(merged(raws)))


def _told_apart(raws: Sequence[RawLog]) -> tuple[RawLog, ...]:
    """Logs that are named after files of one name take the name of their folder: seed0/metrics.jsonl is seed0, not one of three metrics."""
    names = Counter(raw.name for raw in raws)
    folders = {raw.path: Path(raw.path).parent.name for raw in raws if names[raw.name] > 1 and raw.name == Path(raw.path).stem}
    apart = Counter(folders.values())
    return tuple(replace(raw, name=folders[raw.path]) if apart[folders.get(raw.path, "")] == 1 else raw for raw in raws)


def _has_tokens(raw: RawLog) -> bool:
    """Whether there is anything in a token log; of some dumps only the size of the files tells."""
    return raw.tokens is not None and any(piece.size if piece.rows is None else piece.rows for piece in raw.tokens.pieces)


@dataclass
class _Failed:
    """What could not be read, while something else could."""

    errors: list[tuple[str, RatiometerError]] = field(default_factory=list)

    def passed_over(self, reads: Iterable[tuple[str, Callable[[], Iterable[T]]]]) -> list[T]:
        """All that can be read; the first error where nothing can.

        Raises:
            RatiometerError: of the first thing, if each failed.
        """
        found: list[T] = []
        before = len(self.errors)
        for where, read in reads:
            try:
                found += read()
            except RatiometerError as error:
                self.errors.append((where, error))
        if not found and len(self.errors) > before:
            raise self.errors[before][1]
        return found

    @property
    def problems(self) -> list[ReadProblem]:
        """Each failure as a problem of the file that it is about."""
        return [ReadProblem(path=where, place="the whole of it", what=f"not read: {error}") for where, error in self.errors]


def _reads(where: str) -> list[tuple[str, Callable[[], Iterable[RawLog]]]]:
    """Each thing at a path with the call that reads it."""
    by_address = address_reader(where)
    if by_address is not None and (read := by_address.read_address) is not None:
        return [(where, partial(read, where))]
    return [(str(part), partial(_read, part)) for part in parts(Path(where))]


def _read(part: Path) -> tuple[RawLog, ...]:
    return identify_reader(part).read(part)


def _understood(raw: RawLog, wish: Wish, run_id: str) -> tuple[Run]:
    return (understand(raw, wish, run_id),)


def _nothing(paths: Sequence[Path | str]) -> ReadError:
    where = ", ".join(str(path) for path in paths) or "no path"
    return ReadError(where, expected="at least one value", found="none (blank cells only, or no file)", remedy="Was the export finished?")


def _ids(raws: Iterable[RawLog]) -> list[str]:
    """One id per run, safe in a URL; a hash of name and path is added only where two names read alike."""
    ids: list[str] = []
    for raw in raws:
        ids.append(id_of(raw, ids))
    return ids


__all__ = ["Paths", "combined", "id_of", "ids_of", "load", "raw_logs", "wished"]
