"""What is new in a run: the rows of its metric frame that came or changed, and how they fit into the rows that were there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest.run import ReadProblem, Run
from ingest.schema import METRIC_FRAME

TOKENS, LOGGED = "tokens", "logged"
ORDER = [("metric", "ascending"), ("origin", "ascending"), ("step", "ascending")]
Steps = frozenset[int]


@dataclass(frozen=True, kw_only=True)
class Update:
    """What a look at a run found. `applied` puts it into a frame."""

    run: Run  # what is known of it by now; without its scalars and tokens
    rows: pa.Table = field(default_factory=METRIC_FRAME.empty_table)  # METRIC_FRAME: all rows of the steps below
    steps: Mapping[str, Steps] = field(default_factory=dict)  # origin -> steps whose rows are others now; one without rows is gone
    reach: Mapping[str, int] = field(default_factory=dict)  # key -> how far a restarted run has come again, until it is past where it was
    come_to: int | None = None  # the same for all keys, where that is known
    restarted_from: int | None = None  # the run went back to this step
    problems: tuple[ReadProblem, ...] = ()  # that were not there before
    written_at: float | None = (
        None  # seconds since the epoch at which the rows were logged, or their files written; None where nobody knows
    )
    finished: bool = False  # the log says that nothing more will come

    @property
    def grew(self) -> bool:
        """Whether there are rows."""
        return bool(self.rows.num_rows)

    @property
    def news(self) -> pa.Table:
        """The rows that tell how the run is now: without those that a restarted run has not come to again."""
        if (not self.reach and self.come_to is None) or not self.rows.num_rows:
            return self.rows
        sources = {text: self._end(text) for text in pc.unique(self.rows["source_key"]).to_pylist()}
        ends = np.array([sources[text] for text in self.rows["source_key"].to_pylist()], np.int64)
        return self.rows.filter(pa.array((self.rows["step"].to_numpy() <= ends) | (np.array(self.rows["origin"].to_pylist()) != LOGGED)))

    def _end(self, source: str) -> int:
        """How far the keys of a value have come."""
        furthest = np.iinfo(np.int64).max if self.come_to is None else self.come_to
        return min((self.reach[key] for key in {source, *source.split(", ")} if key in self.reach), default=int(furthest))


def applied(frame: pa.Table, update: Update) -> pa.Table:
    """The metric frame after an update, in its order; of an empty frame and all updates of a run comes the frame of its log."""
    for origin, steps in update.steps.items():
        gone = pc.and_(pc.equal(frame["origin"], origin), pa.array(np.isin(frame["step"].to_numpy(), sorted(steps))))
        frame = frame.filter(pc.invert(gone))
    return pa.concat_tables([frame, update.rows]).sort_by(ORDER)
