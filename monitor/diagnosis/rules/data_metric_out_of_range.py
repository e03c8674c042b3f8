"""Values that cannot be what their name says: outside the range of the quantity, or counts that are 0 in every healthy log."""

from __future__ import annotations

import math

import numpy as np
import pyarrow.compute as pc

from monitor.diagnosis.case import Case
from monitor.diagnosis.outcome import Certainty, Evidence, Finding, Fix, Layer, Outcome, Passed, Severity
from monitor.diagnosis.rule import Rule, Threshold
from monitor.metrics import glossary
from monitor.metrics.sanity import COUNTED, ROUNDING, Oddity
from monitor.metrics.sanity import check as oddities

THRESHOLDS = {
    "rounding": Threshold(value=ROUNDING, unit="of the quantity", source="how far outside its range rounding alone may carry a value"),
    "positive": Threshold(
        value=0.05,
        unit="share of tokens",
        source="chosen: logits in bfloat16 give a few log-probabilities above 0 (field report A43); other quantities give many",
    ),
}
_RANGE = "metric out of range"
_CAUSES = {
    "ess.": "an effective sample size is divided by the wrong count, such as responses where it was summed over samples (field report A78)",
    "kl.": "an estimator that cannot be negative is: another estimator, the other direction, or a difference of two of them was logged",
    "clip_rate.": "a share outside 0 to 1 was scaled twice, or is a count",
    "entropy.": "an entropy of a discrete distribution cannot be negative: its sign was turned, or it is a bonus of the loss",
    "logprob.": "a mean log-probability above 0 is a negative log-likelihood, or a loss",
    "ratio": "a ratio of probabilities cannot be negative: its logarithm was logged",
    "positive.": "no probability is above 1: negative log-likelihoods were logged, or logits had been rounded (field report A43)",
    "repeated.": "rows were logged twice, or responses of several ranks share their sample_id",
}
FEW_STEPS = 20  # that an evidence names


def check(case: Case) -> Outcome:
    """A metric has values that its quantity cannot have: an effective sample size above 1, a negative divergence, a share outside 0 to 1.

    The number was computed in another way than its name says: divided by the wrong count, scaled twice, taken with the other sign, or it is
    another quantity altogether. Whatever is concluded from it is wrong, and so are the alerts on it.

    Record the log-probabilities of each token and let the metric be computed from them, or correct the mapping of the key. Until then read
    nothing from this metric.

    A value that is no number at all is a finding of its own. A mean ratio away from 1 is possible and belongs to semantics. A few
    log-probabilities just above 0 come from a head in low precision.

    The ranges are those of the definitions, with room for rounding only. Field report A78 has an effective sample size of 5/4.
    """
    empty = _empty(case)
    if empty is not None and empty.severity is Severity.CRITICAL:
        return empty  # no metric has a value
    kinds = {_RANGE, *(what for _, what, _ in COUNTED)}
    found = [one for one in oddities(case.frame) if one.what in kinds and len(_worst(case, one)[2])]
    if not found:
        return empty or Passed(says="every metric lies in the range of its quantity")
    grave = [one for one in found if _grave(case, one)]
    first = (grave or found)[0]
    more = len({one.metric for one in found}) - 1
    return Finding(
        severity=Severity.WARNING if grave else Severity.NOTE,
        certainty=Certainty.MEASURED if case.series(first.metric).origin == "tokens" else Certainty.INDICATED,
        what=_what(case, first) + (f"; {more} more metric{'s have' if more > 1 else ' has'} impossible values too" if more else ""),
        why=next(
            (cause for part, cause in _CAUSES.items() if first.metric.startswith(part)),
            "whatever was logged under this name is another quantity",
        ),
        fixes=(_fix(case, first),),
        look_at=f"{first.metric}: all its values should lie in its range",
        evidence=tuple(_evidence(case, one) for one in found[:6]),
        since=min(one.first_step for one in grave or found),
    )


