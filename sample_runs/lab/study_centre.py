"""Why does centring hurt on a coarse engine? Three looks beside the step log: the weights, the spread of the advantage, the logits."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from sample_runs.lab.model import Weights
from sample_runs.lab.study_figures_of import kl
from sample_runs.lab.study_policy import Sampled, decode, distributions, engine_distributions, loaded
from sample_runs.lab.study_task import CHATTER, PROMPT, prompts, rewards

LEAST = 1e-3  # a token under this probability is not followed up
PLACES = tuple((CHATTER + 1) * line + place for line in (1, 3, 5, 7) for place in (2, CHATTER))  # a word of chatter and a sum, four times
PREFIXES, CONTINUATIONS = 12, 16  # of each place; of each next token
SEED = 700


def movement(weights: Weights, start: Weights, engine: str) -> float:
    """Share of the trainer's movement since the start that the engine's rounded weights have followed: 1 where all of it arrives.

    1 + <e, d> / |d|^2 with d the movement of the matrices that the engine rounds, and e the change of their rounding error.
    """
    held, began = loaded(weights, engine), loaded(start, engine)
    parts = [name for name in weights if name != "head" and weights[name].ndim > 1]
    moved = torch.cat([(weights[name] - start[name]).flatten() for name in parts]).double()
    arrived = torch.cat([(held[name] - began[name]).flatten() for name in parts]).double()
    size = float(moved @ moved)
    return float(arrived @ moved) / size if size else 1.0


@torch.no_grad()
def coarse_figures(weights: Weights, start: Weights, engine: str, own: Sampled, fixed: Sampled) -> dict[str, float]:
    """A checkpoint seen as the engine would hold it: discrepancy on its own and on fixed texts, spread of the logits, movement."""
    held = loaded(weights, engine)
    found = {
        f"discrepancy_{name}": kl(engine_distributions(held, engine, texts.texts), distributions(weights, texts.texts), texts.mask)
        for name, texts in (("own", own), ("fixed", fixed))
    }
    logp = distributions(weights, own.texts)
    return found | {"logit_sd": float(logp.std(dim=-1)[own.mask].mean()), "movement": movement(weights, start, engine)}


def spread_of_advantage(weights: Weights, engine: str) -> dict[str, object]:
    """Mean and standard deviation of the advantage at a prefix, over the engine's next token, by enumeration.

    Each next token with mu(v|s) >= LEAST is continued many times by the engine, so Q(s, v) is a mean of rewards; the noise
    of these means is taken out of the variance. Advantages are measured from the batch's mean reward, in units of its standard
    deviation.
    """
    held, draw = loaded(weights, engine), torch.Generator().manual_seed(SEED)
    asked = prompts(PREFIXES * 8, np.random.default_rng(SEED))
    batch = decode(held, engine, asked, draw)
    mean, sd = float(batch.rewards.mean()), float(batch.rewards.std()) + 1e-4
    found = {}
    for place in PLACES:
        means, variances = zip(*(_at_prefix(held, engine, batch, row, place, draw) for row in range(PREFIXES)), strict=True)
        kind = "sum" if place % (CHATTER + 1) == CHATTER else "chatter"
        found[str(place)] = {
            "kind": kind,
            "mean_abs": float(np.mean(np.abs((np.array(means) - mean) / sd))),
            "sd": float(np.sqrt(max(0.0, np.mean(variances))) / sd),
        }
    return {"reward": mean, "places": found}


def _at_prefix(  # noqa: PLR0913, PLR0917 - one prefix is all of these
    held: Weights, engine: str, batch: Sampled, row: int, place: int, draw: torch.Generator
) -> tuple[float, float]:
    """Mean and variance of Q over the next token of one prefix."""
    mu = batch.engine[row, place].exp()
    likely = (mu >= LEAST).nonzero().squeeze(1)
    begun = batch.texts[row, PROMPT : PROMPT + place].expand(len(likely), -1)
    begun = torch.cat([begun, likely[:, None]], dim=1).repeat_interleave(CONTINUATIONS, dim=0)
    asked = batch.texts[row, :PROMPT].expand(len(begun), -1)
    texts = decode(held, engine, asked, draw, begun)
    q = rewards(texts.texts, texts.mask).view(len(likely), CONTINUATIONS).mean(dim=1).double()
    share = (mu[likely] / mu[likely].sum()).double()
    return _moments(q, share)


def _moments(q: Tensor, share: Tensor) -> tuple[float, float]:
    mean = float((share * q).sum())
    noise = q * (1 - q) / (CONTINUATIONS - 1)  # of each mean; a weighted mean of squares holds (1 - share) of it
    return mean, float((share * (q - mean).square()).sum() - (share * (1 - share) * noise).sum())
