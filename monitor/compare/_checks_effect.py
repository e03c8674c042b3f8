"""What a term of the mismatch does beside the reference: whether it leaves it, from the first step or later, and whether it grows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from monitor.compare.divergence import ALLOWED, Divergence, deviation, first_divergence
from monitor.compare.pairs import Pair, pair
from monitor.compare.parity import PARITY, Parity, parity
from monitor.compare.reference import reference

# The statistic of a term that is read: the first that all logs have. All are 0 at no mismatch and rise with it.
DISCREPANCY = (
    "log_ratio.discrepancy.abs_mean",
    "kl.discrepancy.k3",
    "kl.discrepancy.k2",
    "log_ratio.discrepancy.sd",
    "log_ratio.discrepancy.exp_abs_mean",
    "prob_diff.discrepancy.abs_mean",
)
LAG = ("log_ratio.lag.abs_mean", "kl.lag.k3", "kl.lag.k2", "log_ratio.lag.sd")
VERSIONS = ("version_lag.mean", "version_lag.max")

FIRST = 5  # comparable steps that are the beginning: the memory of the smoothing, as in the headline
GROWTH = 1.5  # times the excess at the beginning; field report A11: a stale path grew threefold in 30 steps, a wrong setting stayed flat
RECORD = "record same_weights_logprob, the trainer's log-probability under the weights that sampled the token"
BOUND = "split: upper bound"  # the discrepancy of such a log holds part of the lag


@dataclass(frozen=True, kw_only=True)
class Effect:
    """One term of a candidate beside its reference."""

    term: str  # in words
    metric: str = ""  # "" where nothing of it can be compared
    why: str = ""  # why nothing can
    left: Divergence | None = None
    parity: Parity | None = None
    seeds: int = 0
    early: float = np.nan  # candidate minus the reference's centre, mean of the first `FIRST` comparable steps
    late: float = np.nan  # the same of the last third
    noise: float = np.nan  # of the reference, mean over the comparable steps
    span: tuple[int, int] = (0, 0)  # first and last comparable step
    ends: tuple[int, int] = (0, 0)  # last step of the beginning, first step of the last third; the same where there are too few steps
    bound: bool = False  # it holds part of the lag as well

    @property
    def told(self) -> bool:
        """Whether the logs can say anything about it."""
        return bool(self.metric)

    @property
    def raised(self) -> bool:
        """Whether it left the reference, upwards."""
        return self.left is not None and self.left.direction == "above"

    @property
    def off(self) -> bool:
        """Whether it is seen not to be at parity: it left, or lies beyond the yardstick."""
        return self.left is not None or (self.parity is not None and self.parity.value > PARITY)

    @property
    def near(self) -> bool:
        """Whether it is seen to be at parity: told, not left, and within the yardstick."""
        return self.left is None and self.parity is not None and self.parity.value <= PARITY

    @property
    def at_once(self) -> bool:
        """Whether it is up from the first step on, as what does not wait for weights to move is."""
        early = self.early > ALLOWED * self.noise and not self.grows
        return self.raised and bool(early or (self.left is not None and self.left.at_once))

    @property
    def grows(self) -> bool:
        """Whether its excess is clearly larger at the end than at the beginning; False where the log is too short to tell."""
        told = self.ends[1] > self.ends[0]
        return self.raised and told and self.late - self.early > ALLOWED * self.noise and self.late > GROWTH * max(self.early, 0.0)

    def says(self) -> tuple[str, ...]:
        """What was seen, as sentences with metric, value, threshold and steps."""
        if not self.told or self.parity is None:
            return (f"the {self.term} cannot be compared ({self.why}): {RECORD}",)
        yardstick = "the distance between two reference seeds" if self.seeds > 1 else "the one reference's own noise, estimated"
        far = f"{self.parity.value:.3g} times {yardstick}, at most {PARITY:g} is parity"
        first, last = self.span
        if self.left is None:
            return (f"{self.metric} does not leave the reference from step {first} to {last}: {far}",)
        when = f"at its first step ({self.left.step})" if self.left.at_once else f"at step {self.left.step}"
        held = "; it holds part of the lag: record same_weights_logprob to separate it" if self.bound else ""
        return (
            f"{self.metric} leaves the reference {when}, certain at {self.left.alarm_step}, {self.left.direction}: {far}{held}",
            self._shape(),
        )

    def _shape(self) -> str:
        (first, last), (early, late) = self.span, self.ends
        begins = f"{self.metric} exceeds the reference by {self.early:.2g} at steps {first} to {early}"
        noise = f"{ALLOWED:g} times the reference's noise is {ALLOWED * self.noise:.2g}"
        if late <= early:
            return f"{begins}, where {noise}: too few steps to see whether it grows"
        trend = "it grows" if self.grows else "it does not grow"
        return f"{begins} and by {self.late:.2g} at steps {late} to {last}, where {noise}: {trend}"


def effect(term: str, metrics: Sequence[str], candidate: pa.Table, references: dict[str, pa.Table]) -> Effect:
    """The term by the first of the metrics that can be compared.

    Args:
        term: in words.
        metrics: ids, the preferred first.
        candidate: metric frame.
        references: metric frames of the reference's runs.
    """
    reasons: list[str] = []
    for metric in metrics:
        found = pair(candidate, references, metric)
        if isinstance(found, Pair):
            return _of(term, found)
        reasons.append(found)
    return Effect(term=term, why=next((each for each in reasons if "log" not in each), reasons[0]))  # another reason than absence, if any


def _of(term: str, found: Pair) -> Effect:
    against = reference(found.seeds, found.own.steps)
    gap = found.own.values - against.centre
    known = np.flatnonzero(np.isfinite(gap))
    beginning = known[:FIRST]
    end = known[-(known.size // 3) :] if known.size >= 3 * FIRST else beginning
    steps = found.own.steps
    return Effect(
        term=term,
        metric=found.own.metric,
        left=first_divergence(found.own.metric, deviation(found.own, against)),
        parity=parity(found.own.metric, found.own, found.seeds),
        seeds=len(found.seeds),
        early=float(gap[beginning].mean()),
        late=float(gap[end].mean()),
        noise=float(against.noise[known].mean()),
        span=(int(steps[known[0]]), int(steps[known[-1]])),
        ends=(int(steps[beginning[-1]]), int(steps[end[0]])),
        bound=BOUND in found.own.caveat,
    )
