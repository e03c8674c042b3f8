"""One run that grows: its log is understood and its tokens are summed again only where they changed."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from ingest.following import Changed, Understanding, Understood, Wish
from ingest.growing import NOTHING, Grown
from ingest.readers.run_folder import STEPS
from ingest.run import RawLog, ReadProblem, Run
from ingest.schema import SCALARS
from monitor.metrics.bounds import ClipBounds
from monitor.metrics.frame import logged, void
from monitor.watch.tokens import Progress, Summed, TokenSteps
from monitor.watch.update import LOGGED, TOKENS, Update


class FollowedRun:
    """One run by its id."""

    def __init__(self, run_id: str, wish: Wish, progress: Progress | None = None) -> None:
        tell = None if progress is None else partial(progress, run_id)
        self._understanding, self._tokens = Understanding(wish, run_id), TokenSteps(tell)
        self._run: Run | None = None
        self._bounds, self._void = ClipBounds(), ""
        self._reach: dict[str, int] = {}
        self._told: set[tuple[str, str]] = set()  # path and text of problems

    def whole(self, raw: RawLog, grown: Grown = NOTHING) -> Update:
        """Take all of a log.

        Args:
            raw: all of it.
            grown: what came to it, for what is known of a restart.

        Raises:
            UnknownDialectError: no dialect knows any of its keys, so far.
        """
        self._run = None  # until it is understood: what was handed out with a log that is not, is to be taken again
        changed = self._understanding.whole(raw)
        self._run = run = replace(changed.run, scalars=SCALARS.empty_table(), tokens=None)
        self._reach = dict(changed.reach)
        before = self._bounds, self._void
        self._bounds, self._void = ClipBounds.of(self._run.config), void(self._run.config)
        summed = self._tokens.all(raw.tokens.pieces if raw.tokens else (), self._bounds, self._void)
        if before != (self._bounds, self._void):
            again = self._tokens.again(self._bounds, self._void)
            summed = replace(summed, steps=summed.steps | again.steps, rows=again.rows)
        return self._update(run, grown, changed, summed)

    def more(self, grown: Grown) -> Update | None:
        """Take what came to a log; None where all of it has to be taken."""
        if self._run is None or grown.anew or grown.settings:
            return None
        changed = self._understanding.more(grown.fresh) if grown.fresh.num_rows else Changed()
        if changed is None:
            return None
        return self._update(self._run, grown, changed, self._tokens.more(grown.pieces, grown.gone, self._bounds, self._void))

    def _update(self, run: Run, grown: Grown, changed: Changed, summed: Summed) -> Update:
        restarts = [step for step in (grown.restarted_from, changed.restarted_from, summed.restarted_from) if step is not None]
        written = [at for at in (summed.written_at, _logged_at(run, changed.scalars)) if at is not None]
        return Update(
            run=run,
            rows=pa.concat_tables([summed.rows, logged(changed.scalars)]),
            steps={TOKENS: summed.steps, LOGGED: changed.steps},
            reach=self._reach,
            come_to=grown.come_to,
            restarted_from=min(restarts, default=None),
            written_at=max(written, default=None),
            problems=self._new((*(changed.run.problems if isinstance(changed, Understood) else grown.unread), *summed.problems)),
        )

    def _new(self, problems: tuple[ReadProblem, ...]) -> tuple[ReadProblem, ...]:
        """Problems that were not told; of one that only counts more places by now, the first."""
        found = {(problem.path, problem.what): problem for problem in reversed(problems)}
        new = tuple(problem for key, problem in reversed(found.items()) if key not in self._told)
        self._told |= found.keys()
        return new


def _logged_at(run: Run, scalars: pa.Table) -> float | None:
    """When the latest of some values was logged: as the log says, else when its file was written."""
    if not scalars.num_rows:
        return None
    said = pc.max(scalars.column("wall_time")).as_py()
    if said is not None:
        return float(said)
    try:
        path = Path(run.path)
        return (path / STEPS if path.is_dir() else path).stat().st_mtime
    except OSError:
        return None
