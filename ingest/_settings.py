"""A framework's settings under our names, each with the key it was taken from."""

from __future__ import annotations

from collections.abc import Mapping

from ingest.dialect import Dialect
from ingest.run import Config


def settings(config: Config, dialect: Dialect) -> tuple[Config, Mapping[str, str]]:
    """Add our names of a framework's settings to a configuration; what is set under our names already stays.

    Returns:
        The configuration, and for each setting that was added the framework's key it comes from.
    """
    told: dict[str, tuple[str | int | float | bool, str]] = {}
    for theirs, ours in dialect.config.items():
        if theirs in config:
            told.setdefault(ours, (config[theirs], theirs))
    told |= dialect.settings(config)  # what a dialect works out knows more than a rename
    added = {ours: told[ours] for ours in told if ours not in config}
    return {ours: value for ours, (value, _) in added.items()} | dict(config), {ours: source for ours, (_, source) in added.items()}
