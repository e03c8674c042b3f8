"""The picture of a gap that grows or jumps with the weights, and the numbers that decided between the causes."""

from __future__ import annotations

import math

from monitor.diagnosis._by_update import Levels
from monitor.diagnosis._engine_state import GROWN, UNEVEN, Seen
from monitor.diagnosis._logged_level import Logged
from monitor.diagnosis.outcome import Curve, Evidence
from monitor.diagnosis.rule import Threshold

_SPREAD = "laboratory: 0.2 to 0.4 for prompts of different ages in a cache, under 0.15 for weights that are missing for all alike"


def evidence(seen: Seen, factor: Threshold) -> tuple[Evidence, ...]:
    """What stands behind a sentence about the gap over the updates of a run."""
    found = []
    if seen.levels:
        found.append(_of_levels(seen.levels, factor))
    if seen.logged:
        found.append(_of_log(seen.logged, factor))
    if math.isfinite(seen.at_equal_tokens):
        says = f"at equal place and improbability of the token, the gap is {seen.at_equal_tokens:.1f} times that of the first steps"
        source = "so that neither longer responses nor a higher entropy count as growth"
        found.append(Evidence(metric="portrait.at_equal_tokens", says=says, value=seen.at_equal_tokens, threshold=GROWN, source=source))
    if math.isfinite(seen.uneven):
        says = f"the prompts of a step differ in the size of the gap by {seen.uneven:.2f} (standard deviation of its log), beyond chance"
        found.append(Evidence(metric="portrait.prompt_spread", says=says, value=seen.uneven, threshold=UNEVEN, source=_SPREAD))
    return tuple(found)


def _of_levels(found: Levels, factor: Threshold) -> Evidence:
    name = "root mean square gap about the same-prefix line" if found.tempered else "mean |gap|"
    under = found.by.replace("_", " ")
    last = found.late if found.high.any() else float(found.level[-1])
    where = "where it has grown" if found.high.any() else "under the last"
    says = f"{name} is {found.level[0]:.3g} nats under the first {under} and {last:.3g} {where}"
    xs, ys = tuple(map(float, found.keys)), tuple(map(float, found.level))
    curve = Curve(x=xs, y=ys, x_title=under, y_title=f"{name}, nats", expected=(ys[0],) * len(ys))
    limit = found.factor * ys[0]
    return Evidence(metric="portrait.version", says=says, value=last, threshold=limit, source=factor.source, curve=curve)


def _of_log(found: Logged, factor: Threshold) -> Evidence:
    one = found.series
    when = f"from step {found.jump_step} on" if found.jumps else "in the last fifth of the steps"
    says = f"{one.metric}: {found.before:.3g} at first, {found.after:.3g} {when} (as a size that is 0 without a gap)"
    ends = (int(one.steps[0]), int(one.steps[-1]))
    limit = factor.value * found.before
    return Evidence(metric=one.metric, says=says, value=found.after, threshold=limit, source=factor.source, steps=ends, origin=one.origin)
