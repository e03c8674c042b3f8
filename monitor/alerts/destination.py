"""One destination as set up: its settings checked, its secrets at hand only while it is told something, and never in what it says."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ingest.errors import ReadError
from monitor.alerts import quiet
from monitor.alerts._settings import Option, SinkSettings
from monitor.alerts.masking import Mask, masker, names_a_secret, secrets_of, shown
from monitor.alerts.notification import Notification
from monitor.alerts.secrets import Origin, Secret, is_reference, secret
from monitor.alerts.sink import OptionKind, Options, SettingsError, Sink, SinkError, sink_of

_MOST_REASON = 300  # characters of an error that are kept
_TYPES: Mapping[OptionKind, Callable[[Any], bool]] = {
    OptionKind.TEXT: lambda given: isinstance(given, str),
    OptionKind.SECRET: lambda given: isinstance(given, str),
    OptionKind.NUMBER: lambda given: isinstance(given, (int, float)) and not isinstance(given, bool) and math.isfinite(given),
    OptionKind.SWITCH: lambda given: isinstance(given, bool),
    OptionKind.LIST: lambda given: isinstance(given, tuple),
    OptionKind.TABLE: lambda given: isinstance(given, Mapping),
    OptionKind.SECRETS: lambda given: isinstance(given, Mapping),
}


@dataclass(frozen=True, kw_only=True)
class Destination:
    """A destination that can be told something; made by `destination`."""

    settings: SinkSettings
    sink: Sink
    origin: Origin

    @property
    def name(self) -> str:
        """What the rule file calls it."""
        return self.settings.name

    @property
    def shown(self) -> str:
        """Where it leads, as anybody may see it."""
        said = [self.sink.id]
        for option in self.sink.options:
            given = self.settings.options.get(option.name)
            if option.kind is OptionKind.SECRET and isinstance(given, str):
                said.append(given if is_reference(given) else shown(given))
            elif option.kind is OptionKind.TEXT and option.required:
                said.append(str(given))
        return " ".join(said)

    def tell(self, notification: Notification, secrets: Iterable[str] = ()) -> None:
        """Tell it one thing.

        Args:
            notification: what.
            secrets: those of other destinations, which must not be in what it says either: a command may know them.

        Raises:
            SinkError: it did not take it, or its settings no longer hold; nothing secret is in the text, nor behind it as a cause.
        """
        try:
            options = _options(self.settings, self.sink, self.origin)
        except ReadError as gone:  # a variable or file that was there when it was set up
            raise SinkError(str(gone), lasting=True) from None
        mask = masker([*_revealed(options), *secrets, *secrets_of(os.environ)])
        failed = _failure(self.sink, options, notification, mask)
        if failed is not None:  # raised out here, where no exception with the secret in it is being handled
            raise failed

    def __repr__(self) -> str:
        return f"Destination({self.name}: {self.shown})"


def destination(settings: SinkSettings, origin: Origin = Origin.FILE) -> Destination:
    """Set a destination up.

    Raises:
        SettingsError: a kind or an option that is not known, or a value that cannot be; or one that a page may not set.
        SecretError: a secret that is not there, not private, or in the open.
    """
    sink = sink_of(settings.sink, _where(settings))
    if origin is Origin.PAGE and not sink.from_page:
        remedy = "Write it into the rule file by hand."
        raise SettingsError(_where(settings), expected="a kind that a page may set", found=sink.id, remedy=remedy)
    options = _options(settings, sink, origin)
    try:
        sink.check(options)
    except ReadError as wrong:
        found = masker(_revealed(options))(wrong.found)  # all else in it is our own words
        raise SettingsError(wrong.where, expected=wrong.expected, found=found, remedy=wrong.remedy) from None
    return Destination(settings=settings, sink=sink, origin=origin)


def named_secrets(sinks: Iterable[SinkSettings]) -> list[str]:
    """Every secret that some settings name, as far as it is there."""
    held = (given for settings in sinks for given in settings.options.values())
    texts = (text for given in held for text in (given.values() if isinstance(given, Mapping) else (given,)))
    return [found for text in texts if isinstance(text, str) and is_reference(text) for found in _had(text)]


def _had(reference: str) -> tuple[str, ...]:
    try:
        return (secret(reference, "").reveal(),)
    except ReadError:  # whoever needs it says so
        return ()


def refuse_from_page(before: Iterable[SinkSettings], after: Iterable[SinkSettings]) -> None:
    """Refuse what a page wants to write where it adds or changes a destination that only the rule file may set.

    Raises:
        SettingsError: names the first of them.
    """
    known = {settings.name: settings for settings in before}
    for settings in after:
        if settings != known.get(settings.name):
            destination(settings, Origin.PAGE)


def _failure(sink: Sink, options: Options, notification: Notification, mask: Mask) -> SinkError | None:
    with quiet.quiet(mask):
        try:
            sink.send(options, notification)
        except SinkError as said:
            return SinkError(_short(mask(str(said))), lasting=said.lasting, retry_after_s=said.retry_after_s)
        except Exception as unforeseen:  # noqa: BLE001 - a library's or our own: one destination must not end the watch
            return SinkError(_short(mask(f"{type(unforeseen).__name__}: {unforeseen}")))
    return None


def _options(settings: SinkSettings, sink: Sink, origin: Origin) -> Options:
    where = _where(settings)
    _refuse_missing(settings, sink, where)
    plain: dict[str, Option] = {}
    held: dict[str, Secret | Mapping[str, Secret]] = {}
    for name, given in settings.options.items():
        option = sink.option(name)
        if option is None:
            known = ", ".join(option.name for option in sink.options) or "no option"
            raise SettingsError(where, expected=f"only {known}", found=repr(name)[:80], remedy="Correct it.")
        if not _TYPES[option.kind](given):
            raise SettingsError(f"{where}, {name}", expected=f"a {option.kind}", found=type(given).__name__, remedy="Correct it.")
        if option.kind is OptionKind.SECRET:
            held[name] = secret(str(given), f"{where}, {name}", origin)
        elif option.kind is OptionKind.SECRETS and isinstance(given, Mapping):
            held[name] = {key: _entry(key, value, f"{where}, {name}", origin) for key, value in given.items()}
        else:
            plain[name] = given
    return Options(where=where, plain=plain, secrets=held)


def _refuse_missing(settings: SinkSettings, sink: Sink, where: str) -> None:
    for option in sink.options:
        if option.required and option.name not in settings.options:
            raise SettingsError(where, expected=option.name, found="none", remedy=f"Add it: {option.what}.")


def _entry(key: str, value: str, where: str, origin: Origin) -> Secret:
    """One value of a table; what usually holds a secret may not stand in the open."""
    if is_reference(value):
        return secret(value, f"{where}, {key}", origin)
    if names_a_secret(key):
        raise SettingsError(f"{where}, {key}", expected="env:NAME or file:PATH", found="a value in the open", remedy="Move it there.")
    return Secret(value)


def _revealed(options: Options) -> list[str]:
    """Every secret of a destination; plain values of a table that may hold secrets are among them."""
    single = [held.reveal() for held in options.secrets.values() if isinstance(held, Secret)]
    return single + [value.reveal() for held in options.secrets.values() if isinstance(held, Mapping) for value in held.values()]


def _where(settings: SinkSettings) -> str:
    return f"sink {settings.name!r}"


def _short(text: str) -> str:
    one_line = " ".join(text.split())
    return one_line if len(one_line) <= _MOST_REASON else one_line[:_MOST_REASON] + " …"
