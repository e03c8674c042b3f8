"""Where every run starts: weights trained on worked texts with slips, right about one time in four."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from sample_runs.lab.model import Together, forward, initial_weights
from sample_runs.lab.task import PAD, PROMPT, worked_texts

BATCH = 128
CLEAN_STEPS, CLEAN_SLIP, CLEAN_FILLER, CLEAN_RATE = 1000, 0.08, 0.3, 4e-3
SLOPPY_STEPS, SLOPPY_SLIP, SLOPPY_FILLER, SLOPPY_RATE = 300, 0.25, 0.5, 2e-3
# The second, sloppier part leaves room: without it reinforcement learning is done after 50 steps and every gradient vanishes.


def warm_start(seed: int, *, model: str = "dense", scale: float = 1.0, progress: Callable[[str], None] = print) -> dict[str, Tensor]:
    """Weights after supervised training from `seed`; `scale` shortens it for tests."""
    weights = {name: value.requires_grad_() for name, value in initial_weights(seed, model).items()}
    rng = np.random.default_rng(seed)
    for steps, slip, filler, rate in (
        (CLEAN_STEPS, CLEAN_SLIP, CLEAN_FILLER, CLEAN_RATE),
        (SLOPPY_STEPS, SLOPPY_SLIP, SLOPPY_FILLER, SLOPPY_RATE),
    ):
        loss = _imitate(weights, int(steps * scale), lambda count, s=slip, f=filler: worked_texts(count, s, f, rng), rate)
        progress(f"warm start: {int(steps * scale)} steps with slips {slip}, loss {loss:.3f} nats per token")
    return {name: value.detach() for name, value in weights.items()}


def _imitate(weights: dict[str, Tensor], steps: int, texts: Callable[[int], np.ndarray], rate: float) -> float:
    optimizer = torch.optim.AdamW(weights.values(), lr=rate, weight_decay=0.01)
    loss = torch.tensor(float("nan"))
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1.0, (step + 1) / (0.1 * steps)) * (1 - step / steps)  # short rise, linear fall to zero
        loss = _cross_entropy(weights, torch.from_numpy(texts(BATCH)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def _cross_entropy(weights: dict[str, Tensor], texts: Tensor) -> Tensor:
    """Mean over response tokens, in nats."""
    positions = torch.arange(texts.shape[1] - 1).expand(texts.shape[0], -1)
    logp = forward(weights, texts[:, :-1], positions, Together())[:, PROMPT - 1 :].log_softmax(dim=-1)
    targets = texts[:, PROMPT:]
    chosen = logp.gather(-1, targets[..., None]).squeeze(-1)
    return -chosen[targets != PAD].mean()
