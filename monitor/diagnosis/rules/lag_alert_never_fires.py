"""Whether an alert on the effective sample size could fire on this log at all."""

from __future__ import annotations

import re

import numpy as np

from monitor.diagnosis.case import Case
from monitor.diagnosis.outcome import Certainty, Evidence, Finding, Layer, Outcome, Passed, Severity, Skipped
from monitor.diagnosis.remedies import Remedy, fix
from monitor.diagnosis.rule import Rule, Threshold
from monitor.metrics.series import Series

ESS = tuple(f"ess.{ratio}.{level}" for level in ("sequence", "token") for ratio in ("lag", "total", "discrepancy", "update"))
THRESHOLDS = {"ess": Threshold(value=0.5, unit="fraction", source="where alerts on the ESS are set (definitions, section 5)")}
_FLOOR = re.compile(r"cannot fall under ([0-9.]+(?:e-?\d+)?)")
_SATURATED = "saturated at its floor 1/n"


def check(case: Case) -> Outcome:
    """The effective sample size of this log cannot fall under the threshold of an alert, however bad the run becomes.

    Weights that were truncated on both sides before they were measured have a floor: for a band from one half to two it is 0.64.
    The effective sample size of n responses cannot fall under 1/n, and a value that is not a number is not under anything.

    Put the alert on a value of the untruncated weights, or record the log-probabilities of the tokens, from which it follows.

    It says nothing about the run itself: a run without this remark may be well or ill, and so may one with it.

    The floor of truncated weights is Kantorovich's inequality, as in the definitions, section 5; the threshold is the usual one half.
    """
    found = [one for one in (case.series(name) for name in ESS) if len(one)]
    if not found:
        return Skipped(why="no ESS is in this log, so an alert on one could never fire", record=("same_weights_logprob", "current_logprob"))
    silent = [(one, why) for one in found if (why := _why_silent(one))]
    pinned = [one for one in found if _SATURATED in one.caveat]
    if not silent and not pinned:
        return Passed(says=f"an alert at {THRESHOLDS['ess'].value:g} can fire on {', '.join(one.metric for one in found)}")
    return Finding(
        severity=Severity.NOTE,
        certainty=Certainty.MEASURED if found[0].origin == "tokens" else Certainty.INDICATED,
        what=_what(silent, pinned),
        why="An alert that cannot fire looks like a run without trouble.",
        fixes=(fix(case, Remedy.RAW_WEIGHTS),),
        look_at="an ESS of untruncated weights, at the level and of the ratio that the alert names",
        evidence=tuple(_evidence(one, why) for one, why in [*silent, *((one, f"{_SATURATED} at some steps") for one in pinned)]),
    )


def _why_silent(found: Series) -> str:
    """Why a value under the threshold cannot be; "" where it can."""
    limit, finite = THRESHOLDS["ess"].value, found.values[np.isfinite(found.values)]
    if not len(finite):
        return f"it is no number at all {len(found)} steps"
    if (finite < limit).any():  # whatever is said of its floor, it has been there
        return ""
    floors = [float(text) for text in _FLOOR.findall(found.caveat)]
    if floors and min(floors) >= limit:
        return f"it cannot fall under {min(floors):.3g}: its weights were truncated on both sides before it was measured"
    counts = found.n[np.isfinite(found.n)]
    if len(counts) and counts.max() * limit <= 1:
        return f"it is of {counts.max():.0f} at most, and cannot fall under {1 / counts.max():.3g}"
    return ""


def _what(silent: list[tuple[Series, str]], pinned: list[Series]) -> str:
    if silent:
        more = f"; the same holds for {', '.join(one.metric for one, _ in silent[1:])}" if len(silent) > 1 else ""
        return f"an alert at {THRESHOLDS['ess'].value:g} can never fire on {silent[0][0].metric}: {silent[0][1]}{more}"
    return f"{', '.join(one.metric for one in pinned)} sits at its floor 1/n at some steps, and cannot show that things get worse"


def _evidence(found: Series, why: str) -> Evidence:
    finite = found.values[np.isfinite(found.values)]
    lowest = float(finite.min()) if len(finite) else float("nan")
    says = f"lowest value {lowest:.3g}: {why}"
    return Evidence(
        metric=found.metric,
        says=says,
        value=lowest,
        threshold=THRESHOLDS["ess"].value,
        source=THRESHOLDS["ess"].source,
        origin=found.origin,
    )


RULE = Rule(
    id="lag_alert_never_fires",
    layer=Layer.LAG,
    title="Alert that can never fire",
    check=check,
    needs=("correction.cap", "correction.floor"),
    thresholds=THRESHOLDS,
)
