"""Files that are dropped together become uploads: which of them are one log, which are kept, and why the others are not."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory

from ingest.errors import RatiometerError, ReadError
from ingest.identify import readers
from monitor import store
from monitor.pages._library import Failure, read_source, source_of
from monitor.store import Upload

# Files that are one log when they are dropped together, by how their names end or what is in them; the first that fits.
_RUN = ("run.toml", "steps.jsonl")
_TOKENS = (".parquet", ".jsonl", ".ndjson", ".toml")
_DUMP = re.compile(r"train_data_step\d+\.jsonl|rank_\d+\.jsonl")  # NeMo-RL, prime-rl
_WANDB = (".wandb", ".yaml", ".yml", ".json")
_COMPANIONS = (".toml", ".yaml", ".yml", ".json")  # of a log; by themselves they are none
# What a file that nobody can read was probably meant to be: ids of readers, whose objections are worth reading.
_LIKELY = {
    ".csv": ("csv_log", "wandb_csv"),
    ".gz": ("archive",),
    ".json": ("trainer_state", "jsonl"),
    ".jsonl": ("jsonl",),
    ".log": ("verl_console", "jsonl"),
    ".ndjson": ("jsonl",),
    ".parquet": ("parquet_tokens",),
    ".pt": ("torch_file",),
    ".tar": ("archive",),
    ".tsv": ("csv_log",),
    ".txt": ("verl_console", "csv_log", "jsonl"),
    ".wandb": ("wandb_run",),
    ".zip": ("archive",),
}
_PEEK = 4096  # bytes looked at before the whole file is

File = tuple[str, bytes]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of files that were dropped together."""

    title: str
    upload_id: str = ""  # of what was kept; empty where nothing was
    sentence: str = ""  # why nothing was kept; empty where something was


def groups(files: Iterable[File]) -> list[list[File]]:
    """Files that are one log: exports merge, Parquet parts go with their step log and `run.toml`, any other file stands alone.

    The event files of a TensorBoard run, a wandb record with its settings, and the parts of a token dump are one log too.
    """
    dropped = list(files)
    names = {PurePath(file[0]).name for file in dropped}
    together: dict[str, list[File]] = {}
    for number, file in enumerate(dropped):
        together.setdefault(_group(file, names) or str(number), []).append(file)
    return sorted(together.values(), key=lambda group: _suffix(group[0]) != ".csv")


def take(files: Sequence[File]) -> list[Outcome]:
    """Keep files that are one log, and read them. A bad one is left out with a sentence of its own, and the others are kept.

    What cannot be read is not kept, unless only its keys have to be named.
    """
    rest = [(name, content) for name, content in files if content[:_PEEK].strip() or content.strip()]
    blank = [name for name, content in files if (name, content) not in rest]
    remedy = "Export it again and upload that file."
    errors = [ReadError(name, expected="a file with content", found="nothing in it", remedy=remedy) for name in blank]
    return [*(_taken(rest) if rest else []), *(Outcome(title=error.where, sentence=str(error)) for error in errors)]


def sentence_of(upload: Upload, failure: Failure) -> str:
    """The failure's sentence with the user's own names of files in it."""
    if len(upload.paths) == 1 and ": no known kind of log (" in failure.sentence:
        return _stranger(upload.paths[0], upload.own(upload.paths[0].name))
    sentence = failure.sentence
    for stored, own in upload.names:
        sentence = sentence.replace(stored, own)
    return sentence


def _group(file: File, names: Collection[str]) -> str:
    """The group a file belongs to; "" for none."""
    suffix, suffixes = _suffix(file), {PurePath(name).suffix.lower() for name in names}
    fits = {
        "tables": suffix == ".csv",
        "events": "tfevents" in file[0],
        "tokens": ".parquet" in suffixes and suffix in _TOKENS,
        "run": "run.toml" in names and PurePath(file[0]).name in _RUN,
        "wandb": ".wandb" in suffixes and suffix in _WANDB,
        "torch": suffix in {".pt", ".pth"},  # a dump for each step, as a rule
        "dump": _DUMP.match(PurePath(file[0]).name) is not None,
    }
    return next((name for name, fit in fits.items() if fit), "")


def _taken(files: Sequence[File]) -> list[Outcome]:
    before = {upload.id for upload in store.uploads()}
    upload, why, whole = _read_together(files)
    bad = [] if whole or len(files) == 1 else [(file, said) for file in files if (said := _alone(file))]
    if upload and (why or bad) and upload.id not in before:
        store.remove(upload.id)
    if bad:
        blamed = [file for file, _ in bad]
        good = [file for file in files if file not in blamed]
        return [*(_taken(good) if good else []), *(Outcome(title=file[0], sentence=said) for file, said in bad)]
    if upload and not why:
        return [Outcome(title=upload.title, upload_id=upload.id)]
    others = ", ".join(name for name, _ in files if name not in why)
    return [Outcome(title=files[0][0], sentence=why + (f" Not kept with it: {others}." if others and len(files) > 1 else ""))]


def _read_together(files: Sequence[File], root: Path | None = None) -> tuple[Upload | None, str, bool]:
    """The upload that some files make, if they can be saved; why it cannot be read, or ""; whether each file of it was read."""
    try:
        upload = store.save(files, root)
    except (RatiometerError, OSError) as error:
        return None, str(error), False
    found = read_source(source_of(upload))
    if isinstance(found, Failure):
        return upload, "" if found.unnamed else sentence_of(upload, found), found.unnamed
    return upload, "", not any(problem.what.startswith("not read: ") for run in found for problem in run.problems)


def _alone(file: File) -> str:
    """Why a file cannot be read by itself; "" where it can, or where it only goes with others."""
    if _suffix(file) in _COMPANIONS:
        return ""
    with TemporaryDirectory(prefix="ratiometer-") as root:
        return _read_together([file], Path(root))[1]


def _stranger(path: Path, name: str) -> str:
    """The sentence about a file that no reader takes: what stands against those that it was probably meant for."""
    if path.suffix.lower() == ".toml" and _is_toml(path):
        return f"{name}: settings only; drop it together with its log (a step log, Parquet parts)."
    likely = [reader for reader in readers() if reader.id in _LIKELY.get(path.suffix.lower(), ())]
    objections = "; ".join(f"no {reader.title}: {reader.objection(path)}" for reader in likely)
    return f"{name}: no known kind of log{f' ({objections})' if objections else ''}. What can be read is listed at the side."


def _is_toml(path: Path) -> bool:
    try:
        tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return False
    return True


def _suffix(file: File) -> str:
    return PurePath(file[0]).suffix.lower()
