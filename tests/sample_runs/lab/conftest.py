"""Small settings for the laboratory's tests."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from sample_runs.lab import study_policy, trainer
from sample_runs.lab.model import initial_weights
from sample_runs.lab.settings import EngineSettings, RunSettings, TrainerSettings


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture
def weights():
    # Twice the usual spread, so that the untrained distributions are not flat.
    return {name: value * 2 if name == "head" else value for name, value in initial_weights(0).items()}


@pytest.fixture
def other_weights():
    return initial_weights(1)


@pytest.fixture
def tiny(monkeypatch):
    """Settings of a run of a few seconds; an untrained model never solves the task, so the reward is made easy."""
    monkeypatch.setattr(trainer, "reward", lambda _prompt, response: float(response[0] % 2))

    def settings(steps=4, seed=0, **engine):
        small = TrainerSettings(groups_per_step=2, samples_per_group=4, learning_rate=2e-3, ticks_per_step=6)
        run = RunSettings(name="tiny", title="Tiny", group="tiny", seed=seed, steps=steps, prompts=6, trainer=small)
        return replace(run, engine=EngineSettings(**({"max_num_seqs": 8} | engine)))

    return settings


@pytest.fixture(scope="session")
def begun():
    """Where a study of seconds begins: untrained, with twice the usual spread, so that distributions are not flat."""
    return {name: value * 2 if name == "head" else value for name, value in study_policy.untrained(0).items()}


@pytest.fixture
def easy(monkeypatch):
    """The study's task is out of an untrained policy's reach: here an even first token earns."""
    monkeypatch.setattr(study_policy, "rewards", lambda texts, _mask: 1.0 - texts[:, study_policy.PROMPT] % 2)
