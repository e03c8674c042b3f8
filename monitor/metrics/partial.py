"""What one pass over some tokens of one step leaves behind: counts, sums, extremes, histograms and a table of sequences.

Everything here adds (or takes a minimum or maximum) over files, cores and machines; nothing has been divided yet. An empty
partial is the identity. Sequences are keyed by `sample_id`, so that a sequence cut over two parts is one sequence again.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import IntEnum, auto
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from monitor.metrics.histogram import BINS
from monitor.metrics.terms import RATIOS

KERNEL_VERSION = 2  # raise it whenever a stored partial would no longer mean the same
NEAR = 1.0  # nats: weights of |x| up to here are summed as expm1(x), the others in log space as well
HUGE = 300.0  # nats: beyond it exp(2x) leaves float64, so only the log-space pair holds the weight
POSITIVE = 1e-6  # nats: a log-probability above it is no log-probability; float32 rounding stays far below
LAG_BINS = 67  # one negative, lags 0 to 64, one for more
NO_LOWEST, NO_HIGHEST = np.iinfo(np.int64).max, np.iinfo(np.int64).min


class _Index(IntEnum):
    @staticmethod
    def _generate_next_value_(name: str, start: int, count: int, last_values: list[int]) -> int:  # noqa: ARG004 - the signature is Enum's
        return count


class Count(_Index):
    """Token counts of the step; `*_ROWS` count rows in which a column exists, masked or not."""

    ROWS = auto()
    MASKED_IN = auto()
    ROLLOUT_ROWS = auto()
    SAME_WEIGHTS_ROWS = auto()
    OLD_ROWS = auto()  # rows in which old_logprob stands for a missing same_weights_logprob
    CURRENT_ROWS = auto()
    ADVANTAGE_ROWS = auto()
    REWARD_ROWS = auto()
    ENTROPY_ROWS = auto()
    ROLLOUT_VERSION_ROWS = auto()
    LAG_ROWS = auto()  # rows with both rollout_version and trainer_version
    OLD_VERSION_ROWS = auto()
    NONFINITE_ENGINE = auto()
    NONFINITE_TRAINER = auto()
    ENTROPY_N = auto()  # masked-in tokens with a finite entropy
    LAG_SUM = auto()  # versions
    NOT_OLD_VERSION = auto()  # masked-in tokens sampled under other weights than old_version
    POSITIVE_ENGINE = auto()  # masked-in tokens whose log-probability is finite and above POSITIVE
    POSITIVE_TRAINER = auto()
    POSITION_ROWS = auto()
    REPEATED_ROWS = auto()  # masked-in rows whose sample_id and position an earlier row has; the engine counts those of other pieces


class Sum(_Index):
    """Float sums of the step."""

    ENTROPY = auto()
    ENTROPY_SQ = auto()


class RatioCount(_Index):
    """Token counts per ratio."""

    N = auto()
    FAR = auto()  # |x| > NEAR
    LOW = auto()  # ratio under 1 - eps_low
    HIGH = auto()  # ratio over 1 + eps_high
    EFFECTIVE = auto()  # gradient dropped by PPO
    ADVANTAGE_N = auto()  # tokens whose advantage is finite


class RatioSum(_Index):
    """Float sums per ratio, over the finite masked-in tokens; w = exp(x), e = expm1(x), k3 = e - x."""

    X = auto()
    ABS = auto()
    X2 = auto()
    X4 = auto()
    K3 = auto()
    K3_SQ = auto()
    NEAR_E = auto()  # e over |x| <= NEAR
    NEAR_E2 = auto()
    MID_E = auto()  # e over |x| > NEAR and x <= HUGE
    MID_E2 = auto()


class Far(_Index):
    """Weights with |x| > NEAR, in log space: their maximum m, sum of e^(x-m), sum of e^(2(x-m))."""

    MAX = auto()
    S1 = auto()
    S2 = auto()


class Version(_Index):
    """Quantities whose lowest and highest value is kept."""

    ROLLOUT = auto()
    TRAINER = auto()
    LAG = auto()


SEQUENCE_COLUMNS: dict[str, type[np.generic]] = {
    "sample_id": np.int64,
    "length": np.int64,  # masked-in tokens
    "finite": np.int64,  # tokens that entered the log-ratio sums
    "total": np.float64,
    "discrepancy": np.float64,
    "lag": np.float64,
    "reward": np.float64,  # sum over its masked-in tokens with a finite reward
    "reward_n": np.int64,
    "version_lowest": np.int64,
    "version_highest": np.int64,
    "position_lowest": np.int64,  # of its masked-in tokens; NO_LOWEST and NO_HIGHEST where positions were not recorded
    "position_highest": np.int64,
}

Sequences = dict[str, NDArray[Any]]


@dataclass(frozen=True, kw_only=True, eq=False)
class StepPartial:
    """Partial sums of one step. Rows of every per-ratio array follow `terms.RATIOS`."""

    step: int
    counts: NDArray[np.int64]  # (len(Count),)
    sums: NDArray[np.float64]  # (len(Sum),)
    lowest: NDArray[np.int64]  # (len(Version),), NO_LOWEST where nothing was seen
    highest: NDArray[np.int64]
    lag_bins: NDArray[np.int64]  # (LAG_BINS,)
    ratio_counts: NDArray[np.int64]  # (3, len(RatioCount))
    ratio_sums: NDArray[np.float64]  # (3, len(RatioSum))
    ratio_lowest: NDArray[np.float64]  # (3,) nats, +inf where nothing was seen
    ratio_highest: NDArray[np.float64]
    far: NDArray[np.float64]  # (3, len(Far))
    histograms: NDArray[np.int64]  # (3, BINS)
    sequences: Sequences  # sorted by sample_id, each once; only sequences with a masked-in token

    @classmethod
    def empty(cls, step: int) -> Self:
        """The identity of `merge`."""
        ratios = len(RATIOS)
        far = np.zeros((ratios, len(Far)))
        far[:, Far.MAX] = -np.inf
        return cls(
            step=step,
            counts=np.zeros(len(Count), np.int64),
            sums=np.zeros(len(Sum)),
            lowest=np.full(len(Version), NO_LOWEST, np.int64),
            highest=np.full(len(Version), NO_HIGHEST, np.int64),
            lag_bins=np.zeros(LAG_BINS, np.int64),
            ratio_counts=np.zeros((ratios, len(RatioCount)), np.int64),
            ratio_sums=np.zeros((ratios, len(RatioSum))),
            ratio_lowest=np.full(ratios, np.inf),
            ratio_highest=np.full(ratios, -np.inf),
            far=far,
            histograms=np.zeros((ratios, BINS), np.int64),
            sequences={name: np.zeros(0, kind) for name, kind in SEQUENCE_COLUMNS.items()},
        )

    def may_repeat(self, other: StepPartial) -> bool:
        """Whether some sequence has positions in both whose ranges overlap; only then can a row of one repeat a row of the other."""
        mine, others = self.sequences, other.sequences
        if not len(mine["sample_id"]) or not len(others["sample_id"]):
            return False
        at = np.minimum(np.searchsorted(mine["sample_id"], others["sample_id"]), len(mine["sample_id"]) - 1)
        same = mine["sample_id"][at] == others["sample_id"]
        first = np.maximum(mine["position_lowest"][at], others["position_lowest"])
        last = np.minimum(mine["position_highest"][at], others["position_highest"])
        return bool(np.any(same & (first <= last)))

    def merge(self, other: StepPartial) -> StepPartial:
        """Both together; associative and, up to the rounding of float sums, commutative."""
        if self.step != other.step:
            raise ValueError(f"partials of different steps do not add: {self.step} and {other.step}")
        merged = {item.name: _MERGE[item.name](getattr(self, item.name), getattr(other, item.name)) for item in fields(self)}
        return StepPartial(**merged)


def merge_far(one: NDArray[np.float64], two: NDArray[np.float64]) -> NDArray[np.float64]:
    """Join two (max, sum, sum of squares) triples per row; an empty one (max = -inf) is passed over, never subtracted from."""
    top = np.maximum(one[:, Far.MAX], two[:, Far.MAX])
    joined = np.zeros_like(one)
    joined[:, Far.MAX] = top
    for part in (one, two):
        seen = part[:, Far.MAX] > -np.inf
        scale = np.exp(np.where(seen, part[:, Far.MAX], 0.0) - np.where(seen, top, 0.0))
        joined[:, Far.S1] += np.where(seen, part[:, Far.S1] * scale, 0.0)
        joined[:, Far.S2] += np.where(seen, part[:, Far.S2] * scale * scale, 0.0)
    return joined


def join_sequences(one: Sequences, two: Sequences) -> Sequences:
    """One table of both, each `sample_id` once, sums added and extremes taken."""
    return collapse({name: np.concatenate([one[name], two[name]]) for name in SEQUENCE_COLUMNS})


def collapse(rows: Sequences) -> Sequences:
    """Sort by `sample_id` (stable, so that sums are made in the order the pieces came) and join equal ones."""
    order = np.argsort(rows["sample_id"], kind="stable")
    ids = rows["sample_id"][order]
    if not len(ids):
        return {name: column[order] for name, column in rows.items()}
    starts = np.flatnonzero(np.r_[True, ids[1:] != ids[:-1]])
    joined: Sequences = {"sample_id": ids[starts]}
    for name in SEQUENCE_COLUMNS:
        if name != "sample_id":
            joined[name] = _JOIN.get(name, np.add).reduceat(rows[name][order], starts)
    return joined


_JOIN = {
    "version_lowest": np.minimum,
    "version_highest": np.maximum,
    "position_lowest": np.minimum,
    "position_highest": np.maximum,
}
_MERGE: dict[str, Any] = {
    "step": lambda one, _: one,
    "counts": np.add,
    "sums": np.add,
    "lowest": np.minimum,
    "highest": np.maximum,
    "lag_bins": np.add,
    "ratio_counts": np.add,
    "ratio_sums": np.add,
    "ratio_lowest": np.minimum,
    "ratio_highest": np.maximum,
    "far": merge_far,
    "histograms": np.add,
    "sequences": join_sequences,
}
