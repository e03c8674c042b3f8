"""Which runs the dashboard knows, and their metric frames; each is read once per content, whoever asks.

Caches are keyed by path, size and modification time of every file, never by a table: hashing a large table samples it and has been seen to
return another table's answer. Both caches hand out Arrow tables, which nobody can change.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import streamlit as st

from ingest.errors import RatiometerError, UnknownDialectError
from ingest.identify import address_reader
from ingest.load import load, raw_logs
from ingest.preview import Preview, previews
from ingest.run import ReadProblem, Role, Run
from ingest.user_mapping import read_mapping
from monitor.metrics.frame import metric_frame_with_problems
from monitor.metrics.sanity import Oddity, check
from monitor.pages._colours import Identity, identities
from monitor.pages._escape import for_markdown, plain
from monitor.pages._following import Key, followed
from monitor.store import Upload, uploads

SAMPLES = Path(__file__).resolve().parents[2] / "sample_runs"
MAX_SOURCES, MAX_FRAMES = 128, 64  # kept in memory; a frame of 10,000 steps is about 50 MB
MAX_LABEL = 80  # characters; labels stand in the address of a page
LOG = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Source:
    """Files that are read together."""

    paths: tuple[Path, ...]
    title: str
    sample: bool = False
    name: str = ""  # what the user calls its run
    mapping: Path | None = None  # the user's word on its keys
    kept: Path | None = None  # where the store has put it, which is no name to show

    @property
    def may_grow(self) -> bool:
        """Whether somebody may be writing it: what was named on the command line, and is no address."""
        return not self.sample and self.kept is None and len(self.paths) == 1 and address_reader(str(self.paths[0])) is None

    @property
    def where(self) -> str:
        """Its first path."""
        return str(self.paths[0]) if self.paths else ""

    @property
    def key(self) -> Key:
        """Path, size in bytes and modification time in ns of every file, the mapping among them; an address stands for itself.

        What the user calls the run is part of it: another name makes another run.
        """
        address = str(self.paths[0]) if self.paths else ""
        if address_reader(address) is not None:
            return ((address, 0, 0),)
        files = [
            file
            for path in (*self.paths, *([self.mapping] if self.mapping else []))
            for file in (sorted(path.rglob("*")) if path.is_dir() else [path])
        ]
        stats = [(file, file.stat()) for file in files if file.is_file()]
        name = ((f"name {self.name}", 0, 0),) if self.name and stats else ()
        return tuple((str(file), stat.st_size, stat.st_mtime_ns) for file, stat in stats) + name


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Something that could not be read, as a sentence."""

    title: str
    sentence: str
    unnamed: bool = False  # it was read, but no dialect knows a key: the user may say what they are


@dataclass(frozen=True, kw_only=True)
class Framed:
    """A run's metric frame, with everything that was not understood on the way to it."""

    frame: pa.Table
    problems: tuple[ReadProblem, ...]
    oddities: tuple[Oddity, ...]  # what the numbers say about themselves
    key: Key  # of the content that it is the frame of


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A run that the dashboard can show."""

    run: Run
    who: Identity
    source: Source
    key: Key  # of the source when it was read
    sample: bool


@dataclass(frozen=True, kw_only=True)
class Library:
    """All runs by id, the samples first, then what was named on the command line, then uploads in their order."""

    entries: Mapping[str, Entry]
    failures: tuple[Failure, ...]

    def framed(self, run_id: str) -> Framed | Failure:
        """The run's metric frame, of a run that grows as it is now, or why there is none."""
        entry = self.entries[run_id]
        grown = None
        if entry.source.may_grow:
            grown = followed(entry.source.where, entry.run.id, entry.key, lambda: entry.source.key, _grown)
        return _frame(entry.key, run_id, entry.run) if grown is None else grown

    def ids(self, wanted: Callable[[Entry], bool]) -> list[str]:
        """Ids of the entries that are wanted, in the library's order."""
        return [run_id for run_id, entry in self.entries.items() if wanted(entry)]


def open_library(arguments: Sequence[str] = ()) -> Library:
    """Every run of the samples, of the paths named on the command line, and of the upload store."""
    read: list[tuple[Run, Source]] = []
    failures: list[Failure] = []
    for source in sources(arguments, SAMPLES):
        with st.spinner(f"Reading {for_markdown(source.title)}"):  # appears after a tenth of a second, so never for what is cached
            found = read_source(source)
        if isinstance(found, Failure):
            failures.append(found)
        else:
            read += [(run, source) for run in found]
    return Library(entries=_entries(read), failures=tuple(failures))


def sources(arguments: Sequence[str], samples: Path) -> Iterator[Source]:
    """Where runs come from, in the library's order."""
    for toml in sorted(samples.glob("*/run.toml")):
        yield Source(paths=(toml.parent,), title=toml.parent.name, sample=True)
    for argument in arguments:
        yield Source(paths=(Path(argument),), title=argument)
    for upload in uploads():
        yield source_of(upload)


def source_of(upload: Upload) -> Source:
    """How an upload is read: one file, chart exports that merge by run name, or the folder of a token log."""
    alike = not upload.whole and (len(upload.paths) == 1 or all(path.suffix.lower() == ".csv" for path in upload.paths))
    mapping = upload.mapping_path if upload.mapping_path.is_file() else None
    paths = upload.paths if alike else (upload.files,)
    return Source(paths=paths, title=upload.title, name=upload.name, mapping=mapping, kept=upload.files)


