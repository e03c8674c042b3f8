"""A run to be watched: its generator is frozen and nothing corrects for that, so its ESS falls, until a resync is asked for and made.

This is what an own training loop does, in full: record each step, ask for the signal, push the weights, say that it is done.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from sample_runs.lab.folder import run_toml
from sample_runs.lab.make import say
from sample_runs.lab.model import Weights
from sample_runs.lab.pipeline import train
from sample_runs.lab.settings import WARM_START_SEED, EngineSettings, Objective, RunSettings, TrainerSettings
from sample_runs.lab.warm_start import warm_start

PROGRESS_EVERY = 10  # steps
SHORTER = 0.3  # of the warm start, which need not be good here
FROZEN = RunSettings(
    name="frozen_generator",
    title="Frozen generator, no correction",
    group="frozen_generator",
    seed=0,
    fault=("weight_sync",),
    what_is_wrong="weight_sync = never: the generator keeps its weights until a resync is asked for, and no ratio corrects for that",
    engine=EngineSettings(weight_sync="never"),
    objective=Objective(anchor="recomputed"),
    trainer=TrainerSettings(learning_rate=1e-3),
    made_by="python -m sample_runs.lab live",
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Start:
    """A run that has not begun."""

    settings: RunSettings
    weights: Weights
    step_seconds: float = 0.0  # a step takes at least so long


def started(steps: int, step_seconds: float) -> Start:
    """The frozen run with its warm start, which takes some seconds."""
    torch.set_num_threads(1)
    weights = warm_start(WARM_START_SEED, scale=SHORTER, progress=say)
    return Start(settings=replace(FROZEN, steps=steps), weights=weights, step_seconds=step_seconds)


def live(start: Start, out: Path, *, after: int, signal: str = "", progress: Callable[[str], None] = say) -> Path:
    """Train a run, write its folder anew and step by step, and resynchronise its generator when that is asked for.

    Args:
        start: the run.
        out: parent of its folder.
        after: it ends so many steps after a resync.
        signal: where resyncs are asked for; the run's folder where not given.
        progress: told a line now and then.
    """
    from monitor.record import BackgroundRecorder, resync_taken, should_resync

    folder, settings = out / start.settings.name, start.settings
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "run.toml").write_text(run_toml(settings), encoding="utf-8")
    where, taken = signal or folder, list[int]()

    def resync(step: int) -> bool:
        if not should_resync(where):
            return False
        resync_taken(where, step)
        progress(f"{settings.name}: resynchronised after step {step}")
        taken.append(step)
        return True

    with BackgroundRecorder(folder) as recorder:
        begun = time.monotonic()
        for batch in train(settings, start.weights, resync):
            recorder.record(batch.step, **batch.columns)
            if batch.step % PROGRESS_EVERY == 0:
                progress(f"{settings.name}: step {batch.step} of {settings.steps}")
            if taken and batch.step >= taken[0] + after:
                break
            time.sleep(max(0.0, begun + start.step_seconds - time.monotonic()))
            begun = time.monotonic()
    return folder
