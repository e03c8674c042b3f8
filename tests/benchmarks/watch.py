"""What does a look at a growing run cost, does it grow with the run, and how long from a part on disk to the network? Writes a section.

    python -m tests.benchmarks.watch [--parts 10000] [--trials 20] [--write]

A look is measured alone (`Follower.poll`) and with the alerts behind it (`Watcher.look`: the shipped rules, committed). What is new at each
look is one step: a part, or a line, an event for each metric, a history record. CPU time of one process, median of the looks; the wall time
of a commit is the disk's. The latency is that of a whole watch at its default interval, against a server on this machine.
"""

from __future__ import annotations

import argparse
import io
import os
import platform
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from unittest import mock

import numpy as np

from ingest.readers._wandb_frames import HEADER, Losses, whole_records
from monitor.alerts.policy import AlertRule, Policy, default_policy
from monitor.alerts.store import AlertStore
from monitor.metrics import stored
from monitor.record import Recorder, files
from monitor.watch.follow import follow
from monitor.watch.loop import Options, Watcher
from tests import wandb_files
from tests.benchmarks import page
from tests.ingest.container_samples import event_file
from tests.monitor.alerts.servers import serving
from tests.monitor.watch.runs import append, lag_for

FEW, LOOKS, METRICS, WIDE, SEQUENCE = 10, 30, 14, 50, 16
LARGE = 200_000  # tokens of a part as a trainer on a few GPUs writes it

Grow = Callable[[int], None]