def read_source(source: Source) -> tuple[Run, ...] | Failure:
    """The runs of a source; what goes wrong is a value, so that one bad path leaves the others on screen."""
    try:
        found = _latest(source) if source.may_grow else _runs(source.key, source)
    except OSError as error:
        return Failure(title=source.title, sentence=f"{source.title} cannot be opened: {error.strerror or error}.")
    if source.kept is None or not isinstance(found, Failure):
        return found
    return replace(found, sentence=found.sentence.replace(f"{source.kept}/", "").replace(str(source.kept), source.title))


def _latest(source: Source) -> tuple[Run, ...] | Failure:
    """The same of a source that may grow: of all that it was, only the last is kept."""
    key, held = source.key, _held()
    known = held.get(source.where)
    if known is None or known[0] != key:
        known = held[source.where] = (key, _read(key, source))
    return known[1]


@st.cache_resource(show_spinner=False)
def _held() -> dict[str, tuple[Key, tuple[Run, ...] | Failure]]:
    return {}


@st.cache_resource(max_entries=MAX_SOURCES, show_spinner=False)
def _runs(key: Key, _source: Source) -> tuple[Run, ...] | Failure:
    return _read(key, _source)


def _read(key: Key, source: Source) -> tuple[Run, ...] | Failure:
    if not key:
        return Failure(title=source.title, sentence=f"{source.title}: there is no such file, or the folder is empty.")
    return guarded(source.title, lambda: _loaded(source))


def _loaded(source: Source) -> tuple[Run, ...]:
    """The runs of a source; one that is alone is called what the user calls it."""
    mapping = read_mapping(source.mapping) if source.mapping else None
    runs = load(source.paths[0] if len(source.paths) == 1 else source.paths, mapping=mapping)
    return (replace(runs[0], name=source.name),) if source.name and len(runs) == 1 else runs


def previewed(source: Source) -> tuple[Preview, ...] | Failure:
    """What is in the source's logs, key by key, in no dialect."""
    return _previews(source.key, source)


@st.cache_resource(max_entries=MAX_SOURCES, show_spinner=False)
def _previews(key: Key, _source: Source) -> tuple[Preview, ...] | Failure:
    del key
    return guarded(_source.title, lambda: previews(raw_logs(_source.paths)))


@st.cache_resource(max_entries=MAX_FRAMES, show_spinner=False)
def _frame(key: Key, run_id: str, _run: Run) -> Framed | Failure:
    del run_id  # with the key it is the cache's; the run itself is not hashed
    return guarded(_run.name, lambda: _compute(_run, key))


def _compute(run: Run, key: Key) -> Framed:
    frame, problems = metric_frame_with_problems(run)
    return Framed(frame=frame, problems=run.problems + problems, oddities=check(frame), key=key)


def _grown(frame: pa.Table, problems: tuple[ReadProblem, ...], key: Key) -> Framed:
    return Framed(frame=frame, problems=problems, oddities=check(frame), key=key)


def guarded(title: str, read: Callable[[], T], doing: str = "reading") -> T | Failure:
    """What `read` gives; what goes wrong is a sentence."""
    try:
        return read()
    except RatiometerError as error:
        return Failure(title=title, sentence=str(error), unnamed=isinstance(error, UnknownDialectError))
    except Exception:  # the boundary between files of any origin and the page: a sentence there, the traceback in the log
        LOG.exception("%s %s failed", doing, title)
        return Failure(title=title, sentence=f"{title}: {doing} it failed in a way we did not foresee; the server's log has the details.")


def _entries(read: Iterable[tuple[Run, Source]]) -> dict[str, Entry]:
    by_id: dict[str, tuple[Run, Source]] = {}
    for run, source in read:
        by_id[_free(run.id, by_id)] = (run, source)
    looks = identities((run_id, run.name, source.sample) for run_id, (run, source) in by_id.items())
    labels = _distinct((run_id, plain(run.name, MAX_LABEL) or "unnamed", source.title) for run_id, (run, source) in by_id.items())
    return {
        run_id: Entry(run=run, who=_named(looks[run_id], labels[run_id]), source=source, key=source.key, sample=source.sample)
        for run_id, (run, source) in by_id.items()
    }


def _free(run_id: str, taken: Mapping[str, object]) -> str:
    """The id, or with a number where a run of another file has it already; a run that comes later never changes an earlier one's."""
    tries = itertools.chain([run_id], (f"{run_id}~{count}" for count in itertools.count(2)))
    return next(each for each in tries if each not in taken)


def _distinct(runs: Iterable[tuple[str, str, str]]) -> dict[str, str]:
    """A label per run (id, name, source's title): of two runs of one name the earlier keeps it, the later adds its file.

    Where the file is called the same as well (`steps.jsonl` in every run's folder), it would tell nothing: a number is added.
    """
    labels: dict[str, str] = {}
    places: dict[str, set[str]] = {}
    for run_id, name, title in runs:
        told = places.setdefault(name, set())
        by_file = [] if title in told else [f"{name} ({plain(title, MAX_LABEL)})"]
        tries = itertools.chain([name, *by_file], (f"{name} ({count})" for count in itertools.count(2)))
        labels[run_id] = next(label for label in tries if label not in labels.values())
        told.add(title)
    return labels


def _named(look: Identity, label: str) -> Identity:
    return Identity(id=look.id, label=label, hue=look.hue, symbol=look.symbol)


def is_reference(entry: Entry) -> bool:
    """A sample that is a reference by its own word."""
    return entry.sample and entry.run.role is Role.REFERENCE
