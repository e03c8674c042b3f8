"""What a correction reports: the metrics of the three ratios, by the ids of the glossary, and what it did to its weights."""

from __future__ import annotations

import torch
from torch import Tensor

from monitor.corrections._layout import Layout
from monitor.corrections._weights import SIDES, Tokens
from monitor.corrections.batch import Batch
from monitor.metrics.bounds import ClipBounds
from monitor.metrics.terms import Level, Ratio

BOUNDS = ClipBounds()


@torch.no_grad()
def diagnostics(batch: Batch, tokens: Tokens, **own: Tensor) -> dict[str, Tensor]:
    """Metrics of every ratio that the batch has the columns for, and `correction.<name>` for each of `own`."""
    advantages = tokens.layout.per_token(batch.advantages.detach())
    recorded = [column.detach() for column in (batch.current, batch.same_weights, batch.rollout) if column is not None]
    # Like `monitor.metrics`: a token counts where all that was recorded of it is finite, whatever the loss needs or leaves out.
    counted = batch.mask & torch.stack([column.isfinite() for column in recorded]).all(0)
    found: dict[str, Tensor] = {}
    for ratio, columns in SIDES.items():
        if all(getattr(batch, name) is not None for name in columns):
            x = batch.column(columns[0]).double() - batch.column(columns[1]).double()
            found |= _of_ratio(ratio, torch.where(counted, x, 0.0), counted, tokens.layout, advantages)
    kept = {"nonfinite": tokens.nonfinite} | own
    return found | {f"correction.{name}": value.detach().double() for name, value in kept.items()}


@torch.no_grad()
def share(hit: Tensor, of: Tensor) -> Tensor:
    """Which share of `of` is hit, both bool; NaN where `of` is empty."""
    return (hit & of).sum().double() / of.sum().double()


@torch.no_grad()
def heaviest_sequence(tokens: Tokens, weights: Tensor) -> Tensor:
    """Share of the absolute weight, summed over tokens, that one sequence carries; NaN where there is none."""
    carried = tokens.layout.total(torch.where(tokens.counted, weights.detach().abs(), 0.0))
    if carried.shape[0] == 0:
        return carried.new_full((), torch.nan)
    return carried.max() / carried.sum()


def ess(x: Tensor, seen: Tensor) -> Tensor:
    """(sum w)^2 / (n sum w^2) of w = exp(x) where seen, in log space, so that no x overflows; NaN where nothing is seen."""
    return (2 * _log_sum(x, seen) - _log_sum(2 * x, seen) - seen.sum().double().log()).exp()


def _of_ratio(ratio: Ratio, x: Tensor, counted: Tensor, layout: Layout, advantages: Tensor) -> dict[str, Tensor]:
    """The metrics of one log ratio x, which is 0 where not counted."""
    of_sequences, means = layout.total(counted.double()) > 0, layout.mean(x, counted)
    (low, high), (sequence_low, sequence_high) = BOUNDS.token, BOUNDS.sequence
    dropped = ((advantages > 0) & (x > high)) | ((advantages < 0) & (x < low))
    return {
        f"ess.{ratio}.{Level.TOKEN}": ess(x, counted),
        f"ess.{ratio}.{Level.SEQUENCE}": ess(layout.total(x), of_sequences),
        f"ess.{ratio}.{Level.SEQUENCE_MEAN}": ess(means, of_sequences),
        f"ratio.{ratio}.mean": (_log_sum(x, counted) - counted.sum().double().log()).exp(),
        f"clip_rate.{ratio}.outside": share((x < low) | (x > high), counted),
        f"clip_rate.{ratio}.effective": share(dropped, counted & advantages.isfinite()),
        f"clip_rate.{ratio}.sequence": share((means < sequence_low) | (means > sequence_high), of_sequences),
    }


def _log_sum(x: Tensor, seen: Tensor) -> Tensor:
    """The log of sum exp(x) where seen; -inf where nothing is."""
    return torch.logsumexp(torch.where(seen, x, -torch.inf).flatten(), 0) if x.numel() else x.new_full((), -torch.inf)