def main() -> None:
    """Measure, print the section; `--write` puts it where it belongs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", type=int, default=10_000)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text = section(Path(folder), arguments.parts, arguments.trials)
    if arguments.write:
        page.put(text)
    sys.stdout.write(text)


def section(folder: Path, many: int, trials: int) -> str:
    """The section, from one run."""
    few, lots = (parts_rows(folder / f"parts{count}", count) for count in (FEW, many))
    lines = [line for kind in (jsonl, pipelinerl, events, records) for line in file_rows(folder, kind, many)]
    waits = latencies(folder / "latency", trials)
    rows = [
        "",
        "## Watching",
        "",
        f"Written by `python -m tests.benchmarks.watch --write`: CPU time of one process, median of {LOOKS} looks;",
        f"Python {platform.python_version()}, {os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}. The columns are the steps",
        "that the run had before. Parts of 64 tokens where nothing else is said, their sums beside them. The first look costs a loading.",
        "",
        f"| what | {FEW} | {many:,} |",
        "|---|---|---|",
        *(f"| {what}, ms | {one:.2f} | {two:.2f} |" for (what, one), (_, two) in zip(few, lots, strict=True)),
        *lines,
        "",
        "From a part's final name to the request at a server on this machine, at the default interval of 1 s:",
        f"least {min(waits):.2f} s, median {median(waits):.2f} s, most {max(waits):.2f} s of {trials} (target: under 2 s).",
        "",
    ]
    return "\n".join(rows)


def parts_rows(run: Path, count: int) -> list[tuple[str, float]]:
    """What looks at a recorded run cost, in milliseconds."""
    with mock.patch.object(files, "_sync"):  # a disk that waits is no part of what is measured
        recorder = Recorder(run)
        for step in range(count):
            part(recorder, step)
        rows = [("parts: the first look, at all of them", first_look(run))]
        follower = follow(str(run))
        follower.poll()
        rows.append(("parts: a look that finds nothing new", looks(follower.poll, lambda _: None, count)))
        rows.append(("parts: a look that finds one new part", looks(follower.poll, lambda step: part(recorder, step), count)))
        rows.append(
            (f"the same, a part of {LARGE:,} tokens", looks(follower.poll, lambda step: part(recorder, step, LARGE), count + LOOKS, 5))
        )
        bare = looks(follower.poll, lambda step: stored.beside(part(recorder, step, LARGE)).unlink(), count + LOOKS + 5, 5)
        rows.append(("the same, its sums not there yet", bare))
        store = AlertStore(run.with_suffix(".sqlite"))
        watcher = Watcher([str(run)], default_policy(), store, lambda _: None)
        watcher.look()
        first = count + LOOKS + 10
        rows.append(("parts: a look of a watch that finds nothing new", looks(watcher.look, lambda _: None, first)))
        rows.append(("parts: a look of a watch that finds one new part", looks(watcher.look, lambda step: part(recorder, step), first)))
        store.close()
    return rows


def file_rows(folder: Path, kind: Callable[[Path, int], tuple[Path, Grow]], many: int) -> Iterator[str]:
    """Rows of the table for a file of a kind."""
    found = []
    for count in (FEW, many):
        path, grow = kind(folder / f"{kind.__name__}{count}", count)
        follower = follow(str(path))
        follower.poll()
        found.append((looks(follower.poll, lambda _: None, count), looks(follower.poll, grow, count)))
    few = f"{METRICS} metrics"
    named = {
        "jsonl": f"JSONL, {few}",
        "pipelinerl": f"the same of PipelineRL without a batch size, {WIDE} metrics",
        "events": f"TensorBoard, {few}",
        "records": f"`.wandb`, {few}",
    }[kind.__name__]
    yield f"| {named}: a look that finds nothing new, ms | {found[0][0]:.2f} | {found[1][0]:.2f} |"
    yield f"| {named}: a look that finds one new step, ms | {found[0][1]:.2f} | {found[1][1]:.2f} |"


def first_look(run: Path) -> float:
    """All that a follower does at first."""
    begun = time.process_time()
    follow(str(run)).poll()
    return (time.process_time() - begun) * 1e3


def looks(look: Callable[[], object], grow: Grow, first: int, count: int = LOOKS) -> float:
    """Median CPU time of looks, in milliseconds, each after one more step."""
    taken = []
    for step in range(first, first + count):
        grow(step)
        begun = time.process_time()
        look()
        taken.append((time.process_time() - begun) * 1e3)
    return median(taken)


def part(recorder: Recorder, step: int, tokens: int = 64, ess: float = 1.0) -> Path:
    """One recorded step."""
    ids, engine = np.arange(tokens) // SEQUENCE, np.full(tokens, -1.0)
    lag = np.resize(lag_for(ess), tokens)
    places = np.arange(tokens) % SEQUENCE
    return recorder.record(
        step, sample_id=ids, position=places, rollout_logprob=engine, same_weights_logprob=engine, current_logprob=engine + lag
    )


def row(step: int) -> dict[str, float]:
    """Metrics of one step, of which half are words of ours."""
    ours = {"ess.lag.token": 0.9, "reward.mean": 1.0, "kl.total.k3": 0.1}
    return ours | {f"train/other_{place}": step + place for place in range(METRICS - len(ours))}


def jsonl(folder: Path, count: int) -> tuple[Path, Grow]:
    """A step log."""
    folder.mkdir()
    path = folder / "log.jsonl"
    append(path, *({"step": step, **row(step)} for step in range(count)))
    return path, lambda step: append(path, {"step": step, **row(step)})


def pipelinerl(folder: Path, count: int) -> tuple[Path, Grow]:
    """A step log whose samples per optimizer step only the course of a counter over all of it says."""
    folder.mkdir()
    path = folder / "log.jsonl"

    def line(step: int) -> dict[str, float]:
        own = {"stats/completed_steps": step, "stats/lag": 128, "stats/samples": 64 * step, "rl/ess": 0.9}
        return own | {f"rl/other_{place}": step + place for place in range(WIDE - len(own))}

    append(path, *(line(step) for step in range(count)))
    return path, lambda step: append(path, line(step))


def events(folder: Path, count: int) -> tuple[Path, Grow]:
    """An event file."""
    folder.mkdir()
    path = folder / "events.out.tfevents.1764000000.host.0"
    path.write_bytes(event_file((step, row(step)) for step in range(count)))
    head = len(event_file([]))

    def grow(step: int) -> None:
        with path.open("ab") as file:
            file.write(event_file([(step, row(step))])[head:])

    return path, grow


def records(folder: Path, count: int) -> tuple[Path, Grow]:
    """A record file."""
    folder.mkdir()
    path = folder / "run-abc.wandb"
    made = [wandb_files.run("abc", name="v1"), *wandb_files.steps(count + LOOKS, keys=tuple(row(0)))]
    content = wandb_files.file(made)
    ends = [end for _, end, _ in whole_records(io.BytesIO(content), 0, Losses(), HEADER)]
    path.write_bytes(content[: ends[count]])

    def grow(step: int) -> None:
        with path.open("ab") as file:
            file.write(content[ends[step] : ends[step + 1]])

    return path, grow


def latencies(run: Path, trials: int) -> list[float]:
    """Seconds from a part under its name to a request at a server, one part after the other crossing the line."""
    recorder, stop = Recorder(run), threading.Event()
    store = AlertStore(run.with_suffix(".sqlite"))
    quick = Policy(rules=(AlertRule(id="ess", metric="ess.lag.token", threshold=0.5, cooldown_s=0, cap=10 * trials),))
    waits, phases = [], random.Random(20261130)  # noqa: S311 - times for a benchmark
    with serving() as served:
        watcher = Watcher([str(run)], quick, store, lambda _: None, Options(notify=(f"json://{served.host}",)))

        def watch() -> None:
            while not stop.is_set():
                begun = time.monotonic()
                watcher.look()
                watcher._serve(max(0.02, 1.0 - (time.monotonic() - begun)))  # its own loop never ends

        thread = threading.Thread(target=watch)
        thread.start()
        time.sleep(3)
        for step in range(trials):
            served.arrived.clear()
            landed = part(recorder, step, ess=1.0 if step % 2 else 0.2)
            served.arrived.wait(10)
            waits.append(time.time() - landed.stat().st_ctime)  # when it got its name
            time.sleep(phases.uniform(0.1, 1.1))  # so that parts land at all places of the interval
        stop.set()
        thread.join()
    store.close()
    return waits


if __name__ == "__main__":
    main()
