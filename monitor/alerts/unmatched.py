"""Globs of a rule file that fit nothing: a destination that no rule speaks to and a rule that no run answers are silent for ever."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Sequence
from fnmatch import fnmatchcase

from monitor.alerts._settings import Policy


def unmatched(policy: Policy, runs: Collection[str] = ()) -> tuple[str, ...]:
    """A sentence for each part of a policy that can do nothing as it stands.

    Args:
        policy: as its file says it.
        runs: ids of the runs that are watched; while there are none, nothing is said of the runs that rules ask for.
    """
    rules = [rule.id for rule in policy.rules if rule.enabled]
    if not rules:
        return ("no rule is in force, so that nothing is ever told: include_defaults = true keeps those that are shipped",)
    said = [f"[resync]: no trainer is asked for {each}" for each in _strangers(policy.resync.rules, rules)]
    for sink in (each for each in policy.sinks if each.enabled):
        strange = [f"sink {sink.name}: it is told nothing for {each}" for each in _strangers(sink.rules, rules)]
        said += strange
        if not strange and not any(sink.takes(rule.id, rule.severity) for rule in policy.rules if rule.enabled):
            said.append(f"sink {sink.name}: it is told nothing, because none of its rules is {sink.least}")
    return (*said, *_without_runs(policy, runs))


def _strangers(globs: Sequence[str], rules: Sequence[str]) -> Iterator[str]:
    """The globs that no rule fits, with those that may have been meant."""
    for glob in globs:
        if not any(fnmatchcase(rule, glob) for rule in rules):
            close = difflib.get_close_matches(glob, rules, 3) or rules
            yield f"{glob!r}, which no rule fits; there is {', '.join(close)}"


def _without_runs(policy: Policy, runs: Collection[str]) -> Iterator[str]:
    for rule in policy.rules:
        if rule.enabled and runs and not any(rule.applies(run) for run in runs):
            yield f"rule {rule.id}: its runs ({', '.join(rule.runs)}) fit none that is watched so far, so that it is asked of none"
