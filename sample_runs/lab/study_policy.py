"""The study's policy and its engine: the model of `model.py` with a longer table of positions, and a decoder that keeps every distribution.

All responses of a batch begin together, so the engine decodes in lockstep; the vocabulary is small, so what the engine sampled from is kept
whole, and so is the trainer's distribution under the very weights that sampled.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from sample_runs.lab.model import HEAD_WIDTH, HEADS, LAYERS, WIDTH, Seen, Together, Weights, forward, initial_weights
from sample_runs.lab.precision import EXACT, PRECISIONS, Arithmetic, Precision, bfloat16
from sample_runs.lab.study_task import CONTEXT, PROMPT, RESPONSE, rewards, worked_texts
from sample_runs.lab.task import BOS, EOS, PAD, VOCABULARY, Ints

BATCH = 64
PARTS = ((2000, 0.03, 4e-3), (300, 0.2, 2e-3))  # of the warm start: steps, slips, learning rate; the second leaves room for improvement
POSITION_SEED = 5
SUM_WEIGHT = 5.0  # of the running sums and the answer among the tokens to imitate: they are few, and hard
COARSER_LARGEST = 5.0  # symmetric range -5 .. 5


def eleven_levels(x: Tensor) -> Tensor:
    """Nearest of 11 levels, one scale for each output channel (row): coarser than what anybody serves, for claim 7."""
    scale = x.abs().amax(dim=-1, keepdim=True).clamp(min=1e-12) / COARSER_LARGEST
    return (x / scale).round().clamp(-COARSER_LARGEST, COARSER_LARGEST) * scale


ENGINES = {
    "float32": EXACT,
    "bfloat16": Arithmetic(body=PRECISIONS["bfloat16"], head=PRECISIONS["float32"], router=PRECISIONS["float32"]),
    "fp8_e4m3": Arithmetic(body=PRECISIONS["fp8_e4m3"], head=PRECISIONS["float32"], router=PRECISIONS["float32"]),
    "int4": Arithmetic(body=PRECISIONS["int4"], head=PRECISIONS["float32"], router=PRECISIONS["float32"]),
    "int_11_levels": Arithmetic(
        body=Precision(name="int_11_levels", weights=eleven_levels, values=bfloat16),
        head=PRECISIONS["float32"],
        router=PRECISIONS["float32"],
    ),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Sampled:
    """What an engine hands over: texts (S, CONTEXT), a mask (S, RESPONSE), and the log-probabilities (S, RESPONSE, V) it sampled from."""

    texts: Tensor
    mask: Tensor
    engine: Tensor

    @cached_property
    def rewards(self) -> Tensor:
        """(S,)."""
        return rewards(self.texts, self.mask)

    def chosen(self, logp: Tensor) -> Tensor:
        """Log-probabilities (S, RESPONSE) of the sampled tokens, out of (S, RESPONSE, V); 0 behind a response."""
        return logp.gather(-1, self.texts[:, PROMPT:, None]).squeeze(-1).masked_fill(~self.mask, 0.0)


class Lockstep:
    """`model.Memory` of texts that are all equally long."""

    def __init__(self, rows: int) -> None:
        self.keys = torch.zeros(LAYERS, rows, CONTEXT, HEADS, HEAD_WIDTH)
        self.values = torch.zeros_like(self.keys)

    def attend(self, layer: int, keys: Tensor, values: Tensor, positions: Tensor) -> Seen:
        """Store and look up; see `model.Memory`."""
        first, end = int(positions[0, 0]), int(positions[0, -1]) + 1
        self.keys[layer, :, first:end], self.values[layer, :, first:end] = keys, values
        visible = torch.arange(end)[None, None, :] <= positions[:, :, None]
        return self.keys[layer, :, :end], self.values[layer, :, :end], visible


def loaded(weights: Weights, engine: str) -> Weights:
    """Weights as an engine of that precision holds them: the head whole, all else rounded once."""
    body = ENGINES[engine].body.weights
    return {name: value.detach().clone() if name == "head" else body(value.detach().clone()) for name, value in weights.items()}


@torch.no_grad()
def decode(held: Weights, engine: str, asked: Ints | Tensor, draw: torch.Generator, begun: Tensor | None = None) -> Sampled:
    """Sample a response to each prompt at temperature 1.

    Args:
        held: weights as `loaded`.
        engine: name in ENGINES.
        asked: prompts (S, PROMPT).
        draw: source of all choices.
        begun: first tokens of every response (S, n), where they are given; they are in the mask, and their distributions are kept too.
    """
    prompt = torch.as_tensor(asked)
    texts = torch.full((len(prompt), CONTEXT), PAD)
    texts[:, :PROMPT] = prompt
    given = 0 if begun is None else begun.shape[1]
    if begun is not None:
        texts[:, PROMPT : PROMPT + given] = begun
    memory, ended = Lockstep(len(prompt)), torch.zeros(len(prompt), dtype=torch.bool)
    mask = torch.zeros(len(prompt), RESPONSE, dtype=torch.bool)
    kept = torch.full((len(prompt), RESPONSE, VOCABULARY), -math.log(VOCABULARY))
    start, place = 0, PROMPT
    while place < CONTEXT and not ended.all():
        positions = torch.arange(start, place).expand(len(prompt), -1)
        logp = forward(held, texts[:, start:place], positions, memory, ENGINES[engine])[:, -1].log_softmax(dim=-1)
        kept[:, place - PROMPT], mask[:, place - PROMPT] = logp, ~ended
        if place >= PROMPT + given:
            texts[~ended, place] = torch.multinomial(logp.exp(), 1, generator=draw).squeeze(1)[~ended]
        ended = ended | (texts[:, place] == EOS)
        start, place = place, place + 1
    return Sampled(texts=texts, mask=mask, engine=kept)


def distributions(weights: Weights, texts: Tensor) -> Tensor:
    """The trainer's evaluation in float32: log-probabilities (S, RESPONSE, V) at every place of the response."""
    positions = torch.arange(CONTEXT - 1).expand(len(texts), -1)
    return forward(weights, texts[:, :-1], positions, Together())[:, PROMPT - 1 :].log_softmax(dim=-1)


