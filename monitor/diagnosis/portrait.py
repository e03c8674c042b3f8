"""What a run's tokens look like beyond the metrics: the sums that tell one fault from another, step by step, so that they add.

A second pass over the tokens, for the diagnosis alone. The gap is trainer minus engine at the same weights wherever the log allows it;
`Portrait.gap` says which difference it really is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ingest.run import Run
from monitor.diagnosis import _profiles, _sizes, _step_tokens
from monitor.diagnosis._prefixes import SamePrefix, same_prefix
from monitor.diagnosis._profiles import SHIFTS, correlation
from monitor.diagnosis._sequences import Sequences, sequences
from monitor.diagnosis._singular import Singular, singular
from monitor.diagnosis._step_tokens import Gap, StepTokens

Floats = NDArray[np.float64]
FAR = math.log(2)  # nats; the routing-noise metric of AReaL#1207 counts tokens beyond it


@dataclass(frozen=True, kw_only=True, eq=False)
class StepPortrait:
    """Sums over the counted tokens of one step, or of several added together; x is the gap in nats."""

    tokens: float  # masked in
    moments: Floats  # (5,) sums of x^0 to x^4
    abs_sum: float
    weight: float  # sum of expm1(x)
    exp_abs: float  # sum of expm1(|x|)
    far: float  # tokens with |x| > FAR
    place: Floats  # (classes, 4), see `_profiles`: by place in the response, under its first weights
    end: Floats  # by number of tokens that follow
    surprise: Floats  # by minus the engine's log-probability
    place_surprise: Floats  # by both, see `_sizes`
    size: Floats  # (2, classes) tokens by |x|, of which the engine was certain or not, see `_sizes`
    lag: Floats  # the gap by version lag
    total_lag: Floats  # current - rollout by version lag; zeros where either was not recorded
    switched: Floats  # (2, 4) before and after the first change of weights inside a response
    version: dict[int, Floats]  # rollout_version -> (4,), under a response's first weights
    shifted: Floats  # (5, 6) products of the sides, the trainer's moved by -2 to 2 tokens
    entropy: Floats  # (6,) products of the entropy with x
    prefix: SamePrefix
    singular: Singular
    sequences: Sequences  # a row per sequence

    def __add__(self, other: StepPortrait) -> StepPortrait:
        """The portrait of both."""
        total: StepPortrait = _total((self, other))
        return total

    @property
    def n(self) -> float:
        """Tokens that show the gap."""
        return float(self.moments[0])

    @property
    def mean(self) -> float:
        """Mean gap, nats; NaN without tokens, as everything below."""
        return self._moment(1)

    @property
    def abs_mean(self) -> float:
        """Mean |gap|, nats."""
        return self.abs_sum / self.n if self.n else math.nan

    @property
    def sd(self) -> float:
        """Standard deviation of the gap, nats."""
        return math.sqrt(max(self._moment(2) - self.mean**2, 0.0))

    @property
    def kurtosis(self) -> float:
        """Fourth central moment over the squared variance: 3 for normal noise."""
        m1, m2, m3, m4 = (self._moment(k) for k in (1, 2, 3, 4))
        central, variance = m4 - 4 * m1 * m3 + 6 * m1**2 * m2 - 3 * m1**4, m2 - m1**2
        return central / variance**2 if variance > 0 else math.nan

    @property
    def mean_ratio(self) -> float:
        """Mean of exp(gap)."""
        return 1 + self.weight / self.n if self.n else math.nan

    @property
    def mean_ratio_error(self) -> float:
        """Its standard error over responses: tokens of one response are not independent."""
        return self.sequences.ratio_error(self.n)

    @property
    def multiplicative_error(self) -> float:
        """Mean of exp(|gap|): NeMo-RL's token_mult_prob_error."""
        return 1 + self.exp_abs / self.n if self.n else math.nan

    @property
    def far_share(self) -> float:
        """Share of tokens with |gap| > ln 2."""
        return self.far / self.n if self.n else math.nan

    def correlation_at(self, shift: int) -> float:
        """Correlation of the engine's side with the trainer's, the latter taken `shift` tokens later."""
        return correlation(self.shifted[SHIFTS.index(shift)])

    def _moment(self, power: int) -> float:
        return float(self.moments[power] / self.n) if self.n else math.nan


