"""Quantities that only a framework's own log has; nothing here is computed from tokens."""

from __future__ import annotations

import math

from monitor.metrics.metric import Metric
from monitor.metrics.terms import Level

ENDS = ("min", "max")
POLICIES = ("rollout", "old", "current", "ref")
SAMPLES_SINCE = "samples trained on since the weights were pushed to the engine"


def log_only(  # noqa: PLR0913 - the fields in which the rows differ
    name: str, title: str, unit: str, formula: str, *, low: float = -math.inf, high: float = math.inf, direction: str = ""
) -> Metric:
    """A row of the glossary for a quantity that is believed from a log and never computed here."""
    return Metric(
        id=name,
        title=title,
        unit=unit,
        formula=formula,
        low=low,
        high=high,
        level=Level.STEP,
        direction=direction or "like the reference",
        no_mismatch=None,
        blind_to="whatever the framework's own definition leaves out; the caveat of each row says what is known",
        reference="the framework's log",
    )


METRICS = (
    log_only("objective.loss", "loss", "as logged", "the framework's loss"),
    log_only("grad_norm.global", "gradient norm", "as logged", "L2 norm of the gradient before clipping", low=0.0, direction="no spikes"),
    log_only("learning_rate.value", "learning rate", "per optimizer step", "the schedule's value", low=0.0),
    log_only("samples.count", "samples trained on", "samples", "count since the start of the run", low=0.0),
    log_only("kl_ref.k1", "KL to the reference model (k1)", "nats", "mean(log pi - log pi_ref)"),
    log_only("kl_ref.k3", "KL to the reference model (k3)", "nats", "mean(w - 1 - log w), w = pi_ref / pi", low=0.0),
    *(log_only(f"kl_ref.{end}", f"{end} KL to the reference model", "nats", f"{end} over the batch") for end in ENDS),
    *(log_only(f"reward.{end}", f"{end} reward", "as trained with", f"{end} over responses") for end in ENDS),
    *(log_only(f"response_length.{end}", f"{end} response length", "tokens", f"{end} over responses", low=0.0) for end in ENDS),
    *(log_only(f"advantage.{end}", f"{end} advantage", "as trained with", f"{end} over the batch") for end in (*ENDS, "mean")),
    *(log_only(f"logprob.{who}.mean", f"mean log-probability, {who}", "nats", "mean(log p)", high=0.0) for who in POLICIES),
    log_only("ratio.total.sum", "sum of the ratios, total", "", "sum(w)", low=0.0),
    log_only("ratio.total.squared_sum", "sum of the squared ratios, total", "", "sum(w^2)", low=0.0),
    *(log_only(f"version_lag_samples.{of}", f"{of} version lag, in samples", "samples", SAMPLES_SINCE, low=0.0) for of in ("max", "mean")),
)