def engine_distributions(held: Weights, engine: str, texts: Tensor) -> Tensor:
    """What an engine would have sampled from at every place of given responses (S, RESPONSE, V), log-probabilities.

    Token by token, as it decodes: all at once some formats would round by a scale that later tokens have a part in.
    """
    return decode(held, engine, texts[:, :PROMPT], torch.Generator(), begun=texts[:, PROMPT:]).engine


def untrained(seed: int) -> dict[str, Tensor]:
    """Random weights with a table of CONTEXT positions."""
    draw = torch.Generator().manual_seed(POSITION_SEED + seed)
    return initial_weights(seed) | {"position": torch.randn(CONTEXT, WIDTH, generator=draw) / math.sqrt(WIDTH)}


def warm_start(seed: int, *, scale: float = 1.0, progress: Callable[[str], None] = print) -> dict[str, Tensor]:
    """Weights after supervised training from `seed`; `scale` shortens it for tests."""
    weights = {name: value.requires_grad_() for name, value in untrained(seed).items()}
    rng = np.random.default_rng(seed)
    for steps, slip, rate in PARTS:
        loss = _imitate(weights, int(steps * scale), slip, rate, rng)
        progress(f"warm start of the study: {int(steps * scale)} steps with slips {slip}, loss {loss:.3f} nats")
    return {name: value.detach() for name, value in weights.items()}


def _imitate(weights: dict[str, Tensor], steps: int, slip: float, rate: float, rng: np.random.Generator) -> float:
    optimizer, loss = torch.optim.AdamW(weights.values(), lr=rate, weight_decay=0.01), torch.tensor(math.nan)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1.0, (step + 1) / (0.1 * steps)) * (1 - step / steps)  # short rise, linear fall to zero
        texts = torch.from_numpy(worked_texts(BATCH, slip, rng))
        targets = texts[:, PROMPT:]
        chosen = distributions(weights, texts).gather(-1, targets[..., None]).squeeze(-1)
        counts = torch.where(targets < BOS, SUM_WEIGHT, 1.0).masked_fill(targets == PAD, 0.0)
        loss = -(chosen * counts).sum() / counts.sum()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights.values(), 1.0)
        optimizer.step()
    return loss.item()
