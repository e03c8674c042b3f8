"""The destinations of one watch: those of the rule file, those of the command line, and the trainers of the runs that are watched."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from monitor.alerts._settings import Policy
from monitor.alerts.addresses import settings_of
from monitor.alerts.resync import resync_sink


def equipped(policy: Policy, notify: Iterable[str], folders: Mapping[str, Path]) -> Policy:
    """The policy with all its destinations; what it queues is queued for all of them.

    Args:
        policy: as the rule file says it.
        notify: addresses from the command line; the same one twice is one.
        folders: the folder of each run, by its id, for the resync signal; see `monitor.alerts.resync.signal_folders`.

    Raises:
        SecretError, SettingsError: an address that is none, or that holds a secret.
    """
    known = {sink.name: sink for sink in policy.sinks}
    named = {settings.name: settings for settings in map(settings_of, notify)}
    resync = resync_sink(policy.resync, folders)
    asked = {} if resync is None else {resync.name: resync}
    return replace(policy, sinks=tuple({**known, **named, **asked}.values()))
