"""Log records of any library without secrets, while a destination is being told: HTTP clients log whole addresses."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

from monitor.alerts.masking import Mask

_active: dict[int, Mask] = {}
_numbers = count()


@contextmanager
def quiet(mask: Mask) -> Iterator[None]:
    """Take secrets out of every log record that any library makes meanwhile, on any thread."""
    _install()
    number = next(_numbers)
    _active[number] = mask
    try:
        yield
    finally:
        del _active[number]


def _install() -> None:
    """Put ourselves before the factory of log records, once; handlers and filters see only what it makes."""
    before = logging.getLogRecordFactory()
    if getattr(before, "masks", False):
        return

    def factory(*args: Any, **kwargs: Any) -> logging.LogRecord:  # noqa: ANN401 - whatever logging hands on
        record = before(*args, **kwargs)
        for mask in list(_active.values()):
            _mask_record(record, mask)
        return record

    factory.masks = True  # type: ignore[attr-defined]
    logging.setLogRecordFactory(factory)


def _mask_record(record: logging.LogRecord, mask: Mask) -> None:
    try:
        said = record.getMessage()
    except (TypeError, ValueError, KeyError):  # arguments that do not fit the message: logging would print both
        said = f"{record.msg} {record.args}"
    if mask(said) != said:
        record.msg, record.args = mask(said), ()
    if record.exc_info and record.exc_info[1] is not None:
        record.exc_text, record.exc_info = mask("".join(traceback.format_exception(record.exc_info[1]))), None
    if record.stack_info:
        record.stack_info = mask(record.stack_info)
