"""The language model: a causal transformer of about 60k parameters, one forward pass for the trainer and the engine.

Both sides run `forward`; they differ in the memory (all positions at once, or a key-value cache) and in the precision handed to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import gelu

from sample_runs.lab import mixture
from sample_runs.lab.precision import EXACT, Arithmetic, Precision
from sample_runs.lab.task import CONTEXT, VOCABULARY

LAYERS, WIDTH, HEADS = 2, 48, 3
HEAD_WIDTH = WIDTH // HEADS
LOGIT_OFFSET = 20.0  # nats added to every logit alike; real heads have such a common part, and it decides how coarse bfloat16 logits are
MASKED = -1e30  # not -inf: a row without any key would become NaN

Weights = Mapping[str, Tensor]
Seen = tuple[Tensor, Tensor, Tensor]


class Memory(Protocol):
    """Where earlier positions' keys and values are found."""

    def attend(self, layer: int, keys: Tensor, values: Tensor, positions: Tensor) -> Seen:
        """Take the new positions' keys and values (B, Q, H, D); give all (B, K, H, D) and a mask (B, Q, K), true where visible."""


class Together:
    """Memory of a pass that sees all positions at once: nothing is kept."""

    def attend(self, _layer: int, keys: Tensor, values: Tensor, positions: Tensor) -> Seen:
        """All positions, causally masked."""
        return keys, values, positions[:, None, :] <= positions[:, :, None]


def initial_weights(seed: int, model: str = "dense") -> dict[str, Tensor]:
    """Random weights; matrices are (out, in) with standard deviation 1/sqrt(in); a mixture has several side by side, and a router."""
    draw = torch.Generator().manual_seed(seed)
    shapes = {"embed": (VOCABULARY, WIDTH), "position": (CONTEXT, WIDTH), "head": (VOCABULARY, WIDTH)}
    for layer in range(LAYERS):
        shapes |= {f"{layer}.qkv": (3 * WIDTH, WIDTH), f"{layer}.out": (WIDTH, WIDTH)}
        mlp = {"up": (4 * WIDTH, WIDTH), "down": (WIDTH, 4 * WIDTH)} if model == "dense" else mixture.shapes(WIDTH)
        shapes |= {f"{layer}.{part}": shape for part, shape in mlp.items()}
    weights = {name: torch.randn(shape, generator=draw) / math.sqrt(shape[-1]) for name, shape in shapes.items()}
    gains = ["norm", *(f"{layer}.{norm}" for layer in range(LAYERS) for norm in ("norm_attention", "norm_mlp"))]
    return weights | {name: torch.ones(WIDTH) for name in gains}


def forward(weights: Weights, tokens: Tensor, positions: Tensor, memory: Memory, arithmetic: Arithmetic = EXACT) -> Tensor:
    """Logits (B, Q, V) of the token after each given position.

    Args:
        weights: as `initial_weights`; already rounded where the arithmetic is coarse.
        tokens: ids (B, Q).
        positions: places in the text (B, Q), from 0.
        memory: earlier positions.
        arithmetic: how operands and results are rounded.
    """
    body, r = arithmetic.body, arithmetic.body.values
    x = r(weights["embed"][tokens] + weights["position"][positions])
    for layer in range(LAYERS):
        remember = partial(memory.attend, layer, positions=positions)
        x = r(x + _attention(weights, layer, r(_normalise(x, weights[f"{layer}.norm_attention"])), remember, body))
        mlp = mixture.mixture if f"{layer}.router" in weights else _mlp
        x = r(x + mlp(weights, layer, r(_normalise(x, weights[f"{layer}.norm_mlp"])), arithmetic))
    return logits(weights, r(_normalise(x, weights["norm"])), arithmetic.head)


def logits(weights: Weights, hidden: Tensor, head: Precision) -> Tensor:
    """Last product, with a hidden direction that is always 1, of equal weight for all tokens: softmax does not see it, rounding does."""
    constant = hidden.new_ones((*hidden.shape[:-1], 1))
    matrix = torch.cat([head.weights(weights["head"]), weights["head"].new_full((VOCABULARY, 1), LOGIT_OFFSET)], dim=-1)
    return head.values(torch.cat([head.values(hidden), constant], dim=-1) @ matrix.T)


def token_logprobs(weights: Weights, texts: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """The trainer's evaluation: log-probability of each next token and entropy of its distribution, both (B, C - 1), in nats."""
    positions = torch.arange(texts.shape[1] - 1).expand(texts.shape[0], -1)
    logp = (forward(weights, texts[:, :-1], positions, Together()) / temperature).log_softmax(dim=-1)
    return logp.gather(-1, texts[:, 1:, None]).squeeze(-1), -(logp.exp() * logp).sum(dim=-1)


def _normalise(x: Tensor, gain: Tensor) -> Tensor:
    """RMSNorm."""
    return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + 1e-6) * gain


def _mlp(weights: Weights, layer: int, x: Tensor, arithmetic: Arithmetic) -> Tensor:
    r = arithmetic.body.values
    hidden = r(gelu(r(x @ weights[f"{layer}.up"].T)))
    return r(arithmetic.accumulated(layer, hidden @ weights[f"{layer}.down"].T))


def _attention(weights: Weights, layer: int, x: Tensor, remember: Callable[[Tensor, Tensor], Seen], body: Precision) -> Tensor:
    r, (rows, queries, _) = body.values, x.shape
    q, k, v = r(x @ weights[f"{layer}.qkv"].T).view(rows, queries, 3, HEADS, HEAD_WIDTH).unbind(2)
    keys, values, visible = remember(k, v)
    scores = r(torch.einsum("bqhd,bkhd->bhqk", q, keys) / math.sqrt(HEAD_WIDTH)).masked_fill(~visible[:, None], MASKED)
    mixed = _mix_in_blocks(scores, values, body) if body.attention_block else _mix(scores, values, body)
    mixed = mixed.reshape(rows, queries, WIDTH)
    return r(mixed @ weights[f"{layer}.out"].T)


def _mix(scores: Tensor, values: Tensor, body: Precision) -> Tensor:
    """Values (B, K, H, D) weighed by the softmax of scores (B, H, Q, K): (B, Q, H, D)."""
    return body.values(torch.einsum("bhqk,bkhd->bqhd", body.values(scores.softmax(dim=-1)), values))


def _mix_in_blocks(scores: Tensor, values: Tensor, body: Precision) -> Tensor:
    """As `_mix` in exact arithmetic, but as paged kernels do it: weights are rounded before they are normalised, sums after each block."""
    r = body.values
    weights = r((scores - scores.amax(dim=-1, keepdim=True)).exp())
    mixed, mass = torch.zeros(()), torch.zeros(())
    for part, some in zip(weights.split(body.attention_block, dim=-1), values.split(body.attention_block, dim=1), strict=True):
        mixed = r(mixed + torch.einsum("bhqk,bkhd->bqhd", part, some))
        mass = r(mass + part.sum(dim=-1))
    return r(mixed / mass.transpose(1, 2)[..., None])
