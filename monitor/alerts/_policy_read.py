"""The text of a rule file becomes a policy, or an error that names the line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
from typing import Any, TypeVar

from monitor.alerts._settings import Option, Policy, ResyncSettings, SinkSettings
from monitor.alerts.rule import AlertRule, Comparison, PolicyError, Relation, RuleKind, Severity

_TABLE = re.compile(r"\s*\[{1,2}\s*(rule|sink|resync)\s*\]{1,2}")
_KEY = re.compile(r"\s*\"?([\w-]+)\"?\s*=")
_TOP = ("include_defaults", "poll_s", "rule", "sink", "resync")
_EXAMPLE = 'For instance: [[rule]], and under it id = "ess", metric = "ess.lag.token", comparison = "<", threshold = 0.5.'
_CLOSED = {"kind": RuleKind, "comparison": Comparison, "relation": Relation, "severity": Severity, "least": Severity}
_KINDS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "str": (lambda given: isinstance(given, str), "text in quotes"),
    "bool": (lambda given: isinstance(given, bool), "true or false"),
    "int": (lambda given: isinstance(given, int) and not isinstance(given, bool), "a whole number"),
    "float": (lambda given: isinstance(given, (int, float)) and not isinstance(given, bool), "a number"),
    "tuple[str, ...]": (lambda given: isinstance(given, list) and all(isinstance(each, str) for each in given), "a list of texts"),
}
T = TypeVar("T", AlertRule, SinkSettings, ResyncSettings)


def parsed(text: str, where: str, defaults: tuple[AlertRule, ...]) -> Policy:
    """The policy that a file's text says.

    Args:
        text: TOML.
        where: what the file is called in errors.
        defaults: the rules that `include_defaults = true` puts before the file's own; a rule of the file with the same id replaces one.

    Raises:
        PolicyError: the text is no TOML, or says something that cannot be; with the line.
    """
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as broken:
        raise PolicyError(where, expected="TOML", found=f"text that is not ({broken})", remedy=_EXAMPLE) from broken
    at = _Places(text, where)
    for name in table:
        if name not in _TOP:
            raise PolicyError(at(key=name), expected=f"only {', '.join(_TOP)}", found=repr(name)[:80], remedy=_EXAMPLE)
    rules = tuple(_rule(entry, at, place) for place, entry in enumerate(_list(table, "rule", at)))
    sinks = tuple(_sink(entry, at, place) for place, entry in enumerate(_list(table, "sink", at)))
    if _top(table, "include_defaults", "bool", at, default=False):
        own = {rule.id for rule in rules}
        rules = (*(rule for rule in defaults if rule.id not in own), *rules)
    resync = table.get("resync", {})
    if not isinstance(resync, dict):
        raise PolicyError(at(key="resync"), expected="a table [resync]", found=repr(resync)[:80], remedy=_EXAMPLE)
    try:
        return Policy(
            rules=rules,
            sinks=sinks,
            poll_s=float(_top(table, "poll_s", "float", at, default=1.0)),
            resync=_made(ResyncSettings, resync, at, "resync", 0),
            comments=at.comments(rules[-len(_list(table, "rule", at)) :] if table.get("rule") else (), sinks),
        )
    except PolicyError as wrong:
        raise _with_place(wrong, where) from wrong


class _Places:
    """Where things stand in the text: lines of tables and keys, and the comments above them; good enough for people."""

    def __init__(self, text: str, where: str) -> None:
        self.where = where
        self.lines = text.splitlines()
        self.tables: dict[tuple[str, int], int] = {}  # (table, its place among those of its name) -> line, from 0
        for number, line in enumerate(self.lines):
            if match := _TABLE.match(line):
                name = match[1]
                self.tables[name, sum(known == name for known, _ in self.tables)] = number

    def __call__(self, table: str = "", place: int = 0, key: str = "") -> str:
        """`rules.toml, line 12`: the line of a key in a table, else of the table, else of the file."""
        start = self.tables.get((table, place), -1)
        end = min((line for line in self.tables.values() if line > start), default=len(self.lines))
        for number in range(start + 1, end):
            if (match := _KEY.match(self.lines[number])) and match[1] == key:
                return f"{self.where}, line {number + 1}"
        return f"{self.where}, line {start + 1}" if start >= 0 else self.where

    def comments(self, rules: tuple[AlertRule, ...], sinks: tuple[SinkSettings, ...]) -> dict[str, tuple[str, ...]]:
        """The comment lines right above each table, and those at the top of the file under ""."""
        named = {("rule", place): f"rule {rule.id}" for place, rule in enumerate(rules)}
        named |= {("sink", place): f"sink {sink.name}" for place, sink in enumerate(sinks)}
        named |= {("resync", 0): "resync"}
        above = {named[key]: self._above(line) for key, line in self.tables.items() if key in named}
        top = next((number for number, line in enumerate(self.lines) if not line.startswith("#")), len(self.lines))
        first = min(self.tables.values(), default=None)
        return {name: lines for name, lines in {"": tuple(self.lines[:top]) if top != first else (), **above}.items() if lines}

    def _above(self, line: int) -> tuple[str, ...]:
        start = line
        while start and self.lines[start - 1].startswith("#"):
            start -= 1
        return tuple(self.lines[start:line])


def _rule(entry: dict[str, Any], at: _Places, place: int) -> AlertRule:
    return _made(AlertRule, entry, at, "rule", place)


def _sink(entry: dict[str, Any], at: _Places, place: int) -> SinkSettings:
    known = {each.name for each in fields(SinkSettings)} - {"options"}
    options = {name: _option(name, value, at, place) for name, value in entry.items() if name not in known}
    made = _made(SinkSettings, {name: value for name, value in entry.items() if name in known}, at, "sink", place)
    return SinkSettings(**{name: getattr(made, name) for name in known}, options=options)


def _option(name: str, value: object, at: _Places, place: int) -> Option:
    if isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return tuple(value)
    if isinstance(value, dict) and all(isinstance(each, str) for each in value.values()):
        return dict(value)
    raise PolicyError(
        at("sink", place, name), expected="a text, a number, a list or a table of texts", found=repr(value)[:80], remedy="Correct it."
    )


def _made(kind: type[T], entry: dict[str, Any], at: _Places, table: str, place: int) -> T:
    """A dataclass from a table: each key a field, of its type; an objection of the dataclass itself gets its line."""
    known = {each.name: each for each in fields(kind) if each.name != "options"}
    for name in entry:
        if name not in known:
            raise PolicyError(at(table, place, name), expected=f"only {', '.join(known)}", found=repr(name)[:80], remedy=_EXAMPLE)
    for name, each in known.items():
        if each.default is MISSING and each.default_factory is MISSING and name not in entry:
            raise PolicyError(at(table, place), expected=name, found="none", remedy=_EXAMPLE)
    given: dict[str, Any] = {name: _value(known[name], value, at(table, place, name)) for name, value in entry.items()}
    try:
        return kind(**given)
    except PolicyError as wrong:
        line = at(table, place, wrong.where.rpartition(", ")[2])
        raise _with_place(wrong, line) from wrong


def _value(field: Field[Any], given: Any, where: str) -> Any:  # noqa: ANN401 - TOML
    """One value as its field's type takes it."""
    if field.name in _CLOSED:
        words = [str(each) for each in _CLOSED[field.name]]
        if given not in words:
            raise PolicyError(f"{where}, {field.name}", expected=f"one of {', '.join(words)}", found=repr(given)[:80], remedy="Correct it.")
        return _CLOSED[field.name](str(given))
    fits, expected = _KINDS[str(field.type).removesuffix(" | None")]
    if not fits(given):
        raise PolicyError(f"{where}, {field.name}", expected=expected, found=repr(given)[:80], remedy="Correct it.")
    if isinstance(given, list):
        return tuple(given)
    return float(given) if isinstance(given, int) and "float" in str(field.type) else given


def _list(table: dict[str, Any], name: str, at: _Places) -> list[dict[str, Any]]:
    given = table.get(name, [])
    if not (isinstance(given, list) and all(isinstance(each, dict) for each in given)):
        raise PolicyError(at(name), expected=f"tables [[{name}]]", found=repr(given)[:80], remedy=_EXAMPLE)
    return given


def _top(table: dict[str, Any], name: str, kind: str, at: _Places, *, default: float | bool) -> Any:  # noqa: ANN401 - TOML
    fits, expected = _KINDS[kind]
    given = table.get(name, default)
    if not fits(given):
        raise PolicyError(f"{at(key=name)}, {name}", expected=expected, found=repr(given)[:80], remedy="Correct it.")
    return given


def _with_place(wrong: PolicyError, where: str) -> PolicyError:
    return PolicyError(f"{where}, {wrong.where}", expected=wrong.expected, found=wrong.found, remedy=wrong.remedy)
