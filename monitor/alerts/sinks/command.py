"""A command of the user's own: off by default, set only in the rule file, run without a shell, told through its environment."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from typing import IO

from monitor.alerts.fields import fields
from monitor.alerts.notification import Notification
from monitor.alerts.sink import TIMEOUT_S, OptionKind, Options, Sink, SinkError, SinkOption

PREFIX = "RATIOMETER_ALERT_"
_MOST_OUTPUT = 2048  # bytes of what it prints that are kept
_MOST_FIELD = 2**15  # bytes; the system limits what an environment holds


def _send(options: Options, told: Notification) -> None:
    if not options.on("allow"):
        raise SinkError("it is switched off: allow = true is not set", lasting=True)
    environment = {**os.environ, **{PREFIX + name.upper(): _text(value) for name, value in fields(told).items()}}
    with tempfile.TemporaryFile() as printed:  # a pipe would be held open by whatever the command leaves running
        try:
            process = subprocess.Popen(  # noqa: S603 - a list, no shell; only whoever writes the rule file sets it
                [*options.texts("argv")], env=environment, stdin=subprocess.DEVNULL, stdout=printed, stderr=printed, start_new_session=True
            )
        except OSError as failed:
            raise SinkError(f"cannot be started: {failed.strerror or failed}", lasting=True) from None
        code = _wait(process)
        if code:
            raise SinkError(f"ended with {code}: {_said(printed)}")


def _wait(process: subprocess.Popen[bytes]) -> int:
    """Its exit code; a command that takes too long is ended with all that it started."""
    try:
        return process.wait(TIMEOUT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise SinkError(f"took more than {TIMEOUT_S:g} s, and was ended") from None


def _said(printed: IO[bytes]) -> str:
    """The beginning of what it printed; where that is cut, without its last word: half a secret is not known to be one."""
    printed.seek(0)
    said = printed.read(_MOST_OUTPUT + 1).decode("utf-8", "replace")
    whole = said if printed.tell() <= _MOST_OUTPUT else said.rsplit(maxsplit=1)[0] if len(said.split()) > 1 else "a long word"
    return whole.strip() or "it printed nothing"


def _text(value: object) -> str:
    """A field as a variable of the environment takes it."""
    text = "" if value is None else str(value).replace("\0", "")
    return text.encode("utf-8", "replace")[:_MOST_FIELD].decode("utf-8", "ignore")


def _check(options: Options) -> None:
    argv = options.texts("argv")
    if not argv or not argv[0]:
        raise options.wrong("argv", "a list: the program, then its arguments", "an empty one")
    if not options.on("allow"):
        raise options.wrong("allow", "true, because a command is run only where that is said", "false or nothing", "Add allow = true.")
    if os.sep in argv[0] and not os.access(argv[0], os.X_OK):
        raise options.wrong("argv", "a program that may be run", argv[0][:80], "Check the path and its mode.")


SINK = Sink(
    id="command",
    title="A command",
    options=(
        SinkOption(name="argv", what="the program and its arguments, as a list", kind=OptionKind.LIST, required=True),
        SinkOption(name="allow", what="true, or nothing is run", kind=OptionKind.SWITCH, required=True),
    ),
    send=_send,
    check=_check,
    from_page=False,
    timeout_s=TIMEOUT_S + 5,  # it ends the command itself first
)
