"""Whether a step log alone shows a shift or rules it out: a shift leaves no correlation, and a gap as large as the tokens' surprise."""

from __future__ import annotations

import math

import numpy as np

from monitor.diagnosis.case import Case
from monitor.diagnosis.outcome import Certainty, Evidence, Finding, Outcome, Passed, Severity, Skipped
from monitor.diagnosis.remedies import fix
from monitor.diagnosis.remedy import Remedy
from monitor.diagnosis.rule import Threshold

PEARSON = ("prob_correlation.discrepancy.pearson", "prob_correlation.total.pearson")
# What is at most as large as the mean |gap| allows: the metric, what it is without a gap, and how it is compared with the surprise.
GAPS = (
    *((f"log_ratio.{term}.abs_mean", 0.0) for term in ("discrepancy", "total")),
    *((f"log_ratio.{term}.exp_abs_mean", 1.0) for term in ("discrepancy", "total")),
    *((f"kl.{term}.k3", 0.0) for term in ("discrepancy", "total")),
)
METRICS = (*PEARSON, *(name for name, _ in GAPS))
SURPRISE = ("logprob.rollout.mean", "logprob.old.mean", "logprob.current.mean", "entropy.mean")
SMALL = 0.1  # of the mean surprise: a shift makes the mean |gap| about as large as the surprise, and k3 more
UNKNOWN_SURPRISE = 0.2  # nats, where the log has none: a policy about to collapse
_FIRST = 5  # steps that count as the start


def look(case: Case, pearson: Threshold) -> Outcome:
    """The answer of a step log alone."""
    correlation = case.series(*PEARSON)
    if np.isfinite(correlation.values).any():
        r = _start(correlation.values)
        return (
            _uncorrelated(case, correlation.metric, r, pearson)
            if r < pearson.value
            else Passed(says=f"the step log has the two sides correlated at {r:.3f} from the start, which no shift leaves")
        )
    metric, gap = next(
        ((one.metric, _start(one.values) - none) for name, none in GAPS if np.isfinite((one := case.series(name)).values).any()),
        ("", math.nan),
    )
    surprise = abs(_start(case.series(*SURPRISE).values))
    bound = SMALL * (surprise if math.isfinite(surprise) else UNKNOWN_SURPRISE)
    if gap < bound:
        return Passed(
            says=f"{metric} starts only {gap:.2g} from its value without a gap; a shift would make it about as large as a token's "
            f"surprise, {bound / SMALL:.2g} nats"
        )
    return Skipped(
        why=f"a shift cannot be told from other large gaps by the step log alone ({metric or 'no metric'}: {gap:.2g})",
        record=("rollout_logprob", "current_logprob"),
    )


def _start(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    finite = values[np.isfinite(values)][:_FIRST]
    return float(np.median(finite)) if len(finite) else math.nan


def _uncorrelated(case: Case, metric: str, r: float, pearson: Threshold) -> Finding:
    return Finding(
        severity=Severity.CRITICAL,
        certainty=Certainty.INDICATED,
        what=f"the probabilities of the two sides correlate at only {r:.2f} from the start, as where they are of different tokens",
        why="wrong temperature, precision or lag leave them correlated at 0.9 and more; labels that are shifted, or other tokens, do not",
        fixes=(fix(case, Remedy.SHIFT_LABELS),),
        look_at=f"{metric}: it should be about 0.99",
        evidence=(
            Evidence(
                metric=metric,
                says=f"correlation of the probabilities in the first steps: {r:.2f}",
                value=r,
                threshold=pearson.value,
                source=pearson.source,
                origin="logged",
            ),
        ),
        apart_from=("weights damaged by an update: this is there at the first steps; by which shift, if any, only token columns tell",),
    )
