"""The study's training loop: a generator that keeps its weights until it is resynchronised, one optimizer step a batch."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from monitor.corrections.batch import Batch, Support
from monitor.corrections.controller import Mode, ResyncController
from monitor.corrections.vcpo import learning_rate_factor
from monitor.metrics.terms import Level
from sample_runs.lab.model import Weights
from sample_runs.lab.objective import advantages
from sample_runs.lab.study_figures_of import Figures, centre_figures, step_figures
from sample_runs.lab.study_policy import Sampled, decode, distributions, loaded
from sample_runs.lab.study_settings import CAP, METHODS, Scale, StudyRun, Sync
from sample_runs.lab.study_task import FULL, prompts
from sample_runs.lab.task import Ints
from sample_runs.lab.trainer import ADAM_BETAS


@dataclass(frozen=True, kw_only=True, eq=False)
class Scored:
    """A batch with the trainer's view of it: log-probabilities (S, R, V), the first with gradient."""

    sampled: Sampled
    current: Tensor
    same: Tensor
    version: int  # optimizer steps that the generator's weights have seen


@dataclass(frozen=True, kw_only=True, eq=False)
class Stepped:
    """What one optimizer step leaves."""

    step: int  # optimizer steps completed, from 1
    figures: Figures
    scored: Scored
    advantages: Tensor


class Study:
    """Trainer, generator and trigger of one run."""

    def __init__(self, run: StudyRun, scale: Scale, start: Weights) -> None:
        self.run, self.scale, self.method = run, scale, METHODS[run.method]
        self.weights = {name: value.clone().requires_grad_() for name, value in start.items()}
        self.optimizer = torch.optim.Adam(self.weights.values(), lr=scale.learning_rate, betas=ADAM_BETAS)
        self.rng, self.draw = np.random.default_rng(run.seed), torch.Generator().manual_seed(run.seed)
        mode = Mode.LENIENT if run.sync is Sync.LENIENT else Mode.STRICT
        self.controller = ResyncController(level=Level.SEQUENCE, threshold=0.5, mode=mode)
        self.correct = self.method.make()
        self.step = self.resyncs = self.discarded = 0
        self.resync()
        self.resyncs = 0  # the first load is no resync

    def resync(self) -> None:
        """Give the generator the present weights."""
        self.same = {name: value.detach().clone() for name, value in self.weights.items()}
        self.held, self.version, self.resyncs = loaded(self.same, self.run.engine), self.step, self.resyncs + 1

    def train(self) -> Iterator[Stepped]:
        """One item for each optimizer step."""
        while self.step < self.scale.steps:
            yield self.take_step()

    def take_step(self) -> Stepped:
        """Sample, decide, perhaps resynchronise and sample again, update."""
        started = time.process_time()
        if self.run.sync is Sync.ALWAYS and self.step % self.run.every == 0 and self.step:
            self.resync()
        asked = np.repeat(prompts(self.scale.groups, self.rng), self.scale.samples, axis=0)
        scored, lenient = self._accepted(asked)
        groups = torch.arange(self.scale.groups).repeat_interleave(self.scale.samples)
        advantage = advantages(scored.sampled.rewards, groups)
        figures = step_figures(scored.sampled, scored.current.detach(), scored.same)
        figures |= centre_figures(scored.sampled, scored.current.detach(), scored.same, advantage, CAP)
        figures["groups.alike"] = float((advantage.view(self.scale.groups, -1).abs().amax(dim=1) == 0).double().mean())
        norm = self._update(scored, advantage, figures)
        self.step += 1
        if lenient:
            self.resync()
        counts = {"resyncs": self.resyncs, "discarded": self.discarded, "version_lag.mean": self.step - 1 - scored.version}
        figures |= {"grad_norm": norm, "cpu_s": time.process_time() - started} | counts
        return Stepped(step=self.step, figures=figures, scored=scored, advantages=advantage)

    def score(self, sampled: Sampled) -> Scored:
        """The trainer's view of a batch, under its own weights and, exactly, under the generator's."""
        current = distributions(self.weights, sampled.texts)
        if self.version == self.step:
            same = current.detach()
        else:
            with torch.no_grad():
                same = distributions(self.same, sampled.texts)
        return Scored(sampled=sampled, current=current, same=same, version=self.version)

    def _accepted(self, asked: Ints) -> tuple[Scored, bool]:
        """A batch to train on, and whether the generator is to be resynchronised after the update."""
        scored = self.score(decode(self.held, self.run.engine, asked, self.draw))
        if self.run.sync not in {Sync.STRICT, Sync.LENIENT}:
            return scored, False
        log_lag = scored.sampled.chosen(scored.current.detach()) - scored.sampled.chosen(scored.same)
        decision = self.controller.decide(log_lag, scored.sampled.mask)
        if decision.discard:  # the next batch is on policy, so it need not be asked about
            self.discarded += 1
            self.resync()
            return self.score(decode(self.held, self.run.engine, asked, self.draw)), False
        return scored, decision.resync

    def _update(self, scored: Scored, advantage: Tensor, figures: Figures) -> float:
        """One optimizer step; gives the norm of the gradient before it is clipped."""
        estimate = self.correct(self.batch(scored, advantage))
        figures |= {name: float(value) for name, value in estimate.diagnostics.items() if name.startswith("correction.")}
        loss = estimate.loss.sum() / (len(advantage) * FULL)
        figures["loss"] = loss.item()
        self.optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.weights.values(), self.scale.grad_clip)
        factor = 1.0
        if self.method.scales_rate:
            factor = float(learning_rate_factor(torch.tensor(figures["ess.total.sequence"])))
        figures["rate_factor"] = factor
        for group in self.optimizer.param_groups:
            group["lr"] = self.scale.learning_rate * factor
        self.optimizer.step()
        return norm.item()

    def batch(self, scored: Scored, advantage: Tensor) -> Batch:
        """The batch as the corrections take it."""
        sampled = scored.sampled
        rollout = sampled.chosen(sampled.engine)
        return Batch(
            current=sampled.chosen(scored.current),
            advantages=advantage,
            mask=sampled.mask,
            rollout=rollout,
            same_weights=sampled.chosen(scored.same),
            old=rollout if self.method.anchored else None,
            support=Support(engine=sampled.engine, current=scored.current, same_weights=scored.same, complete=True),
        )

    def snapshot(self) -> dict[str, Tensor]:
        """A copy of the present weights."""
        return {name: value.detach().clone() for name, value in self.weights.items()}
