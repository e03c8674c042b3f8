"""An objective times a constant weight, as truncated and masked importance sampling have it."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from monitor.corrections._diagnostics import diagnostics, heaviest_sequence, share
from monitor.corrections._options import WEIGHT_LEVELS, settle
from monitor.corrections._weights import Tokens, sides
from monitor.corrections.batch import Batch
from monitor.corrections.correction import Estimate
from monitor.corrections.ppo import PPOClip, dropped_by_clip
from monitor.metrics.terms import Level, Ratio


class Weighting(Protocol):
    """What decides on the weight."""

    @property
    def level(self) -> Level: ...

    @property
    def ratio(self) -> Ratio: ...

    @property
    def around(self) -> PPOClip | None: ...


def check_weighting(of: Weighting, low: float, high: float) -> None:
    """Take a level and a ratio by name too, and refuse a band, a level or a ratio that has no meaning.

    Raises:
        ValueError: with what was found.
    """
    settle(of, level=WEIGHT_LEVELS, ratio=Ratio)
    if not 0 <= low < high:
        raise ValueError(f"weights are kept in a band 0 <= low < high, found [{low}, {high}]")
    if of.around is not None and of.ratio is Ratio.LAG:
        raise ValueError("the ratio of the inner objective already holds the lag; weigh it by the discrepancy or the total")


def log_weights(batch: Batch, of: Weighting) -> tuple[Tokens, Tensor]:
    """The tokens that count, and the log weights of the level, without gradient."""
    first, second = sides(batch, of.ratio)
    if of.around is None:
        tokens = Tokens.of(batch, first, second)
    else:
        anchor = batch.anchor
        first = anchor if of.ratio is Ratio.TOTAL else first
        tokens = Tokens.of(batch, first, second, anchor)
    return tokens, tokens.log_weight(first, second, of.level)


def weighted(batch: Batch, tokens: Tokens, x: Tensor, weights: Tensor, of: Weighting, **own: Tensor) -> Estimate:
    """The inner objective times the weights of a level, with what was done to them."""
    per_token = tokens.spread(weights, of.level)
    gone, carried, clamped = per_token == 0, per_token, tokens.clamped(x, of.level)
    if of.around is None:
        inner = -tokens.advantages * tokens.current
    else:
        inner, ratio, log_ratio = of.around.objective(batch, tokens)
        gone = gone | dropped_by_clip(log_ratio, tokens.advantages, of.around.low, of.around.high)
        carried = torch.where(gone, 0.0, per_token * ratio)
        clamped = clamped + tokens.clamped(log_ratio, Level.TOKEN)
    found = diagnostics(
        batch,
        tokens,
        masked=share(gone, tokens.counted),
        clamped=clamped,
        heaviest_sequence=heaviest_sequence(tokens, carried),
        **own,
    )
    return Estimate(loss=tokens.loss(per_token * inner, batch.current.dtype), diagnostics=found)
