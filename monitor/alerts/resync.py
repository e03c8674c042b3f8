"""How a trainer is asked to resynchronise: a small file, written whole, where the run lies; or in our own folder where that cannot be."""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ingest.run import Run
from monitor.alerts._settings import ResyncSettings, SinkSettings
from monitor.alerts.notification import Notification
from monitor.record.resync import ASKED, askings, read_asked, signal_id, write_whole
from monitor.store import home, safe_name

NAME = "resync"  # of the destination that `resync_sink` makes


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where the signal of each run lies."""

    folders: Mapping[str, Path] = field(default_factory=dict)  # by run id
    spare: Path | None = None  # parent of the places of all other runs; ours where not given
    watched: Collection[str] = ()  # ids of all runs that are watched, those without a folder too

    def of(self, run: str) -> Path:
        """The folder of a run's signal; a name out of a log can lead nowhere else."""
        if run in self.folders:
            return self.folders[run]
        parent = home() / "resync" if self.spare is None else self.spare
        return parent / f"{safe_name(run)}-{hashlib.blake2b(run.encode(), digest_size=4).hexdigest()}"


def signal_folders(runs: Iterable[Run]) -> dict[str, Path]:
    """The folder each run has to itself: its own, or the one its file lies in; runs that share a folder have none."""
    found = {run.id: path if path.is_dir() else path.parent for run in runs if (path := Path(run.path)).exists()}
    times = Counter(path.resolve() for path in found.values())
    return {run: path for run, path in found.items() if times[path.resolve()] == 1}


def places(settings: ResyncSettings, folders: Mapping[str, Path], watched: Collection[str] = ()) -> Places:
    """Where the signals lie as the policy says; folders and runs are looked at anew each time, so that some may be added to them."""
    return Places(folders=folders if settings.file else {}, watched=watched)


def resync_sink(settings: ResyncSettings, folders: Mapping[str, Path]) -> SinkSettings | None:
    """The policy's word on resyncs as a destination among the others; None where no rule asks for one."""
    if not settings.rules:
        return None
    mine = {run: str(path) for run, path in places(settings, folders).folders.items()}
    return SinkSettings(name=NAME, sink="resync", rules=settings.rules, options={"folders": mine})


def ask(folder: Path, told: Notification) -> None:
    """Add what a rule asks to the signal, in place of what the same rule asked before.

    The same notification again is the same asking, so that one sent twice asks once.

    Raises:
        OSError: the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with _turn(folder):
        others = [each for each in _asking(folder) if each.get("run") == told.run and each.get("rule") != told.rule]
        _write(folder, [*others, _entry(told)])


def withdraw(folder: Path, episode: str) -> None:
    """Take back what was asked for an episode, because it is over; the signal goes when nothing else is asked.

    Raises:
        OSError: the folder cannot be written.
    """
    if read_asked(folder) is None:
        return
    with _turn(folder):
        there = _asking(folder)
        left = [each for each in there if each["episode"] != episode]
        if not left:
            (folder / ASKED).unlink(missing_ok=True)
        elif left != there:
            _write(folder, left)


def _entry(told: Notification) -> dict[str, Any]:
    """What one rule asks. Its id holds when it was raised: another training in the same folder may fire at the same step."""
    raised = f"{told.key}@{told.step}@{told.at}"
    return {
        "run": told.run,
        "episode": told.episode,
        "step": told.step,
        "rule": told.rule,
        "reason": told.text,
        "asked_at": time.time(),
        "signal": hashlib.blake2b(raised.encode(), digest_size=6).hexdigest(),
    }


def _asking(folder: Path) -> list[dict[str, Any]]:
    asked = read_asked(folder)
    return [] if asked is None else askings(asked)


def _write(folder: Path, entries: list[dict[str, Any]]) -> None:
    """The signal of several askings: the latest, the ids of all, and each of them."""
    write_whole(folder / ASKED, {**entries[-1], "signal": " ".join(signal_id(each) for each in entries), "asking": entries})


@contextmanager
def _turn(folder: Path) -> Iterator[None]:
    """Let two watches write a signal one after the other; where the file system knows no locks, at the same time."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
