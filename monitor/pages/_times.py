"""Times as a reader takes them in: how long ago, how long, and when."""

from __future__ import annotations

from datetime import UTC, datetime

_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86400.0


def ago(then: float | None, now: float) -> str:
    """How long ago, roughly; a clock that runs ahead counts as now."""
    return "never" if then is None else "now" if now - then < 1 else f"{span(now - then)} ago"


def span(seconds: float) -> str:
    """A length of time in its largest unit that says enough."""
    for size, unit in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def when(then: float) -> str:
    """A moment, in UTC as everywhere in the store."""
    return datetime.fromtimestamp(then, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
