"""Rules made up for the tests of the Findings page: one of each outcome, with words that a page must not obey."""

from __future__ import annotations

import math

import numpy as np

from monitor.diagnosis.outcome import Certainty, Curve, Evidence, Finding, Fix, Layer, Passed, Severity, Skipped
from monitor.diagnosis.rule import Rule, Threshold

HOSTILE = "<img src=x onerror=alert(1)> $\\frac{a}{b}$ :red[y] \u202e"
FIX = "logprobs_mode=processed_logprobs"


def rule(name, layer, check, *, title="A made-up fault", **more):
    def asked(case):
        """What the run looks like.

        Why <b>it</b> happens.

        What to do next.

        How to tell it from its neighbours.

        Where the threshold is from.
        """
        return check(case)

    return Rule(id=name, layer=layer, title=title, check=asked, **more)


def finding(**more):
    made = {
        "severity": Severity.CRITICAL,
        "certainty": Certainty.MEASURED,
        "what": "the mean ratio is 1.05, which no noise explains",
        "why": "The engine reports log-probabilities before temperature",
        "fixes": (Fix(change=FIX, where="vLLM's engine argument", setting="engine.logprobs_mode"),),
        "look_at": "ratio.discrepancy.mean returns to 1",
        "evidence": (
            Evidence(
                metric="ratio.discrepancy.mean",
                says="the mean ratio is 1.05",
                value=1.05,
                threshold=1.01,
                source="field report A1",
                steps=(0, 11),
            ),
            Evidence(
                metric="portrait.slope",
                says="the slope at one prefix is 1.25 = 1 / 0.8",
                value=1.25,
                threshold=1.1,
                curve=Curve(
                    x=tuple(map(float, range(8))),
                    y=(0.1, 0.2, math.nan, 0.4, 0.5, 0.6, 0.7, 0.8),
                    x_title="log-probability at the engine, nats",
                    y_title="trainer minus engine, nats, over all pairs of tokens that follow the same prefix in a step",
                    expected=(0.0,) * 8,
                ),
            ),
        ),
        "since": 3,
        "until": 9,
        "apart_from": ("temperature forgotten by the trainer: the slope would be below 1",),
    }
    return Finding(**made | more)


def _semantics(case):
    dips = np.nanmin(case.series("ess.lag.token").values, initial=1.0) < 0.5
    return finding() if dips else Passed(says="the mean ratio is 1")


def _lag(case):
    ess = case.series("ess.lag.token")
    low = ess.steps[ess.values < 0.5]
    if not low.size:
        return Passed(says="the ESS stays over 1/2")
    evidence = Evidence(
        metric="ess.lag.token", says="ESS(lag, token) falls to 0.1", value=0.1, threshold=0.5, source="definitions, section 5"
    )
    return finding(severity=Severity.WARNING, what="weights are old", evidence=(evidence,), fixes=(), since=int(low[0]), until=None)


def rules():
    """One of each: passed, critical, note, lacking, explained, warning."""
    return (
        rule("data_shifted_logprobs", Layer.DATA, lambda _: Passed(says="both sides are aligned"), title="Shifted", keystone=True),
        rule(
            "semantics_raw_logprobs",
            Layer.SEMANTICS,
            _semantics,
            title="Raw log-probabilities",
            requires=(("tokens",),),
            keystone=True,
            thresholds={"ratio": Threshold(value=1.01, unit="ratio", source="field report A1")},
        ),
        rule(
            "inference_path_stale_prefix_cache",
            Layer.INFERENCE_PATH,
            lambda _: finding(severity=Severity.NOTE, what="caching is on"),
            title="Stale prefix cache",
            keystone=True,
        ),
        rule(
            "numerics_low_precision_body",
            Layer.NUMERICS,
            lambda _: Skipped(why="nothing says the dtype", record=("engine.dtype",)),
            title="Low-precision body",
            keystone=True,
        ),
        rule("lag_policy_lag", Layer.LAG, _lag, title="Policy lag", requires=(("ess.lag.token",),), keystone=True),
        rule(
            "lag_alert_never_fires",
            Layer.LAG,
            lambda _: Passed(says="no alert"),
            title="Alert never fires",
            after=("semantics_raw_logprobs",),
        ),
    )
