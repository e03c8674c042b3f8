"""A signal to the trainer: resynchronise the generator now; `monitor.record.should_resync` reads it."""

from __future__ import annotations

from pathlib import Path

from monitor.alerts.notification import Kind, Notification
from monitor.alerts.resync import Places, ask, withdraw
from monitor.alerts.sink import OptionKind, Options, Sink, SinkError, SinkOption

_ASKING = {Kind.FIRING, Kind.REMINDER}  # a NaN and a run that hangs are not mended by newer weights


def _send(options: Options, told: Notification) -> None:
    folder = places(options).of(told.run)
    try:
        if told.kind in _ASKING:
            ask(folder, told)
        elif told.kind is Kind.RESOLVED:
            withdraw(folder, told.episode)
    except (OSError, ValueError) as failed:
        raise SinkError(f"the signal cannot be written: {getattr(failed, 'strerror', None) or failed}") from None


def places(options: Options) -> Places:
    """Where the signals lie, as the settings say."""
    folders = {run: Path(path).expanduser() for run, path in options.table("folders").items()}
    return Places(folders=folders, spare=Path(options.text("spare")).expanduser() if options.text("spare") else None)


SINK = Sink(
    id="resync",
    title="A resync signal for the trainer",
    options=(
        SinkOption(name="folders", what="run id and the folder in which its trainer looks", kind=OptionKind.TABLE),
        SinkOption(name="spare", what="parent folder for all other runs; .ratiometer/resync where not given"),
    ),
    send=_send,
    from_page=False,  # it writes into any folder of the user's
    on_trial=False,  # a test would make a trainer do something
)
