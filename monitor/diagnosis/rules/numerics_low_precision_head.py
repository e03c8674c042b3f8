"""A head whose logits are rounded on one side only."""

from __future__ import annotations

from monitor.diagnosis._prefixes import QUANTA
from monitor.diagnosis.case import Case
from monitor.diagnosis.outcome import Certainty, Curve, Evidence, Finding, Layer, Outcome, Passed, Severity, Skipped
from monitor.diagnosis.remedies import Remedy, fix
from monitor.diagnosis.rule import Rule, Threshold

THRESHOLDS = {"share": Threshold(value=0.9, unit="share of differences", source="by chance 4 % lie as near to a multiple; all do where logits are rounded")}


def check(case: Case) -> Outcome:
    """(first paragraph: what the run looks like)

    (why it happens)

    (what to do next)

    (how to tell it from its neighbours)

    (source of the threshold)
    """
    raise NotImplementedError


RULE = Rule(
    id="numerics_low_precision_head",
    layer=Layer.NUMERICS,
    title="Low-precision head",
    check=check,
    requires=(("tokens", "log_ratio.discrepancy.abs_mean"),),
    needs=("engine.lm_head_dtype",),
    thresholds=THRESHOLDS,
)
