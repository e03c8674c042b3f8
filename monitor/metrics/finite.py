"""How many tokens carry a log-probability that is not a number, by the side that produced it; they enter no ratio."""

from __future__ import annotations

from functools import partial

from monitor.metrics.metric import Metric, StepView, Value
from monitor.metrics.partial import Count
from monitor.metrics.terms import Level


def nonfinite(side: Count, view: StepView) -> Value | None:
    """Masked-in tokens whose log-probability is NaN or infinite on one side; n is the number of masked-in tokens.

    A count, at least 0, never clamped away: such tokens are left out of every ratio. A token bad on both sides counts in both.
    0 at no mismatch. Definitions, section 3. Oracle: `oracles.nonfinite`.
    """
    return Value(value=float(view.partial.counts[side]), n=int(view.partial.counts[Count.MASKED_IN]))


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
)
