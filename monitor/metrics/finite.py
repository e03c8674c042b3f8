"""How many tokens carry a log-probability that cannot be one, by the side that produced it, and how many rows repeat another."""

from __future__ import annotations

from functools import partial

from monitor.metrics.metric import Metric, StepView, Value
from monitor.metrics.partial import POSITIVE, Count
from monitor.metrics.terms import Level


def nonfinite(side: Count, view: StepView) -> Value | None:
    """Masked-in tokens whose log-probability is NaN or infinite on one side; n is the number of masked-in tokens.

    A count, at least 0, never clamped away: such tokens are left out of every ratio. A token bad on both sides counts in both.
    0 at no mismatch. Definitions, section 3. Oracle: `oracles.nonfinite`.
    """
    return Value(value=float(view.partial.counts[side]), n=int(view.partial.counts[Count.MASKED_IN]))


def positive(side: Count, view: StepView) -> Value | None:
    """Masked-in tokens whose log-probability is finite and above 0 on one side; n is the number of masked-in tokens.

    A count, at least 0. No probability is above 1, so such a value is something else, most often a negative log-likelihood. It still
    enters every sum as it is: nothing is clamped. Above 1e-6 nats only, so that the rounding of a certain token does not count. 0 at no
    mismatch. Definitions, section 1. Oracle: `oracles.positive`.
    """
    return Value(value=float(view.partial.counts[side]), n=int(view.partial.counts[Count.MASKED_IN]))


def repeated(view: StepView) -> Value | None:
    """Masked-in rows whose response and position an earlier row of the step has; n is the number of masked-in tokens.

    A count, at least 0; such rows were logged twice, or are of two responses that share a sample_id (ranks that each count from 0).
    They enter every sum, so the numbers of the step are suspect. Only where every row has a position. 0 at no mismatch. Oracle:
    `oracles.repeated`.
    """
    if not view.complete(Count.POSITION_ROWS):
        return None
    return Value(value=float(view.partial.counts[Count.REPEATED_ROWS]), n=int(view.partial.counts[Count.MASKED_IN]))


def _positive(name: str, title: str, side: Count, needs: tuple[str, ...]) -> Metric:
    return Metric(
        id=f"positive.{name}",
        title=title,
        unit="tokens",
        formula=f"count of masked-in tokens with a finite log-probability above {POSITIVE:g}",
        low=0.0,
        level=Level.STEP,
        direction="0",
        no_mismatch=0.0,
        blind_to="values that are below 0 and wrong",
        reference="definitions, section 1",
        needs=needs,
        compute=partial(positive, side),
    )


_REPEATED = Metric(
    id="repeated.rows",
    title="rows that repeat a position of a response",
    unit="tokens",
    formula="count of masked-in rows whose (step, sample_id, position) an earlier row has",
    low=0.0,
    level=Level.STEP,
    direction="0",
    no_mismatch=0.0,
    blind_to="responses that share a sample_id without sharing a position; logs without positions",
    reference="docs/token_log.md",
    needs=("step", "sample_id", "position"),
    compute=repeated,
)


def _metric(name: str, title: str, side: Count, needs: tuple[str, ...]) -> Metric:
    return Metric(
        id=f"nonfinite.{name}",
        title=title,
        unit="tokens",
        formula="count of masked-in tokens with a log-probability that is NaN or infinite",
        low=0.0,
        level=Level.STEP,
        direction="0",
        no_mismatch=0.0,
        blind_to="values that are finite and wrong",
        reference="definitions, section 3",
        needs=needs,
        compute=partial(nonfinite, side),
    )


METRICS = (
    _metric("engine", "non-finite engine log-probabilities", Count.NONFINITE_ENGINE, ("rollout_logprob",)),
    _metric("trainer", "non-finite trainer log-probabilities", Count.NONFINITE_TRAINER, ("same_weights_logprob", "current_logprob")),
    _positive("engine", "engine log-probabilities above 0", Count.POSITIVE_ENGINE, ("rollout_logprob",)),
    _positive("trainer", "trainer log-probabilities above 0", Count.POSITIVE_TRAINER, ("same_weights_logprob", "current_logprob")),
    _REPEATED,
)
