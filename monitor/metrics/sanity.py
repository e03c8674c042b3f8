"""What a metric frame says about itself that no healthy run says: impossible values, repeated rows, non-finite ones, wrong semantics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from monitor.metrics import glossary
from monitor.metrics.series import Series, series

ROUNDING = 1e-9  # how far outside its range rounding alone may carry a value
STANDARD_ERRORS = 5.0  # distance from 1 at which a mean ratio is not an accident, over all steps together
CANCELS = 0.1  # a total under this share of the smaller term hides both

_NLL = "were negative log-likelihoods logged?"
COUNTED = (
    ("positive.engine", "log-probability above 0 (rollout_logprob)", _NLL),
    ("positive.trainer", "log-probability above 0 (trainer)", _NLL),
    ("repeated.rows", "rows repeat a position of a response", "is sample_id unique over ranks, and was each row logged once?"),
)
"""Counts that are 0 in every healthy log: the metric, what it counts, and the likely cause."""


@dataclass(frozen=True, kw_only=True)
class Oddity:
    """One thing that must be said about a metric frame; `text` is the sentence to show."""

    metric: str
    what: str
    text: str
    first_step: int


def check(frame: pa.Table) -> tuple[Oddity, ...]:
    """Everything odd in a frame, by metric id."""
    found: list[Oddity] = []
    for name in sorted(set(frame["metric"].to_pylist())):
        one = series(frame, name)
        found += [*_nonfinite(one), *_out_of_range(one)]
    found += [oddity for term in ("total", "discrepancy") for oddity in _mean_ratio(frame, term)]
    found += [oddity for metric, what, cause in COUNTED for oddity in _counted(frame, metric, what, cause)]
    return (*found, *_cancelling(frame))


def _nonfinite(one: Series) -> Iterator[Oddity]:
    """A value that is not finite although something entered it; an empty mask (n = 0) is no finding."""
    # Weights that are all equal and not 1 lie infinitely many standard errors from 1: true, and the mean ratio says it better.
    bad = (np.isnan(one.values) if one.metric.endswith(".z") else ~np.isfinite(one.values)) & (one.n != 0)
    if bad.any():
        step = int(one.steps[bad][0])
        text = f"{one.metric}: non-finite, {bad.sum()} of {len(one)} steps, first at step {step} ({one.values[bad][0]:g})"
        yield Oddity(metric=one.metric, what="non-finite", text=text, first_step=step)


def _out_of_range(one: Series) -> Iterator[Oddity]:
    if not glossary.known(one.metric):
        return
    row = glossary.metric(one.metric)
    bad = (one.values < row.low - ROUNDING) | (one.values > row.high + ROUNDING)
    if bad.any():
        step, value = int(one.steps[bad][0]), one.values[bad][0]
        text = (
            f"{one.metric}: metric out of range, {bad.sum()} of {len(one)} steps, first at step {step}: {value:g} is not in "
            f"[{row.low:g}, {row.high:g}]; whatever was logged under this name is something else"
        )
        yield Oddity(metric=one.metric, what="metric out of range", text=text, first_step=step)


def _counted(frame: pa.Table, metric: str, what: str, cause: str) -> Iterator[Oddity]:
    one = series(frame, metric)
    bad = one.values > 0
    if bad.any():
        step = int(one.steps[bad][0])
        text = f"{what}: {one.values[bad].sum():.0f} tokens in {bad.sum()} of {len(one)} steps, first at step {step}; {cause}"
        yield Oddity(metric=metric, what=what, text=text, first_step=step)


def _mean_ratio(frame: pa.Table, term: str) -> Iterator[Oddity]:
    """The mean-ratio test over all steps together, each weighted by its tokens; silent where it is void.

    A single heavy token cannot set it off: it widens the standard error as much as it moves the mean.
    """
    one = series(frame, f"ratio.{term}.mean")
    if one.origin != "tokens" or "mean-ratio test void" in one.caveat:
        return
    usable = np.isfinite(one.standard_error) & np.isfinite(one.values) & (one.n > 0)
    if not usable.any():
        return
    n, values, error = one.n[usable], one.values[usable], one.standard_error[usable]
    excess = float((n * (values - 1)).sum() / n.sum())
    with np.errstate(over="ignore"):  # an error beyond float64 is infinite, and nothing is beyond it
        spread = float(np.sqrt(((n * error) ** 2).sum()) / n.sum())
    if abs(excess) > STANDARD_ERRORS * spread and abs(excess) > ROUNDING:
        text = (
            f"semantics: mean ratio is not 1 ({term}: {1 + excess:.6g}, standard error {spread:.2g}): the recorded log-probabilities "
            f"are not those the tokens were sampled with, or the support was cut"
        )
        yield Oddity(metric=one.metric, what="semantics: mean ratio is not 1", text=text, first_step=int(one.steps[usable][0]))


def _cancelling(frame: pa.Table) -> Iterator[Oddity]:
    """Steps in which discrepancy and lag are both there and the total hides them."""
    total, discrepancy, lag = (series(frame, f"log_ratio.{term}.mean") for term in ("total", "discrepancy", "lag"))
    if not (len(total) and np.array_equal(total.steps, discrepancy.steps) and np.array_equal(total.steps, lag.steps)):
        return
    smaller = np.minimum(np.abs(discrepancy.values), np.abs(lag.values))
    real = _real(discrepancy) & _real(lag) & (smaller > ROUNDING)
    hidden = real & (np.abs(total.values) < CANCELS * smaller)
    if hidden.any():
        at = int(np.flatnonzero(hidden)[0])
        text = (
            f"the terms of the split cancel in {hidden.sum()} of {len(total)} steps: at step {total.steps[at]} discrepancy "
            f"{discrepancy.values[at]:+.4g}, lag {lag.values[at]:+.4g}, total {total.values[at]:+.4g} nats; the total alone says nothing"
        )
        yield Oddity(metric=total.metric, what="both terms of the split cancel", text=text, first_step=int(total.steps[at]))


def _real(one: Series) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Where the mean is further from 0 than its own scatter explains."""
    return np.abs(one.values) > STANDARD_ERRORS * np.nan_to_num(one.standard_error, nan=0.0)
