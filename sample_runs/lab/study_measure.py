"""How far is a run's policy from on-policy runs? KL over the whole vocabulary, in one direction, on three sets of prefixes.

The direction KL(on || x) is the same on all three, so that they can be compared: texts of the on-policy run, of x itself, and of the
generator that x was trained on at that moment. KL(x || on) on x's texts is given beside them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from sample_runs.lab.model import Weights
from sample_runs.lab.study_figures_of import entropy, kl
from sample_runs.lab.study_policy import Sampled, decode, distributions, loaded
from sample_runs.lab.study_task import prompts

EVALUATION_SEED = 900


@dataclass(frozen=True, kw_only=True, eq=False)
class Checkpoint:
    """A policy at one step, and the texts its generator wrote for that step."""

    weights: Weights
    stale_texts: Tensor  # (S, CONTEXT)
    stale_mask: Tensor  # (S, RESPONSE)


@dataclass(frozen=True, kw_only=True, eq=False)
class Policy:
    """A checkpoint with its own texts and what it says of them."""

    weights: Weights
    own: Sampled
    logp: Tensor  # (S, R, V) on its own texts


@dataclass(frozen=True, kw_only=True)
class Distance:
    """KL in nats per token, means over the references; see the module."""

    on_policy: float  # KL(on || x), texts of on
    own: float  # KL(on || x), texts of x
    stale: float  # KL(on || x), texts of x's generator
    reverse: float  # KL(x || on), texts of x


NOWHERE = Distance(on_policy=0.0, own=0.0, stale=0.0, reverse=0.0)


def texts_of(weights: Weights, count: int) -> Sampled:
    """Texts of a policy itself, sampled in float32, for fixed prompts and a fixed seed."""
    asked = prompts(count, np.random.default_rng(EVALUATION_SEED))
    return decode(loaded(weights, "float32"), "float32", asked, torch.Generator().manual_seed(EVALUATION_SEED))


@torch.no_grad()
def policy(weights: Weights, count: int) -> Policy:
    """A policy with its own texts."""
    own = texts_of(weights, count)
    return Policy(weights=weights, own=own, logp=distributions(weights, own.texts))


@torch.no_grad()
def distance(x: Policy, checkpoint: Checkpoint, references: list[Policy]) -> Distance:
    """How far x is from the references, on the three sets of prefixes."""
    stale = distributions(x.weights, checkpoint.stale_texts)
    found = [
        Distance(
            on_policy=kl(on.logp, distributions(x.weights, on.own.texts), on.own.mask),
            own=kl(there := distributions(on.weights, x.own.texts), x.logp, x.own.mask),
            stale=kl(distributions(on.weights, checkpoint.stale_texts), stale, checkpoint.stale_mask),
            reverse=kl(x.logp, there, x.own.mask),
        )
        for on in references
    ]
    return Distance(**{part.name: float(np.mean([getattr(one, part.name) for one in found])) for part in fields(Distance)})


@torch.no_grad()
def moved(x: Policy, start: Policy) -> float:
    """KL(x || start) on the start's texts: what the lag KL is where the generator is frozen, and its counterpart for runs whose is not."""
    return kl(distributions(x.weights, start.own.texts), start.logp, start.own.mask)


def quality(x: Policy) -> dict[str, float]:
    """What a policy is worth by itself: reward of its own texts, entropy, length."""
    return {
        "reward": float(x.own.rewards.mean()),
        "entropy": entropy(x.logp, x.own.mask),
        "tokens": float(x.own.mask.sum(dim=1).double().mean()),
    }
