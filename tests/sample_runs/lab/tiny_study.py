"""A study of seconds: an untrained policy, few responses, and a reward that it can earn."""

from __future__ import annotations

from dataclasses import replace

from sample_runs.lab.study_loop import Study
from sample_runs.lab.study_settings import Scale, StudyRun, Sync

TINY = Scale(groups=2, samples=4, steps=3, evaluate_at=(0, 1, 3), learning_rate=2e-3, prompts=6)


def study_of(begun, *, method="none", sync=Sync.NEVER, engine="fp8_e4m3", seed=3, every=1, **scale):
    run = StudyRun(method=method, sync=sync, engine=engine, seed=seed, every=every)
    return Study(run, replace(TINY, **scale), begun)
