"""Rules and values made by hand, for tests of the machine and of what keeps its states."""

from __future__ import annotations

import math
from dataclasses import replace

from ingest.run import Run
from ingest.schema import SCALARS
from monitor.alerts.machine import HORIZON, Observation, Phase, State, update
from monitor.alerts.policy import AlertRule, Comparison

RULE = AlertRule(id="ess", metric="ess.lag.token", threshold=0.5, cooldown_s=0.0, cap=HORIZON, what="Resynchronise.")
RUN = Run(id="r", name="r", path="", dialect="", old_is="", scalars=SCALARS.empty_table(), tokens=None, config={}, problems=())
RISING = replace(RULE, metric="kl.total.k3", comparison=Comparison.ABOVE)


def seen(*values, metric="ess.lag.token", start=0, run="r", **more):
    """One observation for each value, on steps from `start`; None stands for a step that was not logged."""
    pairs = [(start + place, value) for place, value in enumerate(values) if value is not None]
    return [Observation(run=run, step=step, metric=metric, value=float(value), **more) for step, value in pairs]


def fed(batches, rule=RULE, *, state=None, now=1000.0, every=1.0, **more):
    """Feed batches one after the other, `every` seconds apart, each state through JSON; the last state, and all that was told."""
    state = state or State(rule=rule.id, run="r")
    told = []
    for place, batch in enumerate(batches):
        state, new = update(State.from_json(state.to_json()), rule, batch, now + place * every, **more)
        told += new
    return state, told


def one_by_one(values, **more):
    return [[one] for one in seen(*values, **more)]


def kinds(told):
    return [f"{each.kind} {each.step}" for each in told]


def phases(values, rule=RULE):
    """What the machine must answer, as a plain loop: the phase after the last of the values, without NaN in the way of the rest."""
    fired, row, phase = False, 0, Phase.ABSENT
    out, back = rule.bounds
    for value in values:
        if value is None:
            continue
        if math.isnan(value):
            phase = Phase.NAN
            continue
        beyond, clear = rule.comparison.beyond(value, out), not rule.comparison.beyond(value, back)
        row = row + 1 if beyond else 0
        fired = (fired or row >= rule.hold) and not clear
        phase = Phase.FIRING if fired else Phase.PENDING if row else Phase.OK
    return phase
