"""Measure reading a `.wandb` file against decoding it with wandb's own protobuf classes, and write a section of docs/benchmarks.md.

    python -m tests.benchmarks.wandb_file [--steps 10000] [--metrics 50] [--write]

The file is written by wandb itself, offline. wandb has no reader of its own any more, so its classes get the records from our framing;
they are only made to parse, and their values to be collected, while ours are made into a run's table.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from ingest.readers import _wandb_frames as frames
from ingest.readers.wandb_run import READER
from tests.benchmarks import page

ROUNDS = 5
HISTORY = 0x12  # the byte a history record begins with, behind its number


def main() -> None:
    """Write a file, read it in each way, print the section; `--write` puts it where it belongs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--metrics", type=int, default=50)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = log(Path(folder), arguments.steps, arguments.metrics)
        text = section(path, arguments.steps, arguments.metrics)
    if arguments.write:
        page.put(text)
    sys.stdout.write(text)


def log(folder: Path, steps: int, metrics: int) -> Path:
    """A run as wandb writes it: normal numbers, seeded."""
    os.environ |= {"WANDB_MODE": "offline", "WANDB_SILENT": "true"}
    import wandb

    rng = random.Random(20261129)  # noqa: S311 - numbers for a benchmark
    settings = wandb.Settings(x_disable_stats=True, x_disable_meta=True, disable_code=True, disable_git=True, console="off")
    run = wandb.init(project="benchmark", id="benchmark", dir=folder, settings=settings)
    for step in range(steps):
        run.log({f"train/metric_{metric:02d}": rng.gauss(0, 1) for metric in range(metrics)}, step=step)
    run.finish()
    return next(folder.glob("wandb/*/*.wandb"))


def section(path: Path, steps: int, metrics: int) -> str:
    """The section, from one run."""
    import google.protobuf
    import wandb
    from google.protobuf.internal import api_implementation

    jobs: dict[str, Callable[[], int]] = {
        "this project: a run with its table and problems": lambda: ours(path),
        "wandb's classes, history records only": lambda: theirs(path, only_history=True),
        "wandb's classes, every record": lambda: theirs(path, only_history=False),
    }
    seconds = _best(jobs)
    floor, values = next(iter(seconds.values())), steps * metrics
    rows = [f"| {name} | {spent:.2f} | {spent / values * 1e6:.2f} | {spent / floor:.2f} |" for name, spent in seconds.items()]
    versions = f"Python {platform.python_version()}, wandb {wandb.__version__}, protobuf {google.protobuf.__version__}"
    kind = api_implementation.Type()
    head = f"""## A wandb record file

Written by `python -m tests.benchmarks.wandb_file --write`: CPU time of one thread, best of {ROUNDS}, all in one run.
{steps:,} steps of {metrics} metrics, {path.stat().st_size / 1e6:.1f} MB, written by wandb offline; {versions} ({kind}).
wandb has no reader any more: its classes get the records from our framing, are parsed, and their values collected in lists.

| what | seconds | µs per value | times ours |
|---|---|---|---|"""
    return "\n".join([head, *rows, ""])


def ours(path: Path) -> int:
    """Read the run."""
    return READER.read(path)[0].scalars.num_rows


def theirs(path: Path, *, only_history: bool) -> int:
    """Parse records with wandb's classes, and collect what was logged."""
    from wandb.proto.wandb_internal_pb2 import Record

    values: dict[str, list[float]] = {}
    for _, data in frames.records(path, 0, frames.Losses()):
        if only_history and HISTORY not in data[2:6]:
            continue
        record = Record()
        record.ParseFromString(data)
        for item in record.history.item:
            values.setdefault(item.nested_key[0], []).append(json.loads(item.value_json))
    return sum(len(column) for name, column in values.items() if not name.startswith("_"))


def _best(jobs: dict[str, Callable[[], int]]) -> dict[str, float]:
    """Smallest CPU time of each job over interleaved rounds; all must find the same number of values."""
    best = dict.fromkeys(jobs, float("inf"))
    found = set()
    for _ in range(ROUNDS):
        for name, job in jobs.items():
            before = time.thread_time()
            found.add(job())
            best[name] = min(best[name], time.thread_time() - before)
    if len(found) != 1:
        raise ValueError(f"the readers disagree: {found}")
    return best


if __name__ == "__main__":
    main()
