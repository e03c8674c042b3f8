"""What does recording a step of 1M tokens cost the training, as a share of the step? Writes a section of docs/benchmarks.md.

    python -m tests.benchmarks.recorder [--tokens 1000000] [--write]

The step is the laboratory's own, per token, on one thread: a trainer of any larger model takes longer, and the shares become smaller.
Nothing here is a test: a shared machine may be slow at any time, which wall times show and CPU times do not.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import numpy as np
import torch

from monitor.record import BackgroundRecorder, Recorder
from sample_runs.lab.engine import Engine, Response
from sample_runs.lab.model import initial_weights
from sample_runs.lab.pipeline import requests
from sample_runs.lab.settings import RunSettings
from sample_runs.lab.trainer import Trainer
from tests.benchmarks.kernel import log
from tests.benchmarks.page import put

ROUNDS = 15
STEPS_AT_ONCE = 12  # of the laboratory, about as long as a step of 1M tokens is being written

Columns = dict[str, np.ndarray]


@dataclass(frozen=True, kw_only=True)
class Spent:
    """Seconds of one call."""

    wall: float
    thread: float  # CPU time of the calling thread


def main() -> None:
    """Run every measurement and print the section; `--write` puts it where it belongs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=1_000_000)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    table = log(arguments.tokens)
    columns = {name: table.column(name).to_numpy().copy() for name in table.column_names if name != "step"}
    with tempfile.TemporaryDirectory() as folder:
        text = section(columns, Path(folder))
    if arguments.write:
        put(text)
    sys.stdout.write(text)


def section(columns: Columns, folder: Path) -> str:
    """The section, from one run."""
    training = LabTraining()
    copies = [spent(lambda: [value.copy() for value in columns.values()]) for _ in range(ROUNDS)]
    calls, written, alone, beside = in_background(columns, folder / "background", training)
    plain, numbers = Recorder(folder / "plain"), count()
    waited = [spent(lambda: plain.record(next(numbers), **columns)) for _ in range(ROUNDS)]
    lost = statistics.median(busy.wall - idle.wall for busy, idle in zip(beside, alone, strict=True))
    of_all = len(columns["position"]) / (training.tokens * STEPS_AT_ONCE)
    cpu, wall = middle(alone, "thread") * of_all, middle(alone, "wall") * of_all
    rows = [
        _row("a step: the laboratory's trainer on one thread, from its time per token: CPU time", cpu, cpu),
        _row("copying the arrays, and nothing else", middle(copies, "thread"), cpu),
        _row("`BackgroundRecorder.record`; target: 1 %", middle(calls, "thread"), cpu),
        _row("the recorder's own thread: what a training that leaves no core idle loses besides", statistics.median(written), cpu),
        _row("the same step: wall time", wall, wall),
        _row("`BackgroundRecorder.record`", middle(calls, "wall"), wall),
        _row(f"the slowest of {ROUNDS} calls", max(call.wall for call in calls), wall),
        _row("what the training loses while a part is written, median of pairs with and without", lost, wall),
        _row("`Recorder.record`, which waits for the disk", middle(waited, "wall"), wall),
    ]
    return "\n".join([_head(columns), *rows, ""])


def in_background(columns: Columns, folder: Path, training: LabTraining) -> tuple[list[Spent], list[float], list[Spent], list[Spent]]:
    """Record, and train meanwhile: the calls, the CPU time of the recorder's thread, the training alone, and beside the recorder."""
    calls, written, alone, beside = list[Spent](), list[float](), list[Spent](), list[Spent]()
    with BackgroundRecorder(folder) as recorder:
        for number in range(ROUNDS):
            alone.append(spent(training.some_steps))
            before = time.process_time() - time.thread_time()
            calls.append(spent(lambda number=number: recorder.record(number, **columns)))
            beside.append(spent(training.some_steps))
            recorder.flush(timeout_s=600)
            written.append(time.process_time() - time.thread_time() - before)
        assert (recorder.recorded, recorder.dropped, recorder.failures) == (ROUNDS, 0, 0)
    return calls, written, alone, beside


class LabTraining:
    """Optimizer steps of the laboratory on one batch, again and again: the same work each time."""

    def __init__(self) -> None:
        settings = RunSettings(name="benchmark", title="benchmark", seed=0)
        weights = initial_weights(0)
        engine = Engine(settings.engine, settings.sampling, weights, settings.seed)
        self._trainer, self._responses = Trainer(settings, weights), responses(settings, engine)
        self.tokens = sum(len(response.tokens) for response in self._responses)

    def step(self) -> None:
        """One step; the versions it leaves behind are not kept."""
        self._trainer.step(self._responses, queue_batches=0)
        for version in [version for version in self._trainer.history if version not in {0, self._trainer.version}]:
            del self._trainer.history[version]

    def some_steps(self) -> None:
        """About as much work as a part takes to be written."""
        for _ in range(STEPS_AT_ONCE):
            self.step()


@torch.no_grad()
def responses(settings: RunSettings, engine: Engine) -> list[Response]:
    """One batch."""
    incoming, found = requests(settings), list[Response]()
    engine.admit([next(incoming) for _ in range(settings.trainer.samples_per_step)])
    while len(found) < settings.trainer.samples_per_step:
        found += engine.tick()
    return sorted(found, key=lambda response: response.request.sample_id)


def spent(work: Callable[[], object]) -> Spent:
    """What a call takes."""
    wall, thread = time.perf_counter(), time.thread_time()
    work()
    return Spent(wall=time.perf_counter() - wall, thread=time.thread_time() - thread)


def middle(measured: list[Spent], which: str) -> float:
    """The median of one of the times."""
    return statistics.median(getattr(each, which) for each in measured)


def _row(what: str, seconds: float, step: float) -> str:
    said = f"{seconds:.3f} s" if abs(seconds) < 1 else f"{seconds:.1f} s"
    return f"| {what} | {said} | {seconds / step:.2%} |"


def _head(columns: Columns) -> str:
    cores = f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}"
    megabytes = sum(value.nbytes for value in columns.values()) / 1e6
    version = ".".join(map(str, sys.version_info[:3]))
    machine = f"Python {version}, {platform.machine()}, {cores}, numpy {np.__version__}, torch {torch.__version__}"
    return f"""## Recording from inside a training

Written by `python -m tests.benchmarks.recorder --write`: a step of {len(columns["position"]):,} tokens in {len(columns)} columns,
{megabytes:.0f} MB; medians of {ROUNDS} rounds; {machine}. Others were using the machine, so
read CPU times as times and wall times as shares.

| what | time | share of a step |
|---|---|---|"""


if __name__ == "__main__":
    main()
