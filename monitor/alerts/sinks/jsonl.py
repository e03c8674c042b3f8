"""A file of JSON lines: one line per notification, appended whole."""

from __future__ import annotations

import json
import os
from pathlib import Path

from monitor.alerts.fields import fields
from monitor.alerts.notification import Notification
from monitor.alerts.sink import Options, Sink, SinkError, SinkOption


def _send(options: Options, told: Notification) -> None:
    line = (json.dumps(fields(told), allow_nan=False, ensure_ascii=False) + "\n").encode()
    try:
        path = Path(options.text("path")).expanduser()
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            _append(handle, line)
        finally:
            os.close(handle)
    except OSError as failed:
        raise SinkError(f"cannot be written: {failed.strerror or failed}") from None


def _append(handle: int, line: bytes) -> None:
    """Append a line; after one that a full disk or a kill has cut short, on a line of its own."""
    size = os.fstat(handle).st_size
    cut = size > 0 and os.pread(handle, 1, size - 1) != b"\n"
    data = b"\n" + line if cut else line
    if os.write(handle, data) != len(data):
        raise OSError(0, "only part of a line could be written; is the disk full?")
    os.fsync(handle)


def _check(options: Options) -> None:
    path = Path(options.text("path")).expanduser()
    if path.is_dir() or (path.exists() and not path.is_file()):
        raise options.wrong("path", "a file", "a folder or a device")


SINK = Sink(
    id="jsonl",
    title="A file of JSON lines",
    options=(SinkOption(name="path", what="the file; made when it does not exist", required=True),),
    schemes=("jsonl",),
    address="path",
    send=_send,
    check=_check,
    from_page=False,  # it appends to any file of the user's
)
