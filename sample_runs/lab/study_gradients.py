"""How true is a correction's gradient? Cosine and norm against the on-policy gradient, on stale texts of a coarse engine."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from monitor.corrections.correction import Correction
from sample_runs.lab.objective import advantages
from sample_runs.lab.study_figures_of import Figures, step_figures
from sample_runs.lab.study_loop import Study
from sample_runs.lab.study_policy import decode, loaded
from sample_runs.lab.study_settings import METHODS
from sample_runs.lab.study_task import FULL, prompts

COMPARED = (
    "none", "centring", "token_tis", "sequence_is", "sequence_tis", "sequence_lag", "mis", "dlc_token", "dlc_sequence",
    "plain_offset", "without_rare",
)  # fmt: skip
PARTS = 8  # batches that are drawn for each side


def fidelity(study: Study, seed: int, parts: int = PARTS) -> dict[str, object]:
    """Compare gradients at a study's present weights.

    The on-policy gradient is a mean of `parts` batches that the present weights sampled in float32; a second such mean says how well
    it is known. Every correction sees the same `parts` batches of the study's generator.

    Args:
        study: its weights, its generator's weights and its engine.
        seed: of all samples.
        parts: batches on each side.
    """
    rng, draw = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
    present = loaded(study.snapshot(), "float32")
    truth = [_mean([_on_policy(study, present, rng, draw) for _ in range(parts)]) for _ in range(2)]
    both = (truth[0] + truth[1]) / 2
    found, figures = {name: list[Tensor]() for name in COMPARED}, list[Figures]()
    for _ in range(parts):
        asked = np.repeat(prompts(study.scale.groups, rng), study.scale.samples, axis=0)
        scored = study.score(decode(study.held, study.run.engine, asked, draw))
        figures.append(step_figures(scored.sampled, scored.current.detach(), scored.same))
        batch = study.batch(scored, advantages(scored.sampled.rewards, _groups(study)))
        for name in COMPARED:
            found[name].append(_gradient(study, METHODS[name].make(), batch))
    ess = {key: float(np.mean([one[key] for one in figures])) for key in ("ess.lag.sequence", "ess.lag.token")}
    known = {"cosine": _cosine(truth[0], truth[1]), "norm": float(truth[1].norm() / truth[0].norm())}
    return {"step": study.step} | ess | {"on_policy": known} | {name: _against(each, both) for name, each in found.items()}


def _against(parts: list[Tensor], truth: Tensor) -> dict[str, float]:
    """Of the mean of a correction's batches: cosine and norm; `noise`: of one batch about that mean, in units of the truth's norm."""
    mean = _mean(parts)
    noise = float((torch.stack(parts) - mean).square().sum(dim=1).mean().sqrt() / truth.norm())
    return {"cosine": _cosine(mean, truth), "norm": float(mean.norm() / truth.norm()), "noise": noise}


def _on_policy(study: Study, present: dict[str, Tensor], rng: np.random.Generator, draw: torch.Generator) -> Tensor:
    asked = np.repeat(prompts(study.scale.groups, rng), study.scale.samples, axis=0)
    sampled = decode(present, "float32", asked, draw)
    scored = study.score(sampled)
    batch = study.batch(scored, advantages(sampled.rewards, _groups(study)))
    return _gradient(study, METHODS["none"].make(), batch)


def _gradient(study: Study, correct: Correction, batch: object) -> Tensor:
    """The gradient of a correction's loss, all parameters one after the other."""
    loss = correct(batch).loss.sum() / (study.scale.groups * study.scale.samples * FULL)  # type: ignore[arg-type]
    found = torch.autograd.grad(loss, list(study.weights.values()), retain_graph=True)
    return torch.cat([part.flatten() for part in found]).double()


def _groups(study: Study) -> Tensor:
    return torch.arange(study.scale.groups).repeat_interleave(study.scale.samples)


def _mean(parts: list[Tensor]) -> Tensor:
    return torch.stack(parts).mean(dim=0)


def _cosine(a: Tensor, b: Tensor) -> float:
    size = float(a.norm() * b.norm())
    return float(a @ b) / size if size else math.nan
