"""The rule file that is in force: which one where nobody names any, and whether its rules are others than they were."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from monitor.alerts._settings import Policy
from monitor.alerts.policy import PolicyError, default_policy, read_policy
from monitor.store import home

FILE = "rules.toml"
SETTLED_S = 0.3  # an editor may still be writing a file that is younger: half a file can be a rule file as well

Stamp = tuple[int, int, int]  # inode, size and modification time


def rule_file() -> Path:
    """Where the Alerts page keeps its rules; a watch that is given no file reads them too."""
    return home() / FILE


class RuleFile:
    """The rules of a watch, whose file may be changed meanwhile.

    Args:
        given: the file; where none is given, that of the Alerts page, and as long as there is none the shipped rules.
        adapt: what is done to the rules each time they are read.
        clock: seconds since the epoch, as the file system has them.

    Raises:
        PolicyError: they cannot be read.
    """

    def __init__(
        self, given: Path | None = None, adapt: Callable[[Policy], Policy] = lambda policy: policy, clock: Callable[[], float] = time.time
    ) -> None:
        self.path, self._may_lack = given or rule_file(), given is None
        self._adapt, self._clock = adapt, clock
        self._stamp = self._look()
        self.policy = self._read()
        self.trouble = ""  # why what is in the file now is not in force

    @property
    def shipped(self) -> bool:
        """Whether the shipped rules stand in for a file that is not there."""
        return self._may_lack and self._stamp is None

    def changed(self) -> Policy | None:
        """The rules of the file where they are others than those in force; to be accepted or refused. What cannot be read is a trouble."""
        stamp = self._look()
        if stamp == self._stamp and not self.trouble:
            return None
        if stamp is not None and 0 <= self._clock() - stamp[2] / 1e9 < SETTLED_S:
            return None
        self._stamp = stamp
        try:
            policy = self._read()
        except PolicyError as wrong:
            self.refuse(str(wrong))
            return None
        if replace(policy, comments={}) == replace(self.policy, comments={}):
            self.trouble = ""
            return None
        return policy

    def accept(self, policy: Policy) -> None:
        """These are in force from now on."""
        self.policy, self.trouble = policy, ""

    def refuse(self, why: str) -> None:
        """What is in the file cannot be; the rules stay what they are."""
        self.trouble = why

    def __str__(self) -> str:
        """Which rules are in force."""
        count = f"{len(self.policy.rules)} rule" + ("" if len(self.policy.rules) == 1 else "s")
        return f"the {count} that are shipped; {self.path} is read once it is there" if self.shipped else f"{count} of {self.path}"

    def _look(self) -> Stamp | None:
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns

    def _read(self) -> Policy:
        return self._adapt(default_policy() if self.shipped else read_policy(self.path))
