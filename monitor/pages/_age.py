"""How old a run's data are: when its log was last written, as the log itself says, else as its files do."""

from __future__ import annotations

import pyarrow.compute as pc

from monitor.pages._following import Key
from monitor.pages._library import Entry
from monitor.pages._times import ago

_NANO = 1e9


def age_of(entry: Entry, key: Key, now: float) -> str:
    """How long ago the latest data came; a log that says when it was written is believed before the files' dates, which copying changes."""
    written, touched = _logged_at(entry) if key == entry.key else None, touched_at(entry, key)
    if written is not None and touched is not None and written <= touched:
        return ago(written, now)
    return "" if touched is None else ago(touched, now)


def _logged_at(entry: Entry) -> float | None:
    times = entry.run.scalars["wall_time"]
    found: float | None = pc.max(times).as_py() if len(times) else None
    return found


def touched_at(entry: Entry, key: Key) -> float | None:
    """When a file of the run was written last; of the whole source, where the run's own files are not known.

    Args:
        entry: the run.
        key: the files of its source as they are now.
    """
    files = [(name, stamp) for name, _, stamp in key if stamp]
    own = [stamp for name, stamp in files if name == entry.run.path or name.startswith(f"{entry.run.path}/")]
    latest = max(own or [stamp for _, stamp in files], default=None)
    return None if latest is None else latest / _NANO
