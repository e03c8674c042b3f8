"""The study of the corrections, from seeds to a page: warm start, runs side by side in two processes, measurements, verdicts."""

from __future__ import annotations

import json
import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from pathlib import Path

import torch

from sample_runs.lab.make import say
from sample_runs.lab.model import Weights
from sample_runs.lab.study_bands import Document
from sample_runs.lab.study_catalogue import ON_POLICY, REFERENCES, RUNS
from sample_runs.lab.study_extras import tasks
from sample_runs.lab.study_page import figures, page
from sample_runs.lab.study_policy import warm_start
from sample_runs.lab.study_results import results
from sample_runs.lab.study_run import evaluated, made
from sample_runs.lab.study_settings import WARM_START_SEED, Scale

PROCESSES = 2
SCALE = Scale()


def study(out: Path, cache: Path) -> None:
    """Make what is missing, measure it, and write the results.

    Args:
        out: folder of dlc-study.json and dlc-study.md.
        cache: finished runs; those that are there with the same settings are not made again.
    """
    started, runs, scale = time.perf_counter(), RUNS, SCALE
    torch.set_num_threads(1)
    cache.mkdir(parents=True, exist_ok=True)
    begun = start(cache)
    references = [run for run in runs if run in ON_POLICY and run.seed in REFERENCES]
    with ProcessPoolExecutor(PROCESSES, mp_context=multiprocessing.get_context("spawn")) as pool:
        _wait("runs", [pool.submit(_one, made, run, scale, begun, cache, say) for run in runs])
        others = [pool.submit(_one, *task) for task in tasks(runs, scale, begun, cache, say)]
        _wait("measurements", [*(pool.submit(_one, evaluated, run, references, begun, scale, cache) for run in runs), *others])
    found = results(runs, scale, cache)
    (out / "dlc-study.json").write_text(json.dumps(found, separators=(",", ":")) + "\n", encoding="utf-8")
    write(found, out)
    say(f"done in {time.perf_counter() - started:.0f} s: {len(runs)} runs, {found['cost']['cpu_s']:.0f} CPU-seconds in all")


def write(document: Document, out: Path) -> None:
    """The page and its figures, from the document alone."""
    (out / "dlc-study.md").write_text(page(document), encoding="utf-8")
    for name, text in figures(document).items():
        (out / name).write_text(text, encoding="utf-8")


def start(cache: Path) -> Weights:
    """The warm start all runs share, made once."""
    path = cache / f"warm_start_{WARM_START_SEED}.pt"
    if not path.exists():
        torch.save(warm_start(WARM_START_SEED, progress=say), path)
    found: Weights = torch.load(path, weights_only=True)
    return found


def _one(function: Callable[..., Path], *arguments: object) -> Path:
    torch.set_num_threads(1)
    return function(*arguments)


def _wait(what: str, futures: list[Future[Path]]) -> None:
    for done, future in enumerate(as_completed(futures), start=1):
        say(f"{what}: {done} of {len(futures)}, {future.result().name}")
