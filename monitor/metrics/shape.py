"""What the batch looks like besides its ratios: entropy, reward, response length, and how many tokens and responses there are."""

from __future__ import annotations

import math
from collections.abc import Callable

from monitor.metrics import spread
from monitor.metrics.metric import Metric, StepView, Value
from monitor.metrics.partial import Count, Sum
from monitor.metrics.terms import Level


def entropy(view: StepView) -> Value | None:
    """How spread out the distributions were that the tokens were sampled from.

    mean(entropy_T) over masked-in tokens, nats, at least 0. Not finite values are left out and counted in the caveat. Empty
    mask: NaN, n = 0. Definitions, section 4. Oracle: `oracles.mean`.
    """
    counts, sums = view.partial.counts, view.partial.sums
    if not counts[Count.ENTROPY_ROWS]:
        return None
    n = int(counts[Count.ENTROPY_N])
    left_out = int(counts[Count.MASKED_IN]) - n if view.complete(Count.ENTROPY_ROWS) else 0
    return spread.mean(n, float(sums[Sum.ENTROPY]), float(sums[Sum.ENTROPY_SQ]), caveat=_left_out(left_out, "tokens"))


def reward(view: StepView) -> Value | None:
    """How well the responses did.

    mean over responses with a masked-in token of the response's reward; standard error over responses. Responses whose reward is
    not finite are left out and counted in the caveat. Empty mask: NaN, n = 0. Oracle: `oracles.reward`.
    """
    if not view.partial.counts[Count.REWARD_ROWS]:
        return None
    table = view.partial.sequences
    seen = table["reward_n"] > 0
    reward_S = table["reward"][seen] / table["reward_n"][seen]
    return spread.mean(len(reward_S), float(reward_S.sum()), float((reward_S**2).sum()), caveat=_left_out(int((~seen).sum()), "responses"))


def length(view: StepView) -> Value | None:
    """Mean number of masked-in tokens of a response; responses without one do not count. Empty mask: NaN, n = 0. Oracle: `oracles.mean`."""
    length_S = view.partial.sequences["length"].astype(float)
    return spread.mean(len(length_S), float(length_S.sum()), float((length_S**2).sum()))


def tokens(view: StepView) -> Value | None:
    """How many tokens count in the step (masked in, finite or not): a count, 0 where the mask is empty."""
    n = int(view.partial.counts[Count.MASKED_IN])
    return Value(value=float(n), n=n)


def sequences(view: StepView) -> Value | None:
    """How many responses have a token that counts: a count, 0 where the mask is empty."""
    n = len(view.partial.sequences["sample_id"])
    return Value(value=float(n), n=n)


def _left_out(count: int, what: str) -> str:
    return f"{count} {what} without a finite value left out" if count else ""


def _metric(  # noqa: PLR0913, PLR0917 - the fields in which the rows differ
    name: str,
    title: str,
    unit: str,
    formula: str,
    compute: Callable[[StepView], Value | None],
    needs: tuple[str, ...],
    level: Level,
    low: float = 0.0,
) -> Metric:
    return Metric(
        id=name,
        title=title,
        unit=unit,
        formula=formula,
        low=low,
        level=level,
        direction="like the reference",
        no_mismatch=None,
        blind_to="engine and trainer: it describes the batch",
        reference="definitions, section 4",
        needs=needs,
        compute=compute,
    )


METRICS = (
    _metric("entropy.mean", "entropy", "nats", "mean(entropy)", entropy, ("entropy",), Level.TOKEN),
    _metric("reward.mean", "reward", "as trained with", "mean over responses", reward, ("reward",), Level.SEQUENCE, -math.inf),
    _metric("response_length.mean", "response length", "tokens", "mean over responses of masked-in tokens", length, (), Level.SEQUENCE),
    _metric("tokens.count", "tokens", "tokens", "count of masked-in tokens", tokens, (), Level.STEP),
    _metric("sequences.count", "responses", "responses", "count of responses with a masked-in token", sequences, (), Level.STEP),
)
