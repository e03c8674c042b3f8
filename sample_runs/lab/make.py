"""Makes the sample runs: a warm start for each task, then the runs side by side in two processes of one thread each."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from pathlib import Path

import numpy as np
import torch

from sample_runs.lab import study_policy
from sample_runs.lab.chart_csv import write_charts
from sample_runs.lab.folder import make_run, train_and_log
from sample_runs.lab.runs import CHART_RUNS, RUNS
from sample_runs.lab.settings import WARM_START_SEED, RunSettings
from sample_runs.lab.step_log import Line
from sample_runs.lab.study_samples import SAMPLES, Sample, make_sample
from sample_runs.lab.warm_start import warm_start

PROCESSES = 2
CHARTS_FOLDER = "wandb_export"

Arrays = dict[str, np.ndarray]


def make(out: Path, only: Sequence[str] = ()) -> None:
    """Make all runs and the chart exports, or only those named.

    Args:
        out: folder the run folders go to.
        only: names of runs, or `wandb_export`; empty means everything.
    """
    started = time.perf_counter()
    torch.set_num_threads(1)
    samples = [sample for sample in SAMPLES if not only or sample.settings.name in only]
    shorter = [run for run in RUNS if not only or run.name in only]
    weights = _started(warm_start) if shorter or CHARTS_FOLDER in only else {}
    longer_weights = _started(study_policy.warm_start) if samples else {}
    context = multiprocessing.get_context("spawn")  # a forked torch may hang
    with ProcessPoolExecutor(PROCESSES, mp_context=context) as pool:
        folders = [pool.submit(_make_one, run, weights, out) for run in shorter]
        folders += [pool.submit(_make_sample, sample, longer_weights, out) for sample in samples]
        charts = {run.name: pool.submit(_log_one, run, weights) for run in CHART_RUNS if not only or CHARTS_FOLDER in only}
        _wait([*folders, *charts.values()])
    if charts:
        write_charts(out / CHARTS_FOLDER, {name: future.result() for name, future in charts.items()})
    say(f"done in {time.perf_counter() - started:.0f} s: {len(folders)} runs, {len(charts)} exported")


def names() -> list[str]:
    """What may be made alone."""
    return [*(run.name for run in RUNS), *(sample.settings.name for sample in SAMPLES), CHARTS_FOLDER]


def say(line: str) -> None:
    """Print a line of progress at once."""
    print(line, flush=True)


def _make_one(run: RunSettings, weights: Arrays, out: Path) -> Path:
    return make_run(run, _tensors(weights), out, say)


def _make_sample(sample: Sample, weights: Arrays, out: Path) -> Path:
    return make_sample(sample, _tensors(weights), out, say)


def _log_one(run: RunSettings, weights: Arrays) -> list[Line]:
    lines, _ = train_and_log(run, _tensors(weights), lambda _step, _columns, _kv_age: None, say)
    return lines


def _started(warm: Callable[..., dict[str, torch.Tensor]]) -> Arrays:
    return {name: value.numpy() for name, value in warm(WARM_START_SEED, progress=say).items()}


def _tensors(weights: Arrays) -> dict[str, torch.Tensor]:
    torch.set_num_threads(1)
    return {name: torch.from_numpy(value.copy()) for name, value in weights.items()}


def _wait(futures: list[Future]) -> None:
    for done, future in enumerate(as_completed(futures), start=1):
        future.result()
        say(f"{done} of {len(futures)} finished")
