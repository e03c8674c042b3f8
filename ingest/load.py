"""Any path becomes runs: read by the one reader that takes it, understood by the one dialect that knows its keys."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow.compute as pc

from ingest._mapping import map_scalars, settings
from ingest._merge import merged
from ingest.dialect import Dialect
from ingest.errors import ReadError, UnknownDialectError
from ingest.identify import base_key, dialect_named, identify_dialect, identify_reader, score, unknown
from ingest.readers._files import is_inside
from ingest.readers.run_folder import DESCRIPTION, is_run
from ingest.run import RawLog, Role, Run

_UNSAFE = re.compile(r"[^A-Za-z0-9._]+")
_LONGEST_ID = 60
_NOT_SETTINGS = ("name", "role", "group")  # of run.toml: they are fields of the Run


def load(path: Path | Sequence[Path], dialect: str | None = None) -> tuple[Run, ...]:
    """Read one file, one run's folder, a folder of runs, or several exports of the same runs.

    Args:
        path: a file or folder; several wandb CSV files are merged by run name.
        dialect: id of the dialect to use instead of the one that the keys suggest.

    Raises:
        UnknownContainerError: no reader takes a path.
        UnknownDialectError: no dialect knows any key of a run, and it has no token log.
        ReadError: a file cannot be read; TooLargeError where it exceeds a bound.
    """
    chosen = dialect_named(dialect) if dialect is not None else None
    paths = [path] if isinstance(path, (str, Path)) else list(dict.fromkeys(path))
    raws = merged([raw for one in paths for raw in _read(Path(one))])
    if not raws or not any(raw.scalars.num_rows or raw.tokens or raw.config for raw in raws):
        raise _nothing(paths)
    return tuple(_run(raw, chosen, name) for raw, name in zip(raws, _ids(raws), strict=True))


def _nothing(paths: list[Path]) -> ReadError:
    where = ", ".join(str(path) for path in paths) or "no path"
    return ReadError(where, expected="at least one value", found="none (blank cells only, or no file)", remedy="Was the export finished?")


def _read(path: Path) -> Iterator[RawLog]:
    """Yield the raw logs of a path; a folder that is no run itself stands for what lies in it."""
    for part in _parts(path) if path.is_dir() and not is_run(path) else [path]:
        yield from identify_reader(part).read(part)


def _parts(folder: Path) -> list[Path]:
    """Runs below a folder, else its CSV exports, else the folder itself (of Parquet parts, or an error).

    Where some sub-folders are described by a run.toml, those without are something else and passed over.
    """
    children = sorted(child for child in folder.iterdir() if is_inside(child, folder))
    runs = [child for child in children if child.is_dir() and is_run(child)]
    described = [run for run in runs if (run / DESCRIPTION).is_file()]
    exports = [child for child in children if child.is_file() and child.suffix.lower() == ".csv"]
    return described or runs or exports or [folder]


def _run(raw: RawLog, chosen: Dialect | None, run_id: str) -> Run:
    dialect = _dialect(raw, chosen)
    config = settings(raw.config, dialect) if dialect else raw.config
    scalars, problems = map_scalars(raw, dialect or _NO_DIALECT, config)
    return Run(
        id=run_id,
        name=raw.name,
        path=raw.path,
        dialect=dialect.id if dialect else "",
        old_is=dialect.old_is if dialect else "",
        scalars=scalars,
        tokens=raw.tokens,
        config={key: value for key, value in config.items() if key not in _NOT_SETTINGS},
        problems=(*raw.problems, *problems),
        role=_role(raw),
        group=str(raw.config.get("group", "")),
        root=Path(raw.path) if Path(raw.path).is_dir() else None,
    )


_NO_DIALECT = Dialect(id="", title="", old_is="", keys=())


def _dialect(raw: RawLog, chosen: Dialect | None) -> Dialect | None:
    """The dialect of a log's keys; None where it has no keys, or none that is known beside a token log."""
    keys = {base_key(key) for key in pc.unique(raw.scalars.column("key")).to_pylist()}
    if not keys:
        return None
    if chosen is not None:
        if not raw.tokens and score(chosen, keys) == (0, 0):
            raise UnknownDialectError(f"{raw.path}, run {raw.name}: {chosen.id} knows none of the keys. {unknown(keys)}")
        return chosen
    try:
        return identify_dialect(keys)
    except UnknownDialectError as refused:
        if raw.tokens:
            return None
        raise UnknownDialectError(f"{raw.path}, run {raw.name}: {refused}") from refused


def _role(raw: RawLog) -> Role:
    named = raw.config.get("role", Role.CANDIDATE)
    if named not in tuple(Role):
        expected = f"role = {' or '.join(Role)}"
        raise ReadError(f"{raw.path}/{DESCRIPTION}", expected=expected, found=f"{str(named)[:80]!r}", remedy="Correct or remove it.")
    return Role(str(named))


def _ids(raws: Iterable[RawLog]) -> list[str]:
    """One id per run, safe in a URL; a hash of name and path is added only where two names read alike."""
    ids: list[str] = []
    for raw in raws:
        slug = _UNSAFE.sub("-", raw.name).strip("-._")[:_LONGEST_ID] or "run"
        if slug in ids:
            slug = f"{slug}-{hashlib.blake2b(f'{raw.name}|{raw.path}'.encode(), digest_size=3).hexdigest()}"
        ids.append(slug if slug not in ids else f"{slug}-{len(ids)}")
    return ids
