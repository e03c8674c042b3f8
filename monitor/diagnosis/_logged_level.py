"""How the gap moves in a step log without tokens: one level that rises step over step, or jumps once, of whichever metric the log has."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from monitor.diagnosis._idle_loss import idle_loss
from monitor.diagnosis.case import Case
from monitor.diagnosis.trend import Growth, Jump, growth, jump
from monitor.metrics.series import Series

Floats = NDArray[np.float64]

METRICS = (
    "log_ratio.discrepancy.abs_mean",
    "log_ratio.discrepancy.sequence_abs_mean",
    "log_ratio.discrepancy.exp_abs_mean",
    "log_ratio.discrepancy.sequence_exp_abs_mean",
    "prob_diff.discrepancy.abs_mean",
    "kl.discrepancy.k3",
)
FEWEST = 8  # values for a trend
RISE, SURE, MOSTLY = 2.0, 5.0, 0.5  # factor between the ends, standard errors of Kendall's tau, and tau itself
IDLE = 100.0  # factor beyond which a gap that nothing in the loss sees has its own verdict
JUMP = 10.0  # times the level before
GARBAGE, DAMAGE = 1.0, 0.1  # nats: tokens that the trainer gives a third of the engine's probability or less; and a tenth off
GOES_ON = 2.0  # factor between the first and the last values after a jump, from which it has not stayed
FEW_AFTER = 3  # values after a jump, to say whether it stays
BOUND, UNLESS = "upper bound: contains the discrepancy and part of the lag", "unless the run is synchronous"


class Move(StrEnum):
    """What the level does."""

    UNKNOWN = "too few values"
    FLAT = "flat"
    RISE = "rises step over step"
    JUMP_AND_STAY = "jumps once and stays"
    JUMP_AND_GROW = "jumps and moves on from there"


@dataclass(frozen=True, kw_only=True, eq=False)
class Logged:
    """The level of a step log over its steps."""

    series: Series
    size: Floats  # (K,) nats, or a difference of probabilities: 0 without a gap
    trend: Growth
    step_up: Jump | None
    move: Move
    with_lag: bool  # the log says that part of the lag is in it

    @property
    def jumps(self) -> bool:
        """Whether it changes all at once."""
        return self.move in (Move.JUMP_AND_STAY, Move.JUMP_AND_GROW)

    @property
    def before(self) -> float:
        """The level before the jump, or in the first fifth of the steps."""
        return self.step_up.before if self.jumps and self.step_up else self.trend.early

    @property
    def after(self) -> float:
        """The level after the jump, or in the last fifth of the steps."""
        return self.step_up.after if self.jumps and self.step_up else self.trend.late

    @property
    def jump_step(self) -> int:
        """The step at which it jumps."""
        steps = self.series.steps[np.isfinite(self.size)]
        return int(steps[self.step_up.index]) if self.step_up else int(steps[0])


def logged(case: Case) -> Logged | None:
    """The level of the run; None where the log has no metric of the discrepancy."""
    found = case.series(*METRICS)
    if not np.isfinite(found.values).any():
        return None
    size = _size(found)
    trend, step_up = growth(size), jump(size)
    return Logged(
        series=found,
        size=size,
        trend=trend,
        step_up=step_up,
        move=_move(case, size, trend, step_up),
        with_lag=BOUND in found.caveat and UNLESS not in found.caveat,
    )


def _size(found: Series) -> Floats:
    """As a number that is 0 where the sides agree: a KL goes with the square of the gap."""
    if found.metric.endswith("exp_abs_mean"):
        return found.values - 1
    if found.metric.endswith(".k3"):
        return np.asarray(np.sqrt(2 * np.maximum(found.values, 0.0)), np.float64)
    return np.abs(found.values)


def _move(case: Case, size: Floats, trend: Growth, step_up: Jump | None) -> Move:
    finite = size[np.isfinite(size)]
    if step_up and step_up.factor >= JUMP and step_up.after > DAMAGE:
        after = finite[step_up.index :]
        if len(after) < FEW_AFTER:
            return Move.JUMP_AND_STAY if step_up.after >= GARBAGE else Move.JUMP_AND_GROW
        at_once = after[:FEW_AFTER].max() > JUMP / 2 * step_up.before
        goes_on = np.median(after[-FEW_AFTER:]) > GOES_ON * np.median(after[:FEW_AFTER])
        if at_once and (goes_on or step_up.steady):
            return Move.JUMP_AND_GROW if goes_on else Move.JUMP_AND_STAY
    if len(finite) < FEWEST:
        return Move.UNKNOWN if len(finite) < FEW_AFTER else Move.FLAT
    rises = trend.z > SURE and trend.tau > MOSTLY and trend.factor > RISE * _usual(case)
    idle = trend.factor > IDLE and idle_loss(case) is not None
    return Move.RISE if rises and not idle else Move.FLAT


def _usual(case: Case) -> float:
    """By which factor the gap would grow in any run: with the entropy of the policy, or with minus its mean log-probability; at least 1."""
    found = [growth(np.abs(case.series(metric).values)).factor for metric in ("entropy.mean", "logprob.rollout.mean")]
    return max([1.0, *(factor for factor in found if np.isfinite(factor))])
