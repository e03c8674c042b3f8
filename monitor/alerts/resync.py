"""How a trainer is asked to resynchronise: a small file, written whole, where the run lies; or in our own folder where that cannot be."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ingest.run import Run
from monitor.alerts._settings import ResyncSettings, SinkSettings
from monitor.alerts.notification import Notification
from monitor.record.resync import ASKED, pending, write_whole
from monitor.store import home, safe_name

NAME = "resync"  # of the destination that `resync_sink` makes


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where the signal of each run lies."""

    folders: Mapping[str, Path] = field(default_factory=dict)  # by run id
    spare: Path | None = None  # parent of the places of all other runs; ours where not given

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


def places(settings: ResyncSettings, folders: Mapping[str, Path]) -> Places:
    """Where the signals lie as the policy says; the folders are looked at anew each time, so that runs may be added to them."""
    return Places(folders=folders if settings.file else {})


def resync_sink(settings: ResyncSettings, folders: Mapping[str, Path]) -> SinkSettings | None:
    """The policy's word on resyncs as a destination among the others; None where no rule asks for one."""
    if not settings.rules:
        return None
    mine = {run: str(path) for run, path in places(settings, folders).folders.items()}
    return SinkSettings(name=NAME, sink="resync", rules=settings.rules, options={"folders": mine})


def ask(folder: Path, told: Notification) -> None:
    """Write the signal; the same notification again is the same signal, so that one sent twice asks once.

    Raises:
        OSError: the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    signal = {"run": told.run, "episode": told.episode, "step": told.step, "rule": told.rule, "reason": told.text, "asked_at": time.time()}
    write_whole(folder / ASKED, signal)


def withdraw(folder: Path, episode: str) -> None:
    """Take a signal back that nobody has taken, because what it was for is over."""
    asked = pending(folder)
    if asked is not None and asked["episode"] == episode:
        (folder / ASKED).unlink(missing_ok=True)
