"""What a watch is told beside paths and rules."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from ingest.user_mapping import UserMapping
from monitor.alerts.rule_file import RuleFile
from monitor.watch.tokens import Progress


@dataclass(frozen=True, kw_only=True)
class Options:
    """What is said on the command line beside paths and rules."""

    notify: tuple[str, ...] = ()  # addresses of destinations
    references: tuple[pa.Table, ...] = ()  # a metric frame for each seed
    poll_s: float | None = None  # seconds between two looks; as the policy has it where not given
    dialect: str | None = None
    mapping: UserMapping | None = None
    rules: RuleFile | None = None  # where the policy is from, if it may change meanwhile
    progress: Progress | None = None  # told how far the first look at a long run is
