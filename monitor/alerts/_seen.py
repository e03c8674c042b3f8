"""What a rule has seen of a run: the marks of its last steps, and what came before them folded into where the walk then stood.

This is the part of a state that the observations alone decide: within the last `HORIZON` steps any order of arrival, in any batches, leaves
the same behind. A step that comes again with another value has that value from then on; one that comes again unchanged changes nothing; one
from before the horizon is passed over.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from statistics import median

from monitor.alerts import _runs
from monitor.alerts._runs import Runs
from monitor.alerts._walk import Walk, walked
from monitor.alerts.levels import Against, Mark, mark
from monitor.alerts.observation import Observation
from monitor.alerts.reads import places
from monitor.alerts.rule import AlertRule, Relation, RuleKind

HORIZON = 2000  # steps that may still be put in their place, or replaced
_SLACK = 500  # steps by which the horizon is passed before it is folded, so that folding costs little


@dataclass(frozen=True, kw_only=True)
class Seen:
    """See the module. `values` and `floor_values` are kept for a rule on its own floor only, which judges anew when the floor moves."""

    runs: Runs = ()
    base: Walk = field(default_factory=Walk)
    folded: int | None = None  # last step that is folded into `base`
    place: int | None = None  # where the rule is read, see `reads.readings`; the best so far
    last: tuple[int, float] | None = None  # latest step and its value
    values: tuple[float, ...] = ()  # one for each step of `runs`
    floor_values: tuple[tuple[int, float], ...] = ()  # the first finite values: step and value

    @property
    def newest(self) -> int | None:
        """The latest step."""
        return self.runs[-1].last if self.runs else self.folded


def seeing(seen: Seen, rule: AlertRule, batch: Iterable[Observation], compared: Against) -> tuple[Seen, dict[int, Observation]]:
    """The same after a batch, not folded yet; and what of the batch the rule was read on, by step."""
    place, steps = _readable(seen, rule, batch)
    if not steps:
        return seen, steps
    if place != seen.place:
        seen = Seen(place=place)
    newest = max(steps)
    if rule.kind is RuleKind.METRIC and (seen.newest is None or newest >= seen.newest):
        seen = replace(seen, last=(newest, steps[newest].value))
    if rule.kind is RuleKind.METRIC and rule.relation is Relation.FLOOR:
        return _on_floor(seen, rule, steps, compared), steps
    changes = {step: mark(rule, one, compared, None) for step, one in steps.items()}
    return replace(seen, runs=_runs.put(seen.runs, changes)), steps


def folded(seen: Seen, hold: int) -> Seen:
    """The same with no more than `HORIZON` steps to be put in their place; what is older is only walked over."""
    if _runs.count(seen.runs) <= HORIZON + _SLACK:
        return seen
    older, runs = _runs.parted(seen.runs, HORIZON)
    base = walked(seen.base, older, hold).end
    return replace(seen, runs=runs, base=base, folded=older[-1].last, values=seen.values[-HORIZON:] if seen.values else ())


def back_to(seen: Seen, from_step: int) -> Seen:
    """The same without `from_step` and everything after it; where that lies before the horizon, nothing is known of what was before."""
    floor_values = tuple(pair for pair in seen.floor_values if pair[0] < from_step)
    if seen.folded is not None and from_step <= seen.folded:
        return Seen(place=seen.place, folded=from_step - 1, floor_values=floor_values)
    runs = _runs.before(seen.runs, from_step)
    values = seen.values[: _runs.count(runs)]
    if len(floor_values) < len(seen.floor_values):  # the floor is no longer known, and with it nothing that was judged by it
        unknown = {True: Mark.NAN, False: Mark.UNKNOWN}
        runs = _runs.put((), {step: unknown[math.isnan(value)] for step, value in zip(_runs.marks(runs), values, strict=True)})
    last = seen.last if seen.last is not None and seen.last[0] < from_step else None
    return replace(seen, runs=runs, values=values, last=last, floor_values=floor_values)


def floor_of(seen: Seen, rule: AlertRule) -> float | None:
    """The run's own floor; None while it has fewer finite values than that takes."""
    found = [value for _, value in seen.floor_values]
    return median(found) if rule.relation is Relation.FLOOR and len(found) == rule.floor_steps else None


def _readable(seen: Seen, rule: AlertRule, batch: Iterable[Observation]) -> tuple[int | None, dict[int, Observation]]:
    """Where the rule is read from now on, and what it reads there in this batch; of a step that comes twice the later."""
    old = -math.inf if seen.folded is None else seen.folded
    if rule.kind is not RuleKind.METRIC:
        return None, _of_any(seen, rule, (one for one in batch if one.step > old and fnmatchcase(one.metric, rule.metric)))
    known = places(rule)
    found = [(place, one) for one in batch if (place := known.get((one.metric, one.origin))) is not None]
    best = min((place for place in (seen.place, *(place for place, _ in found)) if place is not None), default=None)
    late = old if best == seen.place else -math.inf
    return best, {one.step: one for place, one in found if place == best and one.step > late}


def _of_any(seen: Seen, rule: AlertRule, batch: Iterable[Observation]) -> dict[int, Observation]:
    """One observation for each step: one that is not finite where there is any, now or before, so that no order hides it."""
    steps: dict[int, Observation] = {}
    for one in batch:
        held = steps.get(one.step)
        if held is None or mark(rule, held, Against(), None) is Mark.CLEAR:
            steps[one.step] = one
    known = _runs.marks(seen.runs) if seen.newest is not None and min(steps, default=math.inf) <= seen.newest else {}
    return {step: one for step, one in steps.items() if known.get(step) is not Mark.BEYOND}


def _on_floor(seen: Seen, rule: AlertRule, steps: dict[int, Observation], compared: Against) -> Seen:
    """Judge by the floor; all steps again where it has moved."""
    floor = floor_of(seen, rule)
    if floor is not None and seen.newest is not None and min(steps) > seen.newest:  # as it nearly always is
        later = dict(sorted(steps.items()))
        runs = _runs.put(seen.runs, {step: mark(rule, one, compared, floor) for step, one in later.items()})
        return replace(seen, runs=runs, values=(*seen.values, *(one.value for one in later.values())))
    known = dict(zip(_runs.marks(seen.runs), seen.values, strict=True)) | {step: one.value for step, one in steps.items()}
    values = dict(sorted(known.items()))
    kept = {step: value for step, value in seen.floor_values if step not in values}
    finite = sorted((kept | {step: value for step, value in values.items() if math.isfinite(value)}).items())
    now = replace(seen, values=tuple(values.values()), floor_values=tuple(finite[: rule.floor_steps]))
    floor, one = floor_of(now, rule), next(iter(steps.values()))
    changes = {step: mark(rule, replace(one, step=step, value=value), compared, floor) for step, value in values.items()}
    return replace(now, runs=_runs.put((), changes))
