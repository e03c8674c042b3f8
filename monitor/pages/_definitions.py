"""What a metric means, in the few lines that are shown while the pointer is over its title."""

from __future__ import annotations

from monitor.metrics.glossary import METRICS


def definitions() -> dict[str, tuple[str, ...]]:
    """A few lines per metric id, for the title of its strip."""
    return {metric.id: (f"{metric.title} [{metric.unit}]", metric.formula, f"better: {metric.direction}") for metric in METRICS}