@dataclass(frozen=True, kw_only=True, eq=False)
class Portrait:
    """The portraits of all steps of a run."""

    steps: Mapping[int, StepPortrait]  # rising
    gap: Gap  # of the most telling kind that every step has
    columns: frozenset[str]  # token columns recorded
    temperatures: tuple[float, ...]  # by which same-prefix differences were multiplied

    @cached_property
    def whole(self) -> StepPortrait:
        """All steps together."""
        return self.of(self.steps)

    def of(self, steps: Iterable[int]) -> StepPortrait:
        """Some steps together.

        Raises:
            ValueError: no step is given.
        """
        chosen = [self.steps[step] for step in steps]
        if not chosen:
            raise ValueError("no step to portray")
        total: StepPortrait = _total(chosen)
        return total

    def over_steps(self, value: Callable[[StepPortrait], float]) -> tuple[NDArray[np.int64], Floats]:
        """A number of each step as arrays (K,): the steps, and the values."""
        return np.array(list(self.steps), np.int64), np.array([value(one) for one in self.steps.values()])


def portray(run: Run, progress: Callable[[int], None] | None = None) -> Portrait | None:
    """The portrait of a run; None where it has no tokens, or none that count.

    Args:
        run: its tokens are streamed, step by step.
        progress: told how many steps are done.
    """
    temperatures = _temperatures(run)
    found: dict[int, StepPortrait] = {}
    gaps: list[Gap] = []
    for count, tokens in enumerate(_step_tokens.steps(run), 1):
        step = portray_step(tokens, temperatures)
        found[tokens.step] = found[tokens.step] + step if tokens.step in found else step
        gaps.append(tokens.gap)
        if progress:
            progress(count)
    if not found or run.tokens is None:
        return None
    worst = max(gaps, key=list(Gap).index)
    return Portrait(steps=dict(sorted(found.items())), gap=worst, columns=run.tokens.columns, temperatures=temperatures)


def portray_step(tokens: StepTokens, temperatures: tuple[float, ...] = (1.0,)) -> StepPortrait:
    """The sums of one step."""
    x = tokens.x[tokens.counted]
    total = tokens.current - tokens.engine if len(tokens.current) else np.full(len(tokens.engine), np.nan)
    known = tokens.counted & np.isfinite(tokens.entropy) if len(tokens.entropy) else np.zeros(len(tokens.engine), bool)
    with np.errstate(over="ignore"):
        weights, sizes = np.expm1(x), np.expm1(np.abs(x))
        return StepPortrait(
            tokens=float(len(tokens.engine)),
            moments=np.array([float((x**power).sum()) for power in range(5)]),
            abs_sum=float(np.abs(x).sum()),
            weight=float(weights.sum()),
            exp_abs=float(sizes.sum()),
            far=float((np.abs(x) > FAR).sum()),
            place=_profiles.by_place(tokens),
            end=_profiles.by_end(tokens),
            surprise=_profiles.by_surprise(tokens),
            place_surprise=_sizes.by_place_and_surprise(tokens),
            size=_sizes.by_size(tokens),
            lag=_profiles.by_lag(tokens, tokens.x, tokens.counted),
            total_lag=_profiles.by_lag(tokens, total, np.isfinite(total)),
            switched=_profiles.switched(tokens),
            version=_profiles.by_version(tokens),
            shifted=_profiles.shifted(tokens),
            entropy=_profiles.products(tokens.entropy[known], tokens.x[known]) if len(tokens.entropy) else np.zeros(6),
            prefix=same_prefix(tokens, temperatures),
            singular=singular(tokens),
            sequences=sequences(tokens),
        )


def _temperatures(run: Run) -> tuple[float, ...]:
    """1, and the sampling temperature where the log says it."""
    said = run.config.get("sampling.temperature")
    own = float(said) if isinstance(said, int | float) and not isinstance(said, bool) and 0 < said < math.inf else 1.0
    return tuple(dict.fromkeys((1.0, own)))


def _total(parts: Sequence[Any]) -> Any:  # noqa: ANN401 - dataclasses of sums, or sums
    """Sum of trees of sums, in one go; tables of sequences are put after one another once, versions joined."""
    first = parts[0]
    if isinstance(first, Sequences):
        return Sequences(**{item.name: np.concatenate([getattr(part, item.name) for part in parts]) for item in fields(first)})
    if isinstance(first, dict):
        return {key: sum(part[key] for part in parts if key in part) for key in sorted(set().union(*parts))}
    if hasattr(first, "__dataclass_fields__"):
        return type(first)(**{item.name: _total([getattr(part, item.name) for part in parts]) for item in fields(first)})
    return sum(parts[1:], start=first)
