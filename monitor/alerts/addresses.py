"""An address on the command line (`--notify URL`) as a destination."""

from __future__ import annotations

import hashlib

from monitor.alerts._settings import SinkSettings
from monitor.alerts.secrets import Origin, SecretError, is_reference, secret
from monitor.alerts.sink import OptionKind, SettingsError, Sink, sink_of, sinks

_EVERYTHING_ELSE = "apprise"
_WEB = {"http", "https"}
_LONGEST = 16  # characters of a scheme; what is longer may be a secret that lacks its scheme


def settings_of(address: str) -> SinkSettings:
    """The settings that an address stands for: `json://HOST:PORT`, any address of apprise's, `https://…`, `jsonl:PATH`, `log:`, `env:NAME`.

    The destination is named after the address as it is written, so that what could not be sent is sent there after a restart as well.

    Raises:
        SecretError: it holds a secret, or names one that is not there.
        SettingsError: it is no address.
    """
    where = "--notify"
    referred = is_reference(address)
    meant = secret(address, where, Origin.COMMAND_LINE).reveal() if referred else address
    scheme, colon, rest = meant.partition(":")
    if not colon or not scheme:
        raise SettingsError(where, expected="an address, for instance json://127.0.0.1:9000", found="another text", remedy="Correct it.")
    _refuse_unknown(scheme.lower(), where, said=not referred)
    sink = _sink(scheme.lower(), meant)
    option = sink.option(sink.address)
    if referred and (option is None or option.kind is not OptionKind.SECRET):
        raise SettingsError(where, expected="an address with a secret", found="another address", remedy="Write it as it is.")
    if sink.id == _EVERYTHING_ELSE and scheme.lower() in _WEB and not referred:
        remedy = "Put it into a variable and write env:NAME, or into a file of mode 600 and write file:PATH."
        raise SecretError(where, expected="a setting without secrets", found="an address that lets anybody write there", remedy=remedy)
    written = address if option is not None and option.kind is OptionKind.SECRET else rest.removeprefix("//")
    digest = hashlib.blake2b(address.encode(), digest_size=3).hexdigest()
    return SinkSettings(name=f"{sink.id}-{digest}", sink=sink.id, options={sink.address: written} if sink.address else {})


def _refuse_unknown(scheme: str, where: str, *, said: bool) -> None:
    """Refuse a scheme that nobody takes, before anybody asks what in such an address may be secret.

    Args:
        scheme: in small letters.
        where: what the setting is called in errors.
        said: whether it may be repeated.
    """
    if any(scheme in sink.schemes for sink in sinks()):
        return
    if said and scheme in {sink.id for sink in sinks()}:
        remedy = f'Write it into the rule file: [[sink]] with sink = "{scheme}" (docs/sinks.md).'
        raise SettingsError(where, expected="a kind that an address can set up", found=f"{scheme}:", remedy=remedy)
    from monitor.alerts.sinks.apprise import speaks  # noqa: PLC0415 - as the sinks are: only when one is asked for

    if not speaks(scheme):
        known = ", ".join(f"{each}:" for each in sorted({each for sink in sinks() for each in sink.schemes}))
        found = f"{scheme}:, which nobody takes" if said and scheme.isalnum() and len(scheme) <= _LONGEST else "another scheme"
        raise SettingsError(where, expected=f"{known}, or a scheme of apprise's", found=found, remedy="Correct it (docs/sinks.md).")


def _sink(scheme: str, address: str) -> Sink:
    """Who takes a scheme; a web address is apprise's where apprise knows its host, and a webhook elsewhere."""
    if scheme in _WEB:
        from monitor.alerts.sinks.apprise import native  # noqa: PLC0415 - as the sinks are: only when one is asked for

        return sink_of(_EVERYTHING_ELSE if native(address) else "webhook", "--notify")
    return next((sink for sink in sinks() if scheme in sink.schemes), sink_of(_EVERYTHING_ELSE, "--notify"))
