"""Whether a log is a selection: web exports and event readers keep some points of a long run and say nothing of it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ingest.readers._rows import coded
from ingest.run import ProblemKind, RawLog, ReadProblem

# What the tools keep of a longer run: run.history() and wandb's charts 500, TensorBoard's pages 1,000, its EventAccumulator 10,000.
_KEPT = {
    500: "a sample of 500 points, as run.history() and the web app make",
    1_000: "a reservoir of 1,000 points, as TensorBoard's pages keep",
    10_000: "a reservoir of 10,000 points, as TensorBoard's EventAccumulator keeps",
}
_LISTED = 5


def sampled(raw: RawLog) -> Iterator[ReadProblem]:
    """Say which keys have exactly as many rows as a tool keeps, at uneven steps; nothing where the reader has said so already."""
    if any("sampled" in problem.what for problem in raw.problems) or not raw.scalars.num_rows:
        return
    names, codes = coded(raw.scalars.column("key"))
    steps = raw.scalars.column("step").to_numpy()
    counts = np.bincount(codes, minlength=len(names))
    for many, tool in _KEPT.items():
        found = [names[code] for code in np.flatnonzero(counts == many) if _uneven(steps[codes == code])]
        if found:
            shown = ", ".join(sorted(found)[:_LISTED]) + (f" and {len(found) - _LISTED} more" if len(found) > _LISTED else "")
            what = f"probably sampled ({tool}): steps between the points, and spikes on them, are not in this file"
            yield ReadProblem(path=raw.path, place=f"keys {shown}", what=what, kind=ProblemKind.NOTE)


def _uneven(steps: np.ndarray) -> bool:
    """Whether the gaps between steps differ by more than one: rounding alone makes neighbours of a regular gap."""
    gaps = np.diff(np.unique(steps))
    return bool(gaps.size and gaps.max() > 1 and gaps.max() - gaps.min() > 0)
