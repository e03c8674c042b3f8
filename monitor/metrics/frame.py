"""A run as a metric frame: every value we stand behind, from its tokens and from its log, with what must be known to read it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from ingest.run import Config, ReadProblem, Run
from ingest.schema import METRIC_FRAME
from monitor.engines import local
from monitor.metrics import provenance
from monitor.metrics.bounds import ClipBounds
from monitor.metrics.glossary import METRICS
from monitor.metrics.metric import Metric, StepView, Value
from monitor.metrics.partial import Count, RatioCount, StepPartial
from monitor.metrics.terms import Level, Ratio

Progress = Callable[[int, int], None]
VOID = {
    ("tokens.sampled", False): "the tokens were not sampled by the engine (scored text)",
    ("tokens.filtered", True): "rows were dropped after sampling",
}
LOGPROB_ROWS = {
    "rollout_logprob": (Count.ROLLOUT_ROWS,),
    provenance.COLUMN_TO_LOG: (Count.SAME_WEIGHTS_ROWS, Count.OLD_ROWS),
    "current_logprob": (Count.CURRENT_ROWS,),
}


def metric_frame(run: Run, *, bounds: ClipBounds | None = None, progress: Progress | None = None) -> pa.Table:
    """The metric frame of a run (`ingest.schema.METRIC_FRAME`), sorted by metric, origin and step.

    Args:
        run: the run; its tokens are streamed, its scalars are passed on as origin "logged".
        bounds: where a ratio counts as clipped; what the run's configuration says where not given.
        progress: called with (row groups done, row groups in all).
    """
    return metric_frame_with_problems(run, bounds=bounds, progress=progress)[0]


def metric_frame_with_problems(
    run: Run,
    *,
    bounds: ClipBounds | None = None,
    progress: Progress | None = None,
) -> tuple[pa.Table, tuple[ReadProblem, ...]]:
    """The same with the problems met while the tokens were read (those of the run itself are not repeated)."""
    bounds = bounds or ClipBounds.of(run.config)
    partials: Mapping[int, StepPartial] = {}
    problems: tuple[ReadProblem, ...] = ()
    if run.tokens is not None:
        partials, problems = local.partials(run.tokens, bounds, progress=progress)
    computed = from_partials(partials, bounds=bounds, void=void(run.config))
    order = [("metric", "ascending"), ("origin", "ascending"), ("step", "ascending")]
    return pa.concat_tables([computed, logged(run.scalars)]).sort_by(order), problems


def from_partials(partials: Mapping[int, StepPartial], *, bounds: ClipBounds | None = None, void: str = "") -> pa.Table:
    """Finish partial sums into rows of origin "tokens"; a step whose mask is empty has its rows too, NaN with n = 0."""
    rows = [row for step in sorted(partials) for row in _rows(StepView(partial=partials[step], bounds=bounds or ClipBounds(), void=void))]
    return pa.Table.from_pylist(rows, schema=METRIC_FRAME)


def logged(scalars: pa.Table) -> pa.Table:
    """Logged scalars as rows of origin "logged": n and standard error are not known."""
    rows = scalars.num_rows
    columns = {
        "step": scalars["step"],
        "metric": scalars["quantity"],
        "value": scalars["value"],
        "n": pa.nulls(rows, pa.int64()),
        "standard_error": pa.nulls(rows, pa.float64()),
        "origin": pa.array(["logged"] * rows, pa.string()),
        "source_key": scalars["source_key"],
        "caveat": scalars["caveat"],
    }
    return pa.table(columns, schema=METRIC_FRAME)


def void(config: Config) -> str:
    """Why the mean-ratio test says nothing about a run with this configuration; empty where it does."""
    return "; ".join(reason for (key, value), reason in VOID.items() if config.get(key) is value)


def _rows(view: StepView) -> Iterator[dict[str, Any]]:
    for metric in METRICS:
        if metric.compute is None or (metric.ratio is not None and not view.shows(metric.ratio)):
            continue
        value = metric.compute(view)
        if value is not None:
            yield _row(view, metric, value)


def _row(view: StepView, metric: Metric, value: Value) -> dict[str, Any]:
    return {
        "step": view.partial.step,
        "metric": metric.id,
        "value": value.value,
        "n": value.n,
        "standard_error": value.standard_error,
        "origin": "tokens",
        "source_key": ", ".join(_source(view, metric)),
        "caveat": _caveat(view, metric, value),
    }


def _source(view: StepView, metric: Metric) -> list[str]:
    """Recorded token columns the value comes from, with old_logprob named where it stands for same_weights_logprob."""
    counts = view.partial.counts
    absent = {name for name, rows in LOGPROB_ROWS.items() if not sum(counts[count] for count in rows)}
    stands_in = counts[Count.OLD_ROWS] > 0
    return ["old_logprob" if stands_in and name == provenance.COLUMN_TO_LOG else name for name in metric.needs if name not in absent]


def _caveat(view: StepView, metric: Metric, value: Value) -> str:
    if metric.ratio is None:
        return value.caveat
    return "; ".join(filter(None, (provenance.caveat(view.provenance), value.caveat, _left_out(view, metric, metric.ratio))))


def _left_out(view: StepView, metric: Metric, ratio: Ratio) -> str:
    """From how many tokens the ratio was taken, where some were not finite or lack a column."""
    masked_in = int(view.partial.counts[Count.MASKED_IN])
    n = int(view.partial.ratio_counts[ratio.row][RatioCount.N])
    if n == masked_in:
        return ""
    return (
        f"from {n} of {masked_in} tokens"
        if metric.level is Level.TOKEN
        else f"sequences without {masked_in - n} of their {masked_in} tokens"
    )
