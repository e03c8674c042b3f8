"""Where the rules fire in the runs that a page lays over one another."""

from __future__ import annotations

import time
from collections.abc import Sequence

from monitor.pages._alerting import firings, standing, tested
from monitor.pages._firing_marks import Firings
from monitor.pages._library import Library
from monitor.pages._results import Shown
from monitor.pages._rule_file import rules_in_force


def fired_in(library: Library, candidates: Sequence[Shown], references: Sequence[Shown]) -> Firings:
    """The firing intervals of each candidate: of the backtest beside the reference, and of the history of a watch."""
    policy, told = rules_in_force().policy, standing(time.time())
    runs = {one.who.id: library.entries[one.who.id].run for one in candidates}
    return {one.who.id: firings(told, runs[one.who.id], tested(policy, one, runs[one.who.id], references)) for one in candidates}
