"""An alert in Weights & Biases (`wandb.alert`): in the project's own list, and from there by e-mail or Slack as the user has set there."""

from __future__ import annotations

import tempfile
from datetime import timedelta
from typing import Any

from monitor.alerts.fields import title
from monitor.alerts.notification import Kind, Notification
from monitor.alerts.rule import Severity
from monitor.alerts.sink import OptionKind, Options, Sink, SinkError, SinkOption

_RUN = "ratiometer-alerts"
_MOST_TITLE = 63  # "must be less than 64 characters long"
_REPEAT = timedelta(seconds=1)  # wandb keeps back a second alert of one title for so long; None would mean a minute
_TIMEOUT_S = 60.0


def _send(options: Options, told: Notification) -> None:
    import wandb  # noqa: PLC0415 - loaded only where somebody uses it

    level = "INFO" if told.kind is Kind.RESOLVED else "ERROR" if told.severity is Severity.CRITICAL else "WARN"
    with tempfile.TemporaryDirectory(prefix="ratiometer-") as scratch:
        try:
            run = _run(wandb, options, options.text("dir") or scratch)
            run.alert(title(told)[:_MOST_TITLE], told.text, level=level, wait_duration=_REPEAT)
            run.finish()
        except wandb.errors.Error as failed:
            raise SinkError(f"wandb: {failed}") from None


def _run(wandb: Any, options: Options, folder: str) -> Any:  # noqa: ANN401 - wandb's module and its run
    """A small run of our own beside the one that is watched: to resume that one would write into its history, and end it."""
    settings = wandb.Settings(
        console="off", silent=True, disable_git=True, save_code=False, x_disable_stats=True, init_timeout=_TIMEOUT_S / 2
    )
    if key := options.text("api_key"):
        settings.api_key = key
    return wandb.init(
        entity=options.text("entity") or None,
        project=options.text("project"),
        id=None if options.on("offline") else _RUN,
        name=_RUN,
        job_type="alerts",
        dir=folder,
        mode="offline" if options.on("offline") else "online",
        resume=None if options.on("offline") else "allow",
        reinit="create_new",
        settings=settings,
    )


def _check(options: Options) -> None:
    if options.on("offline") and not options.text("dir"):
        raise options.wrong("dir", "a folder, where nothing is sent", "none", "Add it.")


SINK = Sink(
    id="wandb_alert",
    title="Weights & Biases",
    options=(
        SinkOption(name="project", what="the project in which the alert appears", required=True),
        SinkOption(name="entity", what="its entity; the user's own where not given"),
        SinkOption(name="api_key", what="the key; WANDB_API_KEY or the login where not given", kind=OptionKind.SECRET),
        SinkOption(name="offline", what="only write it, to be sent by wandb sync", kind=OptionKind.SWITCH),
        SinkOption(name="dir", what="where wandb puts its files"),
    ),
    send=_send,
    check=_check,
    timeout_s=_TIMEOUT_S,
)
