"""What the study measures beside its runs: gradient fidelity, coarse engines at checkpoints, the spread of the advantage."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from sample_runs.lab.model import Weights
from sample_runs.lab.study_catalogue import COARSE, COARSER, FIDELITY_AT, FIDELITY_RUNS, SEEDS, SPREAD_AT
from sample_runs.lab.study_centre import coarse_figures, spread_of_advantage
from sample_runs.lab.study_gradients import fidelity
from sample_runs.lab.study_loop import Study
from sample_runs.lab.study_measure import texts_of
from sample_runs.lab.study_run import Say, checkpoints, fresh, settings_of
from sample_runs.lab.study_settings import Scale, StudyRun

SIGNIFICANT = 4
FIXED_TEXTS = 128


def fidelities(run: StudyRun, scale: Scale, start: Weights, cache: Path, say: Say) -> Path:
    """Compare gradients along one run, at the steps of FIDELITY_AT; a JSON file."""
    path = cache / f"{run.key}.fidelity.json"
    settings = settings_of(run, scale)
    if path.exists() and json.loads(path.read_text())["settings"] == settings:
        return path
    study, found = Study(run, scale, start), []
    while True:
        if study.step in FIDELITY_AT:
            found.append(fidelity(study, seed=1000 * run.seed + study.step))
            say(f"gradients of {run.key} compared at step {study.step}")
        if study.step >= min(max(FIDELITY_AT), scale.steps):
            break
        study.take_step()
    path.write_text(json.dumps({"settings": settings, "steps": _rounded(found)}), encoding="utf-8")
    return path


def coarse(run: StudyRun, start: Weights, cache: Path) -> Path:
    """Checkpoints of a run as its coarse engine holds them; a JSON file."""
    path = cache / f"{run.key}.coarse.json"
    if fresh(path, [run], cache):
        return path
    fixed, found = texts_of(start, FIXED_TEXTS), {}
    for step, checkpoint in checkpoints(run, cache).items():
        own = texts_of(checkpoint.weights, FIXED_TEXTS)
        found[str(step)] = coarse_figures(checkpoint.weights, start, run.engine, own, fixed)
    path.write_text(json.dumps(_rounded(found)), encoding="utf-8")
    return path


def spread(run: StudyRun, step: int, cache: Path) -> Path:
    """Spread of the advantage at prefixes, at one checkpoint of a run; a JSON file."""
    path = cache / f"{run.key}-{step}.spread.json"
    if fresh(path, [run], cache):
        return path
    found = spread_of_advantage(checkpoints(run, cache)[step].weights, run.engine)
    path.write_text(json.dumps(_rounded({"row": run.row, "seed": run.seed, "step": step} | found)), encoding="utf-8")
    return path


def tasks(runs: Iterable[StudyRun], scale: Scale, start: Weights, cache: Path, say: Say) -> list[tuple[object, ...]]:
    """Functions of this module with their arguments: all that is to be measured beside the runs."""
    runs = tuple(runs)
    at = [step for step in SPREAD_AT if step in scale.evaluate_at]
    return [
        *((coarse, run, start, cache) for run in runs if run.engine in {COARSE, COARSER}),
        *((spread, run, step, cache) for run in runs if run.engine in {COARSE, COARSER} and _enumerated(run) for step in at),
        *((fidelities, run, scale, start, cache, say) for run in FIDELITY_RUNS if run in runs),
    ]


def collected(runs: Iterable[StudyRun], cache: Path) -> dict[str, object]:
    """All of it, read from the cache."""
    runs, read = tuple(runs), lambda path: json.loads(path.read_text())
    return {
        "fidelity": _fidelities([run for run in FIDELITY_RUNS if run in runs], cache),
        "spread": [read(path) for run in runs for path in sorted(cache.glob(f"{run.key}-*.spread.json"))],
    }


def _fidelities(runs: Iterable[StudyRun], cache: Path) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = {}
    for run in runs:
        found.setdefault(run.row, {})[str(run.seed)] = json.loads((cache / f"{run.key}.fidelity.json").read_text())["steps"]
    return found


def _enumerated(run: StudyRun) -> bool:
    return run.method == "dlc_sequence" and run.seed == SEEDS[0]


def _rounded(value: object) -> object:
    if isinstance(value, dict):
        return {key: _rounded(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_rounded(part) for part in value]
    return float(f"{value:.{SIGNIFICANT}g}") if isinstance(value, float) else value
