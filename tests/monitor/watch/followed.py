"""What the tests of following share: a consumer of updates, and what it should have come to."""

import numpy as np
import pyarrow as pa

from ingest.load import load
from ingest.schema import METRIC_FRAME
from monitor.metrics.frame import metric_frame
from monitor.watch.follow import follow
from monitor.watch.update import applied


class Consumer:
    """Follows a path and keeps the frame of each run."""

    def __init__(self, where, **options):
        self.now, self.between = 0.0, 100.0  # seconds between looks: long enough for whatever is done now and then only
        self.follower, self.frames, self.updates = follow(str(where), clock=lambda: self.now, **options), {}, []

    def poll(self):
        self.now += self.between
        found = self.follower.poll()
        for update in found:
            self.frames[update.run.id] = applied(self.frames.get(update.run.id, METRIC_FRAME.empty_table()), update)
        self.updates += found
        return found


def loaded(where, **options):
    """The frames of the same path, read at once."""
    return {run.id: metric_frame(run) for run in load(where, **options)}


def rows(frame):
    """Rows in the order of the frame; values by their bits, so that NaN equals itself. Rows that differ in a key have no order."""
    columns = {name: frame[name].to_pylist() for name in frame.column_names}
    found = [
        (metric, origin, step, source, np.float64(value).tobytes(), n, repr(error), caveat)
        for metric, origin, step, source, value, n, error, caveat in zip(
            *(columns[name] for name in ("metric", "origin", "step", "source_key", "value", "n", "standard_error", "caveat")), strict=True
        )
    ]
    return sorted(found, key=lambda row: row[:4])


def assert_same(found, wanted):
    """Frames by run id, row by row; a run is not followed before its first value."""
    wanted = {run_id: frame for run_id, frame in wanted.items() if frame.num_rows}
    assert found.keys() == wanted.keys()
    for run_id, frame in wanted.items():
        assert rows(found[run_id]) == rows(frame)
        assert found[run_id].column("metric").to_pylist() == pa.table(frame).column("metric").to_pylist()
