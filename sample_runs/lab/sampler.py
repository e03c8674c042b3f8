"""Which distribution are tokens drawn from, and which log-probability is reported? The same only if `logprobs_mode` says processed."""

from __future__ import annotations

import torch
from torch import Tensor

from sample_runs.lab.model import MASKED
from sample_runs.lab.settings import Sampling


def processed(logits: Tensor, sampling: Sampling) -> Tensor:
    """Log-probabilities (N, V) that are really sampled: temperature, then top-k, then top-p, then renormalised."""
    scaled = logits / sampling.temperature
    if sampling.top_k:
        scaled = scaled.masked_fill(scaled < scaled.topk(sampling.top_k, dim=-1).values[:, -1:], MASKED)
    if sampling.top_p < 1:
        scaled = scaled.masked_fill(~_nucleus(scaled, sampling.top_p), MASKED)
    return scaled.log_softmax(dim=-1)


def reported(logits: Tensor, sampled_from: Tensor, logprobs_mode: str) -> Tensor:
    """Log-probabilities (N, V) that the engine hands out: of the raw logits, or of the distribution that was sampled."""
    return logits.log_softmax(dim=-1) if logprobs_mode == "raw_logprobs" else sampled_from


def kept(sampled_from: Tensor) -> Tensor:
    """True for tokens (N, V) that can be drawn."""
    return sampled_from > MASKED / 2


def draw(sampled_from: Tensor, generator: torch.Generator) -> Tensor:
    """One token (N,) for each row; of a row that is not a number, token 0, as a kernel gives some token or other."""
    if sampled_from.isnan().any():
        first = torch.zeros_like(sampled_from)
        first[:, 0] = 1.0
        return torch.multinomial(torch.where(sampled_from.isnan(), first, sampled_from.exp()), 1, generator=generator).squeeze(-1)
    return torch.multinomial(sampled_from.exp(), 1, generator=generator).squeeze(-1)


def entropy(sampled_from: Tensor) -> Tensor:
    """Entropy (N,) of the sampled distribution in nats; cut tokens have probability 0 and add nothing."""
    return -(sampled_from.exp() * sampled_from.clamp(min=MASKED)).nan_to_num(0.0).sum(dim=-1)


def _nucleus(scaled: Tensor, top_p: float) -> Tensor:
    """True for the most probable tokens (N, V) that together first reach `top_p`."""
    probability, order = scaled.softmax(dim=-1).sort(dim=-1, descending=True, stable=True)
    before = probability.cumsum(dim=-1) - probability
    return torch.zeros_like(scaled, dtype=torch.bool).scatter(-1, order, before < top_p)
