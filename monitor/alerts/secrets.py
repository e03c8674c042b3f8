"""Where a secret comes from: the environment, or a file that nobody else may read; never from the settings themselves."""

from __future__ import annotations

import os
import re
import stat
from enum import StrEnum
from pathlib import Path
from typing import NoReturn

from ingest.errors import ReadError
from monitor.alerts.masking import secret_parts

FROM_ENVIRONMENT, FROM_FILE = "env:", "file:"
PAGE_PREFIX = "RATIOMETER_"  # variables that a page may name: any other might hold what was never meant for a destination
_MAX_BYTES = 2**16  # a token is some hundred bytes; anything larger is the wrong file
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")  # in a header these would begin another header


class SecretError(ReadError):
    """A secret that cannot be had; names the variable or the file, and never what is in it."""


class Origin(StrEnum):
    """Who wrote a setting down, which decides how far it is trusted."""

    FILE = "the rule file"
    COMMAND_LINE = "the command line"
    PAGE = "a page"


class Secret:
    """A value that shows itself to nobody who does not ask: neither in repr, nor in a format, nor in a pickle."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The value, for whoever sends it."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(***)"

    __str__ = __repr__

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not written anywhere")


def is_reference(text: str) -> bool:
    """Whether a setting names a secret, `env:NAME` or `file:PATH`, rather than being one."""
    return text.startswith((FROM_ENVIRONMENT, FROM_FILE))


def secret(text: str, where: str, origin: Origin = Origin.FILE) -> Secret:
    """The secret that a setting names.

    Args:
        text: `env:NAME`, `file:PATH`, or an address in which nothing is secret.
        where: what the setting is called in errors.
        origin: who wrote the setting; a page may not name files, nor variables other than RATIOMETER_*.

    Raises:
        SecretError: it is not there, not private, or stands in the settings in the open.
    """
    if text.startswith(FROM_ENVIRONMENT):
        return _checked(_from_environment(text.removeprefix(FROM_ENVIRONMENT), where, origin), where)
    if text.startswith(FROM_FILE):
        return _checked(_from_file(Path(text.removeprefix(FROM_FILE)).expanduser(), where, origin), where)
    if open_parts := secret_parts(text):
        remedy = f"Put it into a variable and write {FROM_ENVIRONMENT}NAME, or into a file of mode 600 and write {FROM_FILE}PATH."
        raise SecretError(where, expected="a setting without secrets", found=f"one in the open ({open_parts})", remedy=remedy)
    return _checked(text, where)


def _from_environment(name: str, where: str, origin: Origin) -> str:
    if not _NAME.fullmatch(name):
        raise SecretError(where, expected=f"{FROM_ENVIRONMENT}NAME", found="what is no name of a variable", remedy="Correct it.")
    if origin is Origin.PAGE and not name.startswith(PAGE_PREFIX):
        remedy = f"Put it into a variable whose name begins so, or write {FROM_ENVIRONMENT}{name} into the rule file."
        raise SecretError(where, expected=f"a variable {PAGE_PREFIX}*, where a page names it", found=name, remedy=remedy)
    if not (value := os.environ.get(name, "")):
        raise SecretError(where, expected=f"the variable {name}", found="none", remedy=f"export {name}=… before starting.")
    return value


def _from_file(path: Path, where: str, origin: Origin) -> str:
    """What a private file holds, without the line break at its end; looked at through one handle, so that it cannot be exchanged."""
    if origin is Origin.PAGE:
        raise SecretError(
            where, expected=f"{FROM_ENVIRONMENT}{PAGE_PREFIX}NAME, where a page names it", found="a file", remedy="Name a variable."
        )
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))  # a pipe would otherwise wait for its writer
    except OSError as gone:
        raise SecretError(where, expected=f"the file {path}", found=gone.strerror or "none", remedy="Check the path.") from None
    try:
        _refuse_open_file(os.fstat(handle), path, where)
        content = os.read(handle, _MAX_BYTES + 1)
    finally:
        os.close(handle)
    try:
        text = content.decode("utf-8").strip("\r\n")
    except UnicodeDecodeError:
        text = ""
    if not text or len(content) > _MAX_BYTES:
        raise SecretError(where, expected=f"one line of UTF-8 in {path}", found="something else", remedy="Is it the right file?") from None
    return text


def _refuse_open_file(found: os.stat_result, path: Path, where: str) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise SecretError(where, expected=f"a plain file {path}", found="no plain file", remedy="Check the path.")
    mode = stat.S_IMODE(found.st_mode)
    if os.name == "posix" and mode & 0o077:
        remedy = f"chmod 600 {path}; if others have read it, change the secret as well."
        raise SecretError(where, expected=f"{path} of mode 600", found=f"mode {mode:03o}", remedy=remedy)


def _checked(value: str, where: str) -> Secret:
    if _CONTROL.search(value):
        raise SecretError(where, expected="one line", found="a line break or another control character", remedy="Write it on one line.")
    return Secret(value)
