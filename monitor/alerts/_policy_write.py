"""A policy as the text of a rule file: what differs from the defaults of each field, under the comments that stood above it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from ingest.user_mapping import quoted
from monitor.alerts._settings import Policy, ResyncSettings, SinkSettings
from monitor.alerts.rule import AlertRule

_ALWAYS = ("id", "what", "metric", "comparison", "threshold", "severity")  # a rule is read by people: what it is stands there
_WITHOUT = {"nonfinite": ("comparison", "threshold"), "no_data": ("comparison", "threshold")}


def written(policy: Policy) -> str:
    """The policy as text that `policy.read_policy` takes; comments above tables and at the top are kept, those inside a table are not."""
    blocks = ["\n".join(policy.comments.get("", ())), f"poll_s = {policy.poll_s!r}" if policy.poll_s != Policy().poll_s else ""]
    blocks += [_block(policy, f"rule {rule.id}", "[[rule]]", _rule(rule)) for rule in policy.rules]
    blocks += [_block(policy, f"sink {sink.name}", "[[sink]]", _sink(sink)) for sink in policy.sinks]
    if policy.resync != ResyncSettings() or "resync" in policy.comments:
        blocks.append(_block(policy, "resync", "[resync]", _changed(policy.resync)))
    return "\n\n".join(block for block in blocks if block) + "\n"


def _block(policy: Policy, name: str, head: str, said: Mapping[str, Any]) -> str:
    return "\n".join([*policy.comments.get(name, ()), head, *(f"{key} = {_toml(value)}" for key, value in said.items())])


def _rule(rule: AlertRule) -> dict[str, Any]:
    without = _WITHOUT.get(rule.kind, ())
    always = {name: getattr(rule, name) for name in _ALWAYS if name not in without}
    return always | _changed(rule)


def _sink(sink: SinkSettings) -> dict[str, Any]:
    return _changed(sink) | {_key(name): value for name, value in sink.options.items()}


def _changed(made: AlertRule | SinkSettings | ResyncSettings) -> dict[str, Any]:
    """The fields that are not as they are when nothing is said."""
    found = {}
    for field in fields(made):
        value = getattr(made, field.name)
        if field.name != "options" and (field.default is MISSING or value != field.default):
            found[field.name] = value
    return found


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(name)} = {_toml(each)}" for name, each in value.items()) + "}"
    return repr(value)


def _key(name: str) -> str:
    return name if name.isascii() and name.replace("_", "").replace("-", "").isalnum() else quoted(name)
