"""The rule file that pages show and change: `rules.toml` in the run store; the shipped rules where there is none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ingest.errors import RatiometerError
from monitor.alerts.destination import refuse_from_page
from monitor.alerts.policy import Policy, default_policy, read_policy, save_policy
from monitor.alerts.rule_file import rule_file


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The policy in force, or why the file's cannot be: then the shipped rules stand in, and nothing may be saved over it."""

    policy: Policy
    path: Path
    shipped: bool  # there is no file yet
    trouble: str = ""


def rules_in_force() -> Rules:
    """What is in force now; the file is small, and may be changed by hand at any time."""
    path = rule_file()
    if not path.exists():
        return Rules(policy=default_policy(), path=path, shipped=True)
    try:
        return Rules(policy=read_policy(path), path=path, shipped=False)
    except RatiometerError as wrong:
        return Rules(policy=default_policy(), path=path, shipped=False, trouble=str(wrong))


def change(made: Callable[[Policy], Policy]) -> str:
    """Change the file as it is now, and say what was wrong with that; "" where it is saved.

    A page may change rules and most destinations. A destination that runs a command is set by hand only: that is refused here, before
    anything is written.
    """
    before = rules_in_force()
    if before.trouble:
        return before.trouble
    try:
        after = made(before.policy)
        refuse_from_page(before.policy.sinks, after.sinks)
        save_policy(after, before.path)
    except RatiometerError as wrong:
        return str(wrong)
    return ""