def _empty(case: Case) -> Finding | None:
    """Steps in which no token counts, of a log that has tokens: all of them, or a few; None where every step has some."""
    count = case.series("tokens.count")
    if count.origin != "tokens" or not len(count) or (count.values > 0).all():
        return None
    steps = tuple(int(step) for step in count.steps[count.values == 0])
    every = len(steps) == len(count)
    says = f"no token counts in {'any' if every else len(steps)} of {len(count)} steps: the loss mask is false everywhere"
    return Finding(
        severity=Severity.CRITICAL if every else Severity.NOTE,
        certainty=Certainty.MEASURED,
        what=says if every else f"{says}, first in step {steps[0]}",
        why="where no token counts nothing is learnt, and no metric has a value",
        fixes=(Fix(change="make the loss mask true on the response tokens", where="the trainer, where the batch is put together"),),
        look_at="tokens.count: above 0 in every step",
        evidence=(
            Evidence(metric="tokens.count", says=says, value=0.0, threshold=1.0, source="a batch of no token", steps=steps[:FEW_STEPS]),
        ),
        since=steps[0],
    )


def _grave(case: Case, one: Oddity) -> bool:
    """Whether it is more than the few positive log-probabilities that rounded logits give."""
    if not one.metric.startswith("positive."):
        return True
    return _count(case, one) > THRESHOLDS["positive"].value * float(case.series(one.metric).n.sum())


def _count(case: Case, one: Oddity) -> float:
    """How many were counted over all steps; what is no count is left out."""
    return float(np.nansum(np.maximum(case.series(one.metric).values, 0.0)))


def _worst(case: Case, one: Oddity) -> tuple[float, float, tuple[int, ...]]:
    """The value furthest outside, the bound it passes, and the steps in which any does."""
    series = case.series(one.metric)
    low, high = _range(one)
    with np.errstate(invalid="ignore"):  # an infinite value against an infinite bound is not beyond it
        beyond = np.nan_to_num(np.fmax(low - series.values, series.values - high), nan=-math.inf, posinf=math.inf, neginf=-math.inf)
    value = float(series.values[int(np.argmax(beyond))])
    return value, low if value < low else high, tuple(int(step) for step in series.steps[beyond > ROUNDING])


def _range(one: Oddity) -> tuple[float, float]:
    if one.what != _RANGE:
        return 0.0, 0.0  # a count that is 0 in every healthy log
    row = glossary.metric(one.metric)
    return row.low, row.high


def _what(case: Case, one: Oddity) -> str:
    value, bound, steps = _worst(case, one)
    title, of = (glossary.metric(one.metric).title if glossary.known(one.metric) else one.metric), len(case.series(one.metric))
    if one.what != _RANGE:
        return f"{_count(case, one):.0f} {title}, in {len(steps)} of {of} steps from step {steps[0]} on"
    bounded = f"cannot be {'under' if value < bound else 'over'} {bound:g}"
    return f"{title} ({one.metric}) {bounded}, but is {value:.4g}; so in {len(steps)} of {of} steps from step {steps[0]} on"


def _fix(case: Case, one: Oddity) -> Fix:
    if one.metric.startswith("repeated."):
        return Fix(
            change="give every response of a step its own sample_id over all ranks, and record each row once",
            where="the recorder in the trainer",
        )
    if one.metric.startswith("positive."):
        return Fix(
            change="record log-probabilities, not their negatives, and compute the log-softmax in float32",
            where="the recorder in the trainer",
        )
    keys = case.frame.filter(pc.equal(case.frame["metric"], one.metric))["source_key"].unique().to_pylist()
    key = next((key for key in keys if key), one.metric)
    return Fix(
        change=f"correct how {key} is computed, or name its quantity in a mapping (--map); record token columns to have it computed here",
        where="the trainer's log",
    )


def _evidence(case: Case, one: Oddity) -> Evidence:
    value, bound, steps = _worst(case, one)
    return Evidence(
        metric=one.metric,
        says=one.text,
        value=value,
        threshold=bound,
        source="the range of the quantity in the definitions" if one.what == _RANGE else "definition: 0 in every healthy log",
        steps=steps[:FEW_STEPS],
        origin=case.series(one.metric).origin,
    )


RULE = Rule(
    id="data_metric_out_of_range",
    layer=Layer.DATA,
    title="Impossible values",
    check=check,
    thresholds=THRESHOLDS,
)
