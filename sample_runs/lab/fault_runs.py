"""Writes runs of faults: which folders, from which weights, side by side in two processes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import numpy as np
import torch

from sample_runs.lab.faults import FAULTS, named, settings_of
from sample_runs.lab.folder import make_run
from sample_runs.lab.make import PROCESSES, say
from sample_runs.lab.model import Weights
from sample_runs.lab.settings import WARM_START_SEED, RunSettings
from sample_runs.lab.warm_start import warm_start


def make_faults(out: Path, only: Sequence[str], seeds: Sequence[int], steps: int, *, processes: int = PROCESSES) -> None:
    """Write a folder `<fault>-<strength>-seed<k>` for each run that is asked for and not there yet.

    Args:
        out: parent of the folders; the warm starts are kept there as well.
        only: faults, or runs of one strength as `<fault>-<strength>`; empty means all.
        seeds: of the runs.
        steps: optimizer steps of each.
        processes: how many run side by side.
    """
    runs = [run for run in asked(only, seeds, steps) if not (out / run.name / "steps.jsonl").exists()]
    out.mkdir(parents=True, exist_ok=True)
    for model in sorted({run.model for run in runs}):
        start_of(model, out)
    context = multiprocessing.get_context("spawn")  # a forked torch may hang
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        futures = [pool.submit(_make_one, run, out) for run in runs]
        for done, future in enumerate(as_completed(futures), start=1):
            say(f"{done} of {len(futures)}: {future.result().name}")


def asked(only: Sequence[str], seeds: Sequence[int], steps: int) -> list[RunSettings]:
    """The runs of some faults, or of all, in the order of the registry."""
    faults = [named(name.partition("-")[0]) for name in only]
    return [
        settings_of(fault, strength, seed, steps)
        for fault in FAULTS
        if not only or fault in faults
        for strength in fault.strengths
        if not only or {fault.name, f"{fault.name}-{strength}"} & set(only)
        for seed in seeds
    ]


def start_of(model: str, folder: Path) -> Weights:
    """A model's warm start, trained once and then read from `folder`."""
    path = folder / f"warm_start_{model}.npz"
    if not path.exists():
        torch.set_num_threads(1)
        weights = {name: value.numpy() for name, value in warm_start(WARM_START_SEED, model=model, progress=say).items()}
        np.savez(path, **weights)
    with np.load(path) as stored:
        return {name: torch.from_numpy(stored[name].copy()) for name in stored.files}


def _make_one(run: RunSettings, out: Path) -> Path:
    torch.set_num_threads(1)
    return make_run(run, start_of(run.model, out), out, lambda _line: None)
