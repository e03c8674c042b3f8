"""The study's results as one document: settings, seeds, cost, and every number that its page is made of."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sample_runs.lab import study_policy, study_task
from sample_runs.lab.study_catalogue import INDEPENDENT, REFERENCES, SEEDS
from sample_runs.lab.study_extras import collected
from sample_runs.lab.study_settings import CAP, FIXED_TRIGGER, FIXED_VARIANT, METHODS, WARM_START_SEED, Scale, StudyRun

SERIES = (
    "reward.mean", "ess.lag.sequence", "ess.lag.token", "log_ratio.discrepancy.abs_mean", "kl.lag", "entropy.mean", "grad_norm",
)  # fmt: skip
COUNTS = ("resyncs", "discarded")
WINDOW = 10  # steps up to a checkpoint that its step figures are averaged over
SIGNIFICANT = 4

Document = dict[str, Any]


def results(runs: Iterable[StudyRun], scale: Scale, cache: Path) -> Document:
    """Read what the runs left in the cache.

    Args:
        runs: all made and measured.
        scale: theirs.
        cache: where they lie.
    """
    rows, runs = dict[str, Document](), tuple(runs)
    for run in runs:
        row = rows.setdefault(run.row, {**_head(run), "seeds": {}})
        row["seeds"][str(run.seed)] = _seed(run, scale, cache)
    made_with = {"python": platform.python_version(), "torch": torch.__version__, "numpy": np.__version__, "machine": platform.machine()}
    cost = {"cpu_s": sum(seed["cpu_s"] for row in rows.values() for seed in row["seeds"].values())}
    return {"made_with": made_with, "settings": settings(scale), "cost": cost, "rows": rows} | collected(runs, cache)


def settings(scale: Scale) -> Document:
    """What all runs share, and what was decided before them."""
    task = {name.lower(): getattr(study_task, name) for name in ("DIGITS", "CHATTER", "PROMPT", "RESPONSE", "SAME_WORD")}
    return {
        "scale": asdict(scale),
        "task": task,
        "warm_start": {"seed": WARM_START_SEED, "parts": study_policy.PARTS, "sum_weight": study_policy.SUM_WEIGHT},
        "fixed_before_the_runs": {"variant": FIXED_VARIANT, "cap": CAP, "trigger": FIXED_TRIGGER},
        "seeds": {"references": REFERENCES, "independent": INDEPENDENT, "methods": SEEDS},
    }


def _head(run: StudyRun) -> Document:
    return {"method": run.method, "title": METHODS[run.method].title, "sync": str(run.sync), "every": run.every, "engine": run.engine}


def _seed(run: StudyRun, scale: Scale, cache: Path) -> Document:
    log = json.loads((cache / f"{run.key}.json").read_text())
    steps, measured = log["steps"], json.loads((cache / f"{run.key}.measured.json").read_text())
    coarse = cache / f"{run.key}.coarse.json"
    more = json.loads(coarse.read_text()) if coarse.exists() else {}
    at = {step: values | more.get(step, {}) | _window(steps, int(step)) for step, values in measured.items()}
    totals = {name: int(steps[name][scale.steps - 1]) for name in COUNTS}
    lowest = {f"{name}.min": min(steps[name]) for name in ("ess.lag.sequence", "ess.lag.token")}
    return {"at": at, "cpu_s": log["cpu_s"], **totals, **lowest, "series": {name: steps[name] for name in SERIES}}


def _window(steps: dict[str, list[float]], step: int) -> Document:
    """Step figures as means over the last WINDOW steps up to a checkpoint; at the start, those of the first step."""
    chosen = slice(max(0, step - WINDOW), step) if step else slice(0, 1)
    names = [name for name in steps if name not in (*COUNTS, "cpu_s")]
    return {f"step.{name}": float(f"{np.mean(steps[name][chosen]):.{SIGNIFICANT}g}") for name in names}
