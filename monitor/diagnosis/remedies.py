"""What to change, in the words of the user's own framework and engine."""

from __future__ import annotations

from collections.abc import Mapping

from monitor.diagnosis._remedies_engines import ANY, ENGINES, SPELLED
from monitor.diagnosis._remedies_many_engines import FRAMEWORKS as MANY_ENGINES
from monitor.diagnosis._remedies_styles import Framework
from monitor.diagnosis._remedies_vllm_frameworks import FRAMEWORKS as VLLM_ONLY
from monitor.diagnosis.case import Case
from monitor.diagnosis.outcome import Fix
from monitor.diagnosis.remedy import NAMED, Change, Remedy

FRAMEWORKS: Mapping[str, Framework] = {**VLLM_ONLY, **MANY_ENGINES}
"""By dialect; a run in our own words has no framework."""


def fix(case: Case, remedy: Remedy) -> Fix:
    """The remedy for this run: the very setting of its framework and engine where these are known, else the engine's own argument."""
    framework = FRAMEWORKS.get(case.run.dialect)
    engine = _engine(case, framework)
    named = NAMED[remedy].setting if remedy in NAMED else ""
    change = framework.change(remedy, engine) if framework else None
    if framework and change:
        return _in_framework(framework, _as_set(case, remedy, change), named)
    if remedy in ENGINES.get(engine, {}):
        return _in_engine(engine, ENGINES[engine][remedy], named)
    return Fix(change=ANY[remedy].say, where=ANY[remedy].where, setting=named)


def _engine(case: Case, framework: Framework | None) -> str:
    told = case.setting("engine.name")
    name = str(told.value).lower() if told else framework.engine if framework else ""
    return next((known for known in ENGINES if known in name), name)


def _as_set(case: Case, remedy: Remedy, change: Change) -> Change:
    """The change under the key this run sets it with, where that is another than the usual one."""
    told = case.setting(NAMED[remedy].setting) if remedy in NAMED else None
    if told is None or len(change.settings) != 1 or told.key == told.name or not _plain(told.key):
        return change
    usual, value = next(iter(change.settings.items()))
    opposite = {"true": "false", "false": "true", "True": "False", "False": "True"}
    if value.lower() not in (NAMED[remedy].value, *opposite):  # the usual change sets something else
        return change
    return Change(
        settings={told.key: value if _negated(told.key) == _negated(usual) else opposite.get(value, value)},
        say=change.say,
        where=change.where,
    )


def _plain(key: str) -> bool:
    """Whether it can be pasted: not a pattern, not a formula of several keys."""
    return not any(mark in key for mark in ("*", " ", "×", "/"))


def _negated(key: str) -> bool:
    last = key.rsplit(".", maxsplit=1)[-1].replace("-", "_").removeprefix("sglang_")
    return last.startswith(("no_", "disable_"))


def _in_framework(framework: Framework, change: Change, named: str) -> Fix:
    pasted = framework.style(change.settings)
    return Fix(change=_joined(pasted, change.say), where=change.where or framework.place(change.settings), setting=named)


def _in_engine(engine: str, change: Change, named: str) -> Fix:
    pasted = " ".join(f"{key}={value}" for key, value in change.settings.items())
    where = change.where or f"{SPELLED[engine]}'s engine argument ({_flags(change.settings)})"
    return Fix(change=_joined(pasted, change.say), where=where, setting=named)


def _joined(pasted: str, say: str) -> str:
    """What is said about a setting is a comment behind it, so that both can be pasted."""
    return f"{pasted}  # {say}" if pasted and say else pasted or say


def _flags(settings: Mapping[str, str]) -> str:
    """As a server is started with them: a switch has no value."""
    switches = {"true": "--{}", "false": "--no-{}"}
    return " ".join(switches.get(value, "--{} " + value).format(key) for key, value in settings.items())


__all__ = ["Remedy", "fix"]
