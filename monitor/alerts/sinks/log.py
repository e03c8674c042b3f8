"""The log: one line per notification, for whoever collects the output of the process."""

from __future__ import annotations

import logging

from monitor.alerts.fields import title
from monitor.alerts.notification import Kind, Notification
from monitor.alerts.rule import Severity
from monitor.alerts.sink import Options, Sink

_LOG = logging.getLogger("monitor.alerts")
_LEVELS = {Severity.WARNING: logging.WARNING, Severity.CRITICAL: logging.CRITICAL}


def _send(_: Options, told: Notification) -> None:
    level = logging.INFO if told.kind is Kind.RESOLVED else _LEVELS[told.severity]
    text = " ".join(told.text.split())  # names come out of logs: a line break in one must not begin a line of its own
    _LOG.log(level, "%s | step %s | %s", " ".join(title(told).split()), "-" if told.step is None else told.step, text)


SINK = Sink(id="log", title="The log of the process", schemes=("log",), send=_send)
