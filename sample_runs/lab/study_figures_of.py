"""What is logged at every step of a study's run: the split, its ESS, and what a centre would be made of, in float64."""

from __future__ import annotations

import torch
from torch import Tensor

from sample_runs.lab.study_policy import Sampled

RARE = 1e-3
LARGE = 2.0  # times: mu / pi_gen beyond this is called a large ratio

Figures = dict[str, float]


def ess(log_weights: Tensor) -> float:
    """(sum w)^2 / (n sum w^2)."""
    weights = (log_weights.double() - log_weights.max()).exp()
    return float(weights.sum() ** 2 / (len(weights) * (weights**2).sum()))


def kl(p: Tensor, q: Tensor, mask: Tensor) -> float:
    """KL(p || q) over the whole vocabulary, mean over tokens, nats; both are log-probabilities (S, R, V)."""
    return float((p.double().exp() * (p.double() - q.double())).sum(dim=-1)[mask].mean())


def entropy(logp: Tensor, mask: Tensor) -> float:
    """Mean over tokens, nats."""
    return float(-(logp.double().exp() * logp.double()).sum(dim=-1)[mask].mean())


@torch.no_grad()
def step_figures(sampled: Sampled, current: Tensor, same: Tensor) -> Figures:
    """One batch's figures under the dashboard's metric ids where there is one.

    Args:
        sampled: the batch.
        current: log pi_theta (S, R, V).
        same: log pi_gen (S, R, V).
    """
    mask = sampled.mask
    pi, gen, mu = (sampled.chosen(logp).double() for logp in (current, same, sampled.engine))
    lag, discrepancy = pi - gen, gen - mu
    total = lag + discrepancy
    return {
        "reward.mean": float(sampled.rewards.mean()),
        "ess.lag.token": ess(lag[mask]),
        "ess.lag.sequence": ess(lag.sum(dim=1)),
        "ess.total.sequence": ess(total.sum(dim=1)),
        "log_ratio.discrepancy.abs_mean": float(discrepancy[mask].abs().mean()),
        "log_ratio.discrepancy.mean": float(discrepancy[mask].mean()),
        "log_ratio.discrepancy.sd": float(discrepancy[mask].std()),
        "log_ratio.lag.abs_mean": float(lag[mask].abs().mean()),
        "kl.discrepancy": kl(sampled.engine, same, mask),
        "kl.lag": kl(current, same, mask),
        "entropy.mean": entropy(current, mask),
        "tokens.mean": float(mask.sum(dim=1).double().mean()),
    }


@torch.no_grad()
def centre_figures(sampled: Sampled, current: Tensor, same: Tensor, advantages: Tensor, cap: float) -> Figures:
    """What DLC's centre, (mu - pi_gen) rho, is made of in this batch; computed for every method, used by few.

    `centre.rare`: share of its absolute sum that lies on tokens with pi_gen under RARE. `centre.largest_ratio`: largest mu / pi_gen.
    `centre.large`: share of the absolute sum on tokens with mu / pi_gen over LARGE. `centre.size`: absolute sum at a place, mean.
    `centre.pull`: sum A W |mu - pi_gen|^2 / sum |mu - pi_gen|^2, W the truncated lag weight of the response: the removed term, seen along
    the direction that brings the trainer to the engine. Above 0 the removed term was closing the discrepancy, below 0 opening it.
    """
    mask = sampled.mask
    mu, gen, pi = (logp.double().exp()[mask] for logp in (sampled.engine, same, current))
    ratio, offset = mu / gen.clamp(min=1e-30), mu - gen
    size = (offset * pi / gen.clamp(min=1e-30)).abs()
    lag = (sampled.chosen(current).double() - sampled.chosen(same)).sum(dim=1)
    weight = (advantages.double() * lag.exp().clamp(max=cap)).repeat_interleave(mask.sum(dim=1))
    squared = offset.square().sum(dim=-1)
    total = size.sum().clamp(min=1e-30)
    return {
        "centre.size": float(size.sum(dim=-1).mean()),
        "centre.rare": float(size[gen < RARE].sum() / total),
        "centre.large": float(size[ratio > LARGE].sum() / total),
        "centre.largest_ratio": float(ratio.max()),
        "centre.pull": float((weight * squared).sum() / squared.sum().clamp(min=1e-30)),
    }
