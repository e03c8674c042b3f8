"""What a destination is told, as fields: for JSON bodies, templates, and the environment of a command."""

from __future__ import annotations

import math
from datetime import UTC, datetime

from monitor.alerts.notification import Kind, Notification
from monitor.alerts.rule import Severity

Field = str | int | float | None

EXAMPLE = Notification(
    rule="test",
    run="test",
    kind=Kind.FIRING,
    severity=Severity.WARNING,
    episode="test:test:0",
    text="This is a test of this destination; nothing is wrong.",
    step=0,
    value=0.5,
    threshold=0.5,
    metric="ess.lag.token",
    origin="tokens",
)


def fields(told: Notification) -> dict[str, Field]:
    """Every field, by name; a value that is not finite is None, because JSON has no such number, and in words in `value_text`."""
    return {
        "rule": told.rule,
        "state": str(Kind.FIRING if told.kind is Kind.REMINDER else told.kind),
        "kind": str(told.kind),
        "run": told.run,
        "step": told.step,
        "value": _finite(told.value),
        "value_text": _words(told.value),
        "threshold": _finite(told.threshold),
        "severity": str(told.severity),
        "metric": told.metric,
        "origin": told.origin,
        "episode": told.episode,
        "reminder": told.number,
        "at": datetime.fromtimestamp(told.at, UTC).isoformat(timespec="seconds") if told.at else None,
        "title": title(told),
        "text": told.text,
    }


def title(told: Notification) -> str:
    """One short line: how urgent, what, where."""
    head = {Kind.RESOLVED: "Resolved", Kind.REMINDER: f"Still {told.severity}"}.get(told.kind, str(told.severity).capitalize())
    words = {Kind.NAN: " (not a number)", Kind.NO_DATA: " (no new data)"}.get(told.kind, "")
    return f"{head}: {told.rule}{words} in {told.run}"


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _words(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"
