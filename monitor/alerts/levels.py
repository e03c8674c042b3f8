"""What a value is compared with: a number, the run's own floor, a reference and its noise, its standard error, or a setting of the run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from hashlib import blake2b

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ingest.run import Config
from monitor.alerts.observation import Observation
from monitor.alerts.reads import readings
from monitor.alerts.rule import AlertRule, Relation, RuleKind
from monitor.compare.reference import reference
from monitor.metrics.sanity import ROUNDING
from monitor.metrics.series import series

Floats = npt.NDArray[np.float64]


class Mark(StrEnum):
    """What a rule makes of the value of one step."""

    BEYOND = "b"  # beyond the threshold
    BETWEEN = "-"  # not beyond it, and not beyond that of the way back either: neither fires nor resolves
    CLEAR = "c"  # back on the healthy side
    NAN = "n"  # no number
    UNKNOWN = "?"  # a number, but there is nothing to compare it with (yet): no floor, no reference at this step, no standard error


@dataclass(frozen=True, kw_only=True, eq=False)
class Baseline:
    """A reference in one metric, on the steps that its seeds have."""

    steps: npt.NDArray[np.int64]
    centre: Floats
    noise: Floats

    @cached_property
    def sign(self) -> str:
        """The same for the same reference."""
        return blake2b(b"".join(each.tobytes() for each in (self.steps, self.centre, self.noise)), digest_size=8).hexdigest()

    def at(self, step: int) -> tuple[float, float]:
        """Centre and noise at a step, linear between the reference's own; NaN outside them."""
        both = [np.interp(step, self.steps, values, left=np.nan, right=np.nan) for values in (self.centre, self.noise)]
        return float(both[0]), float(both[1])


@dataclass(frozen=True, kw_only=True, eq=False)
class Against:
    """What a run's values are compared with beside fixed thresholds: the run's settings, and the reference metric by metric and origin."""

    settings: Config = field(default_factory=dict)
    baselines: Mapping[tuple[str, str], Baseline] = field(default_factory=dict)  # by (metric, origin): like is compared with like

    def sign(self, rule: AlertRule) -> str:
        """What must be the same for two values to have been judged alike: the rule's condition and what it is compared with."""
        said: list[object] = [rule.kind, rule.metric, rule.comparison, rule.bounds, rule.relation]
        said += [rule.centre, rule.setting, rule.at_least, rule.floor_steps]
        if rule.relation is Relation.LIMIT:
            said.append(self.limit(rule))
        if rule.relation is Relation.REFERENCE:
            found = {place: self.baselines.get((place.metric, place.origin)) for place in readings(rule)}
            said += [(place.metric, place.origin, each.sign) for place, each in found.items() if each is not None]
        return blake2b(repr(said).encode(), digest_size=8).hexdigest()

    def limit(self, rule: AlertRule) -> float | None:
        """The run's setting that a rule multiplies; None where the log does not say it, or says no number."""
        said = self.settings.get(rule.setting)
        return None if said is None or isinstance(said, (str, bool)) or not math.isfinite(said) else float(said)


NOTHING = Against()


def against(settings: Config, references: Sequence[pa.Table], rules: Sequence[AlertRule]) -> Against:
    """Prepare what the rules compare a run with, once for the run.

    Args:
        settings: the run's configuration, under our names.
        references: one metric frame for each seed of the reference; none where there is no reference.
        rules: those that may need it.
    """
    wanted = {(each.metric, each.origin) for rule in rules if rule.relation is Relation.REFERENCE for each in readings(rule)}
    made = {(metric, origin): _baseline(references, metric, origin) for metric, origin in sorted(wanted)}
    return Against(settings=settings, baselines={place: found for place, found in made.items() if found is not None})


def _baseline(frames: Sequence[pa.Table], metric: str, origin: str) -> Baseline | None:
    seeds = [found for frame in frames if len(found := series(frame, metric, origin=origin)) and np.isfinite(found.values).any()]
    if not seeds or len(seeds) < len(frames):
        return None
    laid = reference(seeds, np.unique(np.concatenate([seed.steps for seed in seeds])))
    known = np.isfinite(laid.centre) & np.isfinite(laid.noise)
    return Baseline(steps=laid.steps[known], centre=laid.centre[known], noise=laid.noise[known]) if known.any() else None


