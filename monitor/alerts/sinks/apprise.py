"""Every service that apprise speaks to: Slack, Discord, Telegram, e-mail, PagerDuty and a hundred more, each by its address."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from monitor.alerts.fields import fields, title
from monitor.alerts.notification import Kind, Notification
from monitor.alerts.rule import Severity
from monitor.alerts.sink import OptionKind, Options, Sink, SinkError, SinkOption

_JSON = {"json", "jsons"}
_RELAYED = logging.WARNING  # what apprise logs from here on is the reason of a failure


def _send(options: Options, told: Notification) -> None:
    import apprise  # noqa: PLC0415 - loaded only where somebody uses it

    service = _service(options.text("url"))
    if service is None:
        raise SinkError("apprise does not know this address", lasting=True)
    if options.text("url").partition(":")[0].lower() in _JSON:
        # apprise writes these beside its own title, message and type; what the address itself adds goes first
        service.payload_extras = {**_beside(told), **service.payload_extras}
    kinds = apprise.NotifyType
    kind = kinds.FAILURE if told.severity is Severity.CRITICAL else kinds.WARNING
    with _overheard() as said:
        over = kinds.SUCCESS if told.kind is Kind.RESOLVED else kind
        # the service itself and not apprise's container, whose threads are few and shared: one that hangs would hold up all others
        taken = service.notify(body=told.text, title=title(told), notify_type=over, body_format=apprise.NotifyFormat.TEXT)
    if not taken:
        raise SinkError(said[-1] if said else "apprise could not deliver it, and does not say why")


def _beside(told: Notification) -> dict[str, Any]:
    """The fields, numbers as numbers; `title` is apprise's own key already."""
    return {name: value for name, value in fields(told).items() if name != "title"}


def native(url: str) -> bool:
    """Whether apprise knows a service by this address; a plain https:// is one only where its host is that of a service."""
    return _service(url) is not None


def speaks(scheme: str) -> bool:
    """Whether apprise has a service for such addresses."""
    from apprise import manager_plugins  # noqa: PLC0415

    services: Any = manager_plugins.NotificationManager
    return scheme in services().schemas()


def _service(url: str) -> Any:  # noqa: ANN401 - any of apprise's services
    import apprise  # noqa: PLC0415

    with _overheard():
        return apprise.Apprise.instantiate(url, suppress_exceptions=True)


@contextmanager
def _overheard() -> Iterator[list[str]]:
    """What apprise logs on this thread, kept from the log: it answers with false, and says why only there."""
    log, said, here = logging.getLogger("apprise"), [], threading.get_ident()

    def overhear(record: logging.LogRecord) -> bool:
        if record.thread != here:
            return True
        if record.levelno >= _RELAYED:
            said.append(record.getMessage())
        return False

    log.addFilter(overhear)
    try:
        yield said
    finally:
        log.removeFilter(overhear)


def _check(options: Options) -> None:
    if not native(options.text("url")):
        remedy = 'See the list of addresses in apprise\'s documentation; for any other web address use sink = "webhook".'
        raise options.wrong("url", "an address that apprise knows", "another", remedy)


SINK = Sink(
    id="apprise",
    title="Anything apprise speaks to",
    options=(SinkOption(name="url", what="apprise's address of the service", kind=OptionKind.SECRET, required=True),),
    schemes=("json", "jsons"),  # and every other scheme that no other destination takes
    address="url",
    send=_send,
    check=_check,
    timeout_s=30.0,  # some services take several requests
)
