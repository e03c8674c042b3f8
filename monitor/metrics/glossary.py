"""Every metric this project knows, by id: the families computed from tokens, and what is only ever logged."""

from __future__ import annotations

from dataclasses import replace

from monitor.metrics import clip, ess, finite, kl, lag, log_ratio, logged, logged_batch, logged_ratios, ratio, shape, split
from monitor.metrics.metric import Metric

FAMILIES = (log_ratio, ratio, kl, clip, ess, split, lag, shape, finite, logged, logged_batch, logged_ratios)
# The envelope that an export of grouped runs has beside each line.
ENVELOPE = {".group_low": "lowest run of the group", ".group_high": "highest run of the group"}

METRICS: tuple[Metric, ...] = tuple(metric for family in FAMILIES for metric in family.METRICS)
_BY_ID = {metric.id: metric for metric in METRICS}


def metric(name: str) -> Metric:
    """The row of the glossary with this id, also for the envelope of a grouped export.

    Raises:
        KeyError: no such metric.
    """
    for suffix, words in ENVELOPE.items():
        if name.endswith(suffix):
            row = _BY_ID[name.removesuffix(suffix)]
            return replace(row, id=name, title=f"{row.title} ({words})", compute=None)
    return _BY_ID[name]


def known(name: str) -> bool:
    """Whether the glossary has the id."""
    return any(name.removesuffix(suffix) in _BY_ID for suffix in ("", *ENVELOPE))