def mark(rule: AlertRule, one: Observation, compared: Against, floor: float | None) -> Mark:
    """What the rule makes of one value.

    Args:
        rule: a rule of any kind.
        one: the value.
        compared: what there is to compare it with.
        floor: the run's own floor, for that relation.
    """
    if rule.kind is RuleKind.NO_DATA:
        return Mark.CLEAR
    if rule.kind is RuleKind.NONFINITE:
        return Mark.BEYOND if not_finite(one) else Mark.CLEAR
    if math.isnan(one.value):
        return Mark.NAN
    found = _level(rule, one, compared, floor)
    if found is None:
        return Mark.UNKNOWN
    if rule.comparison.beyond(found.value, found.threshold):
        return Mark.BEYOND
    return Mark.BETWEEN if rule.comparison.beyond(found.value, found.back) else Mark.CLEAR


def threshold(rule: AlertRule, one: Observation, compared: Against, floor: float | None) -> float | None:
    """Where the threshold lies for this value, in the metric's own unit; None where there is none."""
    if rule.kind is not RuleKind.METRIC or (found := _level(rule, one, compared, floor)) is None:
        return None
    if rule.relation is Relation.STANDARD_ERROR and rule.centre is not None:
        return rule.centre + math.copysign(found.threshold, one.value - rule.centre)
    return found.threshold


def fixed_threshold(rule: AlertRule, settings: Config, floor: float | None) -> float | None:
    """Where the threshold lies at every step; None where it is another at each, or not known.

    Args:
        rule: a rule on a metric.
        settings: the run's.
        floor: the run's own floor, for that relation.
    """
    if rule.relation is Relation.ABSOLUTE:
        return rule.threshold
    if rule.relation is Relation.LIMIT:
        limit = Against(settings=settings).limit(rule)
        return None if limit is None else rule.threshold * limit
    found = _of_floor(rule, math.nan, floor) if rule.relation is Relation.FLOOR else None
    return None if found is None else found.threshold


def not_finite(one: Observation) -> bool:
    """Whether a value is what a rule on non-finite values looks for.

    Weights that are all equal and not 1 lie infinitely many standard errors from 1: true, so an infinite `.z` is no finding.
    """
    if one.metric.startswith("nonfinite."):
        return not one.value <= 0
    return math.isnan(one.value) or (math.isinf(one.value) and not one.metric.endswith(".z"))


@dataclass(frozen=True, kw_only=True)
class _Level:
    """A value with the two thresholds it is compared with, all in one unit."""

    value: float
    threshold: float
    back: float


def _level(rule: AlertRule, one: Observation, compared: Against, floor: float | None) -> _Level | None:
    out, back = rule.bounds
    if rule.relation is Relation.ABSOLUTE:
        return _Level(value=one.value, threshold=out, back=back)
    if rule.relation is Relation.FLOOR:
        return _of_floor(rule, one.value, floor)
    if rule.relation is Relation.LIMIT:
        limit = compared.limit(rule)
        return None if limit is None else _Level(value=one.value, threshold=out * limit, back=back * limit)
    if rule.relation is Relation.STANDARD_ERROR:
        return _of_error(rule, one)
    return _of_reference(rule, one, compared)


def _of_floor(rule: AlertRule, value: float, floor: float | None) -> _Level | None:
    """A multiple of the floor, but never under `at_least`; a floor under 0 has no multiple that would mean anything."""
    if floor is None or floor < 0:
        return None
    out, back = rule.bounds
    scale = max(floor, rule.at_least / out)
    return _Level(value=value, threshold=out * scale, back=back * scale)


def _of_error(rule: AlertRule, one: Observation) -> _Level | None:
    """The distance from the centre on either side; where the standard error is 0 only `at_least` and rounding excuse any."""
    if one.standard_error is None or not math.isfinite(one.standard_error) or rule.centre is None:
        return None
    out, back = (max(times * one.standard_error, rule.at_least, ROUNDING) for times in rule.bounds)
    return _Level(value=abs(one.value - rule.centre), threshold=out, back=back)


def _of_reference(rule: AlertRule, one: Observation, compared: Against) -> _Level | None:
    """The reference's centre, and its noise with the value's own standard error added in quadrature, as `compare.divergence` has it."""
    baseline = compared.baselines.get((one.metric, one.origin))
    if baseline is None:
        return None
    centre, noise = baseline.at(one.step)
    if math.isnan(centre) or math.isnan(noise):
        return None
    own = one.standard_error if one.standard_error is not None and math.isfinite(one.standard_error) else 0.0
    out, back = (times * math.hypot(noise, own) for times in rule.bounds)
    least = max(rule.at_least, ROUNDING * max(abs(centre), 1.0))
    far, near = math.copysign(max(abs(out), least), out), math.copysign(max(abs(back), least), back)
    return _Level(value=one.value, threshold=centre + far, back=centre + near)
