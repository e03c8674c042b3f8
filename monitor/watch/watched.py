"""One run on its way into the alerts: what came is taken in its order, and kept until it has been taken."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from ingest.run import Run
from ingest.schema import METRIC_FRAME
from monitor.alerts.levels import Against, against
from monitor.alerts.machine import News, Notification
from monitor.alerts.never import never_firing
from monitor.alerts.observation import observations
from monitor.alerts.policy import Policy
from monitor.alerts.store import AlertStore, Reached
from monitor.watch.update import Update, applied

_ENOUGH = 5  # steps after which a log shows which metrics it has


class WatchedRun:
    """The updates of one run that wait to be taken, and what its values are compared with.

    Two watches may look at one run, so the alerts may know more of it than a look has found: what came while it was read. Whether a run
    went back is therefore told by what they knew before that look, and a restart that somebody has taken since then is not taken again.
    """

    def __init__(self, run: Run, references: Sequence[pa.Table]) -> None:
        self.run, self._references = run, references
        self._waiting: deque[tuple[Update, Reached, int]] = deque()  # with what was known before its look, and `_restarts` then
        self._known: int | None = None  # newest step that the alerts knew before the first look, until there are values to compare
        self._restarts = 0  # that were taken here
        self._against: tuple[Policy, Run, Against] | None = None
        self._begun = self._finished = self._said_finished = False
        self._frame: pa.Table | None = METRIC_FRAME.empty_table()  # the first steps, until it is said which rules can never fire

    def add(self, update: Update, reached: Reached = Reached()) -> None:  # noqa: B008 - a tuple
        """Take an update in.

        Args:
            update: what a look found.
            reached: what the alerts knew of the run before that look began.
        """
        self.run = update.run
        if not self._begun and not self._waiting:
            self._known = reached.step
        self._waiting.append((update, reached, self._restarts))
        if self._frame is not None:
            self._frame = applied(self._frame, update)

    def finish(self) -> bool:
        """Note that the log says that nothing more will come; says whether that is new."""
        new, self._finished = not self._finished, True
        return new

    def take(self, store: AlertStore, policy: Policy, now: Callable[[], float]) -> Iterator[Notification]:
        """Hand what waits to the alerts, and yield what is told; what could not be taken waits on.

        Raises:
            StoreError: the alerts cannot be kept now.
        """
        compared = self._compared(policy)
        while self._waiting:
            update, reached, restarts = self._waiting[0]
            back = self._restart(update)
            if back is not None and store.reached().get(update.run.id, reached).restarts > reached.restarts + self._restarts - restarts:
                back = None  # another watch has taken it, and what came after it
            rules = policy.rules_for(update.run.id)
            values = observations(update.news, update.run.id, rules, wall_time=update.written_at)
            news = News(restarted_from=back, finished=self._finished)
            told = store.take(policy, update.run.id, values, now(), compared=compared, news=news)
            self._begun, self._said_finished = True, self._finished
            self._restarts += back is not None
            self._known = None if update.grew else self._known
            self._waiting.popleft()
            yield from told
        if self._begun:
            news = News(finished=self._finished and not self._said_finished)
            yield from store.take(policy, self.run.id, (), now(), compared=compared, news=news)
            self._said_finished = self._finished

    def never(self, policy: Policy, *, now: bool) -> dict[str, str]:
        """Rule id -> why it can never fire on this log; once, when the log has shown what it has, or right now."""
        frame = self._frame
        if frame is None or not frame.num_rows or not (now or len(np.unique(frame["step"].to_numpy())) >= _ENOUGH):
            return {}
        self._frame = None
        return dict(never_firing(policy.rules_for(self.run.id), frame, self._compared(policy)))

    def _restart(self, update: Update) -> int | None:
        """Where the run went back to; also where an earlier watch had seen more of it than its first look finds."""
        if self._known is None or not update.grew:
            return update.restarted_from
        highest = int(np.max(update.news["step"].to_numpy(), initial=-1))
        back = [step for step in (update.restarted_from, highest + 1 if self._known > highest else None) if step is not None]
        return min(back, default=None)

    def _compared(self, policy: Policy) -> Against:
        if self._against is None or self._against[0] is not policy or self._against[1].config != self.run.config:
            made = against(self.run.config, self._references, policy.rules_for(self.run.id))
            self._against = (policy, self.run, made)
        return self._against[2]
