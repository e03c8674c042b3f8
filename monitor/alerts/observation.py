"""One value that a rule looks at, and the rows of a metric frame that become such values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingest.run import OLDER
from monitor.alerts.reads import places
from monitor.alerts.rule import AlertRule, RuleKind
from monitor.metrics import glossary

NONFINITE = "nonfinite."  # counts of non-finite tokens: a value above 0 is a finding
NO_ERROR = "mean-ratio test void"  # how a caveat begins whose standard error says nothing
_DERIVED = "derived"  # how the caveat of a value begins that a dialect computed from several keys
_COLUMNS = ("step", "metric", "value", "standard_error", "origin", "caveat")
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Observation:
    """One value of one metric at one step. What was not logged is no observation; a NaN that was logged is one."""

    run: str
    step: int
    metric: str
    value: float
    standard_error: float | None = None
    wall_time: float | None = None  # seconds since the epoch, where the log says when
    origin: str = "tokens"  # or logged, or estimated


def observations(frame: pa.Table, run: str, rules: Sequence[AlertRule], *, wall_time: float | None = None) -> tuple[Observation, ...]:
    """What the rules need of a run's metric frame, or of its new rows, by step.

    Left out: the NaN of an empty mask (n = 0: nothing was measured, which is no finding), and metrics that no rule reads, but for one row
    of each step, so that it is known to have come, and for every value that is not finite.

    Args:
        frame: rows of `METRIC_FRAME` of one run.
        run: its id.
        rules: those that apply to it.
        wall_time: when the rows were written, where that is known.
    """
    measured = frame.filter(pa.array(_measured(frame))).sort_by([("step", "ascending")])
    rows = measured.filter(pa.array(_wanted(measured, rules))).select(_COLUMNS).to_pylist()
    return tuple(
        Observation(
            run=run,
            step=row["step"],
            metric=row["metric"],
            value=row["value"],
            standard_error=None if NO_ERROR in row["caveat"] else row["standard_error"],
            wall_time=wall_time,
            origin=row["origin"],
        )
        for row in rows
    )


def without_older(frame: pa.Table) -> pa.Table:
    """A frame without what was logged before a restart and lies beyond where the restart has come: as far as the run has come now.

    For a log that is read whole while its run goes on. A log that is looked back at keeps these rows: they happened.
    """
    older = frame.filter(pc.match_substring(frame["caveat"], OLDER))
    if not older.num_rows:
        return frame
    from_step: dict[str, int] = {}
    for metric, step in zip(older["metric"].to_pylist(), older["step"].to_pylist(), strict=True):
        from_step[metric] = min(step, from_step.get(metric, step))
    steps, metrics, caveats = frame["step"].to_numpy(), frame["metric"].to_pylist(), frame["caveat"].to_pylist()
    any_metric = min(from_step.values())  # computed from several keys, and therefore not marked itself
    ends = [from_step.get(metric, any_metric if said.startswith(_DERIVED) else None) for metric, said in zip(metrics, caveats, strict=True)]
    kept = [end is None or step < end for step, end in zip(steps.tolist(), ends, strict=True)]
    return frame.filter(pa.array(kept, pa.bool_()))


def _measured(frame: pa.Table) -> Mask:
    """Every row but NaN of an empty mask, and NaN of a group's envelope, which only says that there is none."""
    nan: Mask = np.isnan(frame["value"].to_numpy())
    if not nan.any():
        return np.ones(len(nan), bool)
    empty = pc.fill_null(pc.equal(frame["n"], 0), False)
    envelope = np.array([metric.endswith(tuple(glossary.ENVELOPE)) for metric in frame["metric"].to_pylist()], bool)
    measured: Mask = ~(nan & (empty.to_numpy(zero_copy_only=False) | envelope))
    return measured


def _wanted(rows: pa.Table, rules: Sequence[AlertRule]) -> Mask:
    values, steps = rows["value"].to_numpy(), rows["step"].to_numpy()
    metrics = rows["metric"].combine_chunks().dictionary_encode()
    names = metrics.dictionary.to_pylist()
    read = {metric for rule in rules if rule.kind is RuleKind.METRIC for metric, _ in places(rule)}
    globs = {rule.metric for rule in rules if rule.kind is not RuleKind.METRIC} - {"*"}
    needed = np.array([name in read or any(fnmatchcase(name, glob) for glob in globs) for name in names], bool)
    counts = np.array([name.startswith(NONFINITE) for name in names], bool)
    codes = metrics.indices.to_numpy()
    first = np.concatenate((np.ones(min(1, len(steps)), bool), steps[1:] != steps[:-1]))
    wanted: Mask = first | ~np.isfinite(values) | (needed[codes] if names else first) | ((counts[codes] if names else first) & (values > 0))
    return wanted
