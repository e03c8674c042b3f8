"""How far the split of one step may be trusted, decided from the columns and versions that were recorded."""

from __future__ import annotations

from monitor.metrics.partial import Count, StepPartial, Version
from monitor.metrics.terms import Provenance

COLUMN_TO_LOG = "same_weights_logprob"
_LOG_IT = f"log {COLUMN_TO_LOG} (the trainer's log-probability under the weights that sampled the token)"


def provenance(partial: StepPartial) -> Provenance:
    """Exact, synchronous, an upper bound, or not separable (definitions, section 2)."""
    counts = partial.counts
    rows = counts[Count.ROWS]
    if rows and counts[Count.SAME_WEIGHTS_ROWS] == rows:
        return Provenance.EXACT
    if rows and counts[Count.SAME_WEIGHTS_ROWS] + counts[Count.OLD_ROWS] == rows:
        return Provenance.SYNCHRONOUS if _synchronous(partial) else Provenance.UPPER_BOUND
    return Provenance.NOT_SEPARABLE


def caveat(found: Provenance) -> str:
    """The sentence beside every number of the split; begins with "split: " and the provenance."""
    return f"split: {found}{_MEANING[found]}"


def _synchronous(partial: StepPartial) -> bool:
    """Whether old_logprob was computed under the very version that sampled each token; False where no version was recorded."""
    counts, lowest = partial.counts, partial.lowest
    rows = counts[Count.ROWS]
    if counts[Count.ROLLOUT_VERSION_ROWS] != rows:
        return False
    if counts[Count.OLD_VERSION_ROWS] == rows:
        return bool(counts[Count.NOT_OLD_VERSION] == 0)
    if counts[Count.OLD_VERSION_ROWS] or counts[Count.LAG_ROWS] != rows:
        return False
    # Without old_version, old_logprob is that of the step's first trainer_version: one version must have sampled everything.
    one_version = lowest[Version.ROLLOUT] == partial.highest[Version.ROLLOUT] == lowest[Version.TRAINER]
    return bool(one_version or counts[Count.MASKED_IN] == 0)


_MEANING = {
    Provenance.EXACT: "",
    Provenance.SYNCHRONOUS: f"; old_logprob stands for {COLUMN_TO_LOG}: it was computed under the weights that sampled every token",
    Provenance.ESTIMATED: f"; from tokens of different version lag; {_LOG_IT} to make it exact",
    Provenance.UPPER_BOUND: f"; old_logprob - rollout_logprob holds the discrepancy and part of the lag; {_LOG_IT} to separate them",
    Provenance.NOT_SEPARABLE: f"; only the total is known; {_LOG_IT} to split it",
}
