"""What a destination is: its id, the options it takes, and a function that tells it one thing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from ingest.discover import discover
from ingest.errors import RatiometerError, ReadError
from monitor.alerts.notification import Notification
from monitor.alerts.secrets import Secret

TIMEOUT_S = 10.0
Value = str | float | bool | tuple[str, ...] | Mapping[str, str]


class SettingsError(ReadError):
    """A destination that cannot be as its settings say; names the option, and never what is secret in it."""


class SinkError(RatiometerError):
    """A destination that did not take what it was told.

    Args:
        reason: in words; whoever catches it hides what is secret in it.
        lasting: trying again at once is of no use (the address is refused, not found, or wrong).
        retry_after_s: how long the destination itself asks to wait.
    """

    def __init__(self, reason: str, *, lasting: bool = False, retry_after_s: float | None = None) -> None:
        """Keep what decides when it is tried again."""
        self.lasting, self.retry_after_s = lasting, retry_after_s
        super().__init__(reason)


class OptionKind(StrEnum):
    """What an option of a destination holds."""

    TEXT = "text"
    SECRET = "secret"  # noqa: S105 - a word, no password. env:NAME or file:PATH; an address without secrets may stand in the open
    NUMBER = "number"
    SWITCH = "switch"
    LIST = "list of texts"
    TABLE = "table of texts"
    SECRETS = "table of texts and secrets"  # each value a text, env:NAME or file:PATH


@dataclass(frozen=True, kw_only=True)
class SinkOption:
    """One key that a destination's table in the rule file may have."""

    name: str
    what: str  # its meaning, for the documentation and the page
    kind: OptionKind = OptionKind.TEXT
    required: bool = False


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of one destination with its secrets at hand, for the time of one call."""

    where: str  # what the destination is called in errors
    plain: Mapping[str, Value]
    secrets: Mapping[str, Secret | Mapping[str, Secret]]

    def text(self, name: str, default: str = "") -> str:
        """A text, or a secret."""
        held = self.secrets.get(name)
        return held.reveal() if isinstance(held, Secret) else str(self.plain.get(name, default))

    def number(self, name: str, default: float) -> float:
        """A number."""
        found = self.plain.get(name, default)
        return float(found) if isinstance(found, (int, float)) else default

    def on(self, name: str) -> bool:
        """A switch; off where it is not set."""
        return self.plain.get(name) is True

    def texts(self, name: str) -> tuple[str, ...]:
        """A list."""
        found = self.plain.get(name, ())
        return found if isinstance(found, tuple) else ()

    def table(self, name: str) -> dict[str, str]:
        """A table, its secrets revealed."""
        held, found = self.secrets.get(name, self.plain.get(name, {})), {}
        if isinstance(held, Mapping):
            found = {key: value.reveal() if isinstance(value, Secret) else value for key, value in held.items()}
        return found

    def wrong(self, name: str, expected: str, found: str, remedy: str = "Correct it.") -> SettingsError:
        """What to raise for an option that cannot be."""
        return SettingsError(f"{self.where}, {name}" if name else self.where, expected=expected, found=found, remedy=remedy)


def _no_objection(_: Options) -> None:
    """Nothing beyond the types of the options can be wrong."""


@dataclass(frozen=True, kw_only=True)
class Sink:
    """One kind of destination. A file of `monitor/alerts/sinks` ends in one of these, named SINK.

    `send` tells it one thing and raises `SinkError` where that failed; it runs on a thread of its own, and what it raises and logs is
    cleared of secrets by whoever calls it. `check` looks at the options when they are set up, and raises `SettingsError`.
    """

    id: str
    title: str
    send: Callable[[Options, Notification], None]
    options: tuple[SinkOption, ...] = ()
    check: Callable[[Options], None] = _no_objection
    schemes: tuple[str, ...] = ()  # of the addresses that --notify takes for it
    address: str = ""  # the option that such an address becomes
    from_page: bool = True  # whether a page may add or change one
    on_trial: bool = True  # whether a test message does no more than arrive
    timeout_s: float = TIMEOUT_S  # after which a try counts as failed

    @property
    def secret_fields(self) -> tuple[str, ...]:
        """Names of the options that may hold secrets."""
        return tuple(option.name for option in self.options if option.kind in {OptionKind.SECRET, OptionKind.SECRETS})

    def option(self, name: str) -> SinkOption | None:
        """An option by its name."""
        return next((option for option in self.options if option.name == name), None)


@cache
def sinks() -> tuple[Sink, ...]:
    """Every kind of destination."""
    found: tuple[Sink, ...] = discover("monitor.alerts.sinks", "SINK")
    return found


def sink_of(kind: str, where: str) -> Sink:
    """The kind of destination with this id.

    Raises:
        SettingsError: there is none.
    """
    found = next((sink for sink in sinks() if sink.id == kind), None)
    if found is None:
        known = ", ".join(sink.id for sink in sinks())
        raise SettingsError(f"{where}, sink", expected=f"one of {known}", found=repr(kind)[:80], remedy="Correct it.")
    return found
