"""One run of the study on disk: trained once, then found again; its distance from the references once those are there."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path

import torch

from sample_runs.lab.model import Weights
from sample_runs.lab.study_loop import Stepped, Study
from sample_runs.lab.study_measure import NOWHERE, Checkpoint, Policy, distance, moved, policy, quality
from sample_runs.lab.study_settings import Scale, StudyRun

SIGNIFICANT = 4  # digits kept
PROGRESS_EVERY = 20  # steps
TEXTS = 64  # of a generator that are kept at a checkpoint

Say = Callable[[str], None]


def made(run: StudyRun, scale: Scale, start: Weights, cache: Path, say: Say) -> Path:
    """Train a run unless the cache has it with these very settings; gives the file of its log."""
    log, checkpoints = cache / f"{run.key}.json", cache / f"{run.key}.pt"
    settings = settings_of(run, scale)
    if log.exists() and checkpoints.exists() and json.loads(log.read_text())["settings"] == settings:
        return log
    started, columns, kept = time.process_time(), dict[str, list[float]](), dict[int, Checkpoint]()
    study = Study(run, scale, start)
    for stepped in study.train():
        for name, value in stepped.figures.items():
            columns.setdefault(name, []).append(float(f"{value:.{SIGNIFICANT}g}"))
        if stepped.step == 1 and 0 in scale.evaluate_at:
            kept[0] = _checkpoint(dict(start), stepped)
        if stepped.step in scale.evaluate_at:
            kept[stepped.step] = _checkpoint(study.snapshot(), stepped)
        if stepped.step % PROGRESS_EVERY == 0:
            say(f"{run.key}: step {stepped.step} of {scale.steps}, reward {stepped.figures['reward.mean']:.2f}")
    torch.save({step: vars(one) for step, one in kept.items()}, checkpoints)
    found = {"settings": settings, "cpu_s": round(time.process_time() - started, 1), "steps": columns}
    log.write_text(json.dumps(found), encoding="utf-8")
    return log


def checkpoints(run: StudyRun, cache: Path) -> dict[int, Checkpoint]:
    """A finished run's checkpoints by step."""
    return {step: Checkpoint(**parts) for step, parts in torch.load(cache / f"{run.key}.pt", weights_only=True).items()}


def evaluated(run: StudyRun, references: list[StudyRun], start: Weights, scale: Scale, cache: Path) -> Path:
    """Measure a finished run at its checkpoints, against the finished references without itself; gives the file."""
    path = cache / f"{run.key}.measured.json"
    if fresh(path, [run, *references], cache):
        return path
    others, found, begun = [one for one in references if one != run], {}, _starting_policy(start, scale, cache)
    for step, checkpoint in checkpoints(run, cache).items():
        if step:
            x = policy(checkpoint.weights, scale.prompts)
            on = [reference_policy(one, step, scale, cache) for one in others]
            values = quality(x) | asdict(distance(x, checkpoint, on)) | {"moved": moved(x, begun)}
        else:  # where all runs are one
            values = quality(begun) | asdict(NOWHERE) | {"moved": 0.0}
        found[step] = {name: float(f"{value:.{SIGNIFICANT}g}") for name, value in values.items()}
    path.write_text(json.dumps(found), encoding="utf-8")
    return path


def fresh(path: Path, runs: Iterable[StudyRun], cache: Path) -> bool:
    """Whether a measurement is there and younger than the runs it was made of."""
    return path.exists() and path.stat().st_mtime >= max((cache / f"{run.key}.pt").stat().st_mtime for run in runs)


def settings_of(run: StudyRun, scale: Scale) -> dict[str, object]:
    """What decides a run's outcome, as JSON gives it back."""
    found: dict[str, object] = json.loads(json.dumps({"run": asdict(run), "scale": asdict(scale)}))
    return found


_POLICIES: dict[tuple[Path, str, int], Policy] = {}  # of this process: references and the start are asked for by every run


def reference_policy(run: StudyRun, step: int, scale: Scale, cache: Path) -> Policy:
    """A reference's policy at a step, with its own texts."""
    if (cache, run.key, step) not in _POLICIES:
        _POLICIES[cache, run.key, step] = policy(checkpoints(run, cache)[step].weights, scale.prompts)
    return _POLICIES[cache, run.key, step]


def _starting_policy(start: Weights, scale: Scale, cache: Path) -> Policy:
    if (cache, "", 0) not in _POLICIES:
        _POLICIES[cache, "", 0] = policy(start, scale.prompts)
    return _POLICIES[cache, "", 0]


def _checkpoint(weights: Weights, stepped: Stepped) -> Checkpoint:
    sampled = stepped.scored.sampled
    return Checkpoint(weights=weights, stale_texts=sampled.texts[:TEXTS].clone(), stale_mask=sampled.mask[:TEXTS].clone())
