"""Measure the readers against what others need for the same files, and write their section of docs/benchmarks.md.

    python -m tests.benchmarks.readers [--write]

Everything is CPU time taken in one run, best of several rounds; the peak of memory is that of a process which does nothing else (Linux
only). TensorBoard is compared with only where it is installed: Ratiometer does not need it. Nothing here is a test: a shared machine may
be slow at any time.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import platform
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv

from ingest.load import load
from ingest.readers import csv_log, jsonl, tensorboard, wandb_csv
from ingest.readers._crc32c import masked
from monitor.metrics.frame import metric_frame

ROUNDS = 3
STEPS = 100_000
EVENT_STEPS, EVENT_TAGS = 10_000, 50
RUNS = ("v0 - seed 1", "v1-broken", "v1-fixed")
METRIC = "rl/kl_new_old"
KEYS = (
    "rl/ess", METRIC, "rl/reward", "rl/entropy", "rl/loss", "rl/advantage", "rl/ratio_new_old", "rl/new_logprobs", "rl/old_logprobs",
    "rl/kl", "rl/max_kl", "rl/min_kl", "stats/grad_norm", "stats/lr",
)  # fmt: skip
PAGE = Path("docs/benchmarks.md")
TITLE = "## Readers"
_PEAK = r"""
import re, sys
from pathlib import Path
path = Path(sys.argv[1])
{read}
print(int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) // 1024)
"""
_NOTHING = "import ingest.load; import pandas"  # which pyarrow imports at the first list
_READ = "from ingest.readers import {module}; {module}.READER.read(path)"
_LOAD = "from ingest.load import load; load(path)"
_TARGET_CSV = "target: 2"
_TARGET_JSONL = "target: 2 s, 200 MB"


def main() -> None:
    """Run every measurement and print the section; `--write` puts it in the place of the last one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    pa.set_cpu_count(1)  # pyarrow would read the columns of a CSV file side by side; CPU times stay comparable with one thread
    with tempfile.TemporaryDirectory() as folder:
        text = section(Path(folder))
    if arguments.write:
        _put(text)
    sys.stdout.write(text)


def section(folder: Path) -> str:
    """The section, from one run."""
    return "\n".join([_head(), *_csv_rows(folder), *_jsonl_rows(folder), *_event_rows(folder), ""])


def _csv_rows(folder: Path) -> list[str]:
    chart, table = folder / "chart.csv", folder / "log.csv"
    write_chart(chart)
    write_table(table)
    seconds = _best(
        {
            "pyarrow.csv, chart": lambda: arrow_csv.read_csv(chart),
            "chart": lambda: wandb_csv.READER.read(chart),
            "chart, as runs": lambda: load(chart),
            "pyarrow.csv, log": lambda: arrow_csv.read_csv(table),
            "log": lambda: csv_log.READER.read(table),
        }
    )
    floor, other = seconds["pyarrow.csv, chart"], seconds["pyarrow.csv, log"]
    name = f"wandb chart, 3 runs x {STEPS:,} steps, with __MIN and __MAX"
    return [
        _row(name, "pyarrow.csv", floor, floor),
        _row("", "read", seconds["chart"], floor),
        _row("", f"read and understood (`load`); {_TARGET_CSV}", seconds["chart, as runs"], floor),
        _row("", "metric frames of those runs, nothing read (`metric_frame`)", _frames(chart), floor),
        _row(f"CSV log, {STEPS:,} steps x {len(KEYS)} metrics", "pyarrow.csv", other, other),
        _row("", "read", seconds["log"], other),
    ]


def _jsonl_rows(folder: Path) -> list[str]:
    path = folder / "log.jsonl"
    write_jsonl(path)
    lines = path.read_bytes().splitlines()
    seconds = _best(
        {
            "json.loads": lambda: [json.loads(line) for line in lines],
            "read": lambda: jsonl.READER.read(path),
            "as a run": lambda: load(path),
        }
    )
    floor = seconds["json.loads"]
    peaks = {"nothing": _peak(_NOTHING, path), "read": _peak(_READ.format(module="jsonl"), path), "as a run": _peak(_LOAD, path)}
    return [
        _row(f"JSONL, {STEPS:,} steps x {len(KEYS)} metrics", "json.loads of every line, nothing kept", floor, floor),
        _row("", f"read; the process peaks at {peaks['read']} MiB, {peaks['nothing']} of them imports", seconds["read"], floor),
        _row("", f"read and understood (`load`); at {peaks['as a run']} MiB, imports too; {_TARGET_JSONL}", seconds["as a run"], floor),
        _row("", "metric frame of that run, nothing read (`metric_frame`)", _frames(path), floor),
    ]


def _event_rows(folder: Path) -> list[str]:
    events = folder / "events"
    write_events(events)
    points = EVENT_STEPS * EVENT_TAGS
    own = _best({"read": lambda: tensorboard.READER.read(events)})["read"]
    name = f"TensorBoard, {points:,} scalars"
    if importlib.util.find_spec("tensorboard") is None:
        sys.stderr.write("tensorboard is not installed here, so its EventAccumulator is not compared with.\n")
        return [f"| {name} | read, every point | {own:.2f} | (tensorboard was not installed) |"]
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    before = time.process_time()
    peer = EventAccumulator(str(events), size_guidance={"scalars": 0})
    peer.Reload()
    assert sum(len(peer.Scalars(tag)) for tag in peer.Tags()["scalars"]) == points
    spent = time.process_time() - before
    peak = _peak(_READ.format(module="tensorboard"), events)
    return [
        _row(name, "EventAccumulator, `size_guidance` unlimited", spent, spent),
        _row("", f"read, every point, checksums verified; the process peaks at {peak} MiB", own, spent),
    ]


def write_chart(path: Path) -> None:
    """A chart export as wandb writes it: all cells quoted, the envelope repeating the values."""
    names = ["Step", *(f"{run} - {METRIC}{end}" for run in RUNS for end in ("", "__MIN", "__MAX"))]
    values = np.random.default_rng(1).lognormal(-5, 1, (STEPS, len(RUNS)))
    with path.open("w", encoding="utf-8") as file:
        file.write(",".join(f'"{name}"' for name in names) + "\n")
        for step, row in enumerate(values.tolist()):
            file.write(",".join([f'"{step}"', *(f'"{value}"' for value in row for _ in range(3))]) + "\n")


def write_table(path: Path) -> None:
    """A CSV log, unquoted."""
    values = np.random.default_rng(2).normal(size=(STEPS, len(KEYS)))
    with path.open("w", encoding="utf-8") as file:
        file.write(",".join(["step", *KEYS]) + "\n")
        file.writelines(",".join([str(step), *map(repr, row)]) + "\n" for step, row in enumerate(values.tolist()))


def write_jsonl(path: Path) -> None:
    """A step log with the same keys on every line."""
    values = np.random.default_rng(3).normal(size=(STEPS, len(KEYS)))
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps({"step": step, **dict(zip(KEYS, row, strict=True))}) + "\n" for step, row in enumerate(values.tolist()))


def write_events(folder: Path) -> None:
    """An event file laid out as torch's and tensorboard's writers lay it out."""
    folder.mkdir()
    tags = [f"actor/metric_{'x' * (index % 20)}_{index}".encode() for index in range(EVENT_TAGS)]
    first = b"\x09" + struct.pack("<d", 1764e6) + b"\x1a\x0dbrain.Event:2"
    records = [first, *(_event(step, tag, np.sin(step)) for step in range(EVENT_STEPS) for tag in tags)]
    heads = [struct.pack("<Q", len(record)) for record in records]
    with (folder / "events.out.tfevents.1764000000.host").open("wb") as file:
        for head, record, of_head, of_record in zip(heads, records, _checksums(heads), _checksums(records), strict=True):
            file.write(head + struct.pack("<I", of_head) + record + struct.pack("<I", of_record))


def _event(step: int, tag: bytes, value: float) -> bytes:
    scalar = b"\x0a" + bytes([len(tag)]) + tag + b"\x15" + struct.pack("<f", value)
    at = b"\x10" + (bytes([step]) if step < 128 else bytes([step & 127 | 128, step >> 7])) if step else b""
    return b"\x09" + struct.pack("<d", 1764e6 + step) + at + b"\x2a" + bytes([len(scalar) + 2]) + b"\x0a" + bytes([len(scalar)]) + scalar


def _checksums(pieces: list[bytes]) -> list[int]:
    data = np.frombuffer(b"\0" * 12 + b"".join(pieces), np.uint8)
    lengths = np.array([len(piece) for piece in pieces])
    found: list[int] = masked(data, 12 + np.cumsum(lengths) - lengths, lengths).tolist()
    return found


def _best(jobs: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Smallest CPU time of each job over interleaved rounds."""
    best = dict.fromkeys(jobs, float("inf"))
    for _ in range(ROUNDS):
        for name, job in jobs.items():
            before = time.process_time()
            job()
            best[name] = min(best[name], time.process_time() - before)
    return best


def _frames(path: Path) -> float:
    """CPU time of the metric frames of a path's runs."""
    runs = load(path)
    return _best({"frames": lambda: [metric_frame(run) for run in runs]})["frames"]


def _peak(read: str, path: Path) -> int:
    """Most memory, in MiB, that a process holds which only does one thing with one path."""
    code = _PEAK.format(read=read)
    return int(subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True).stdout)


def _row(name: str, way: str, seconds: float, floor: float) -> str:
    return f"| {name} | {way} | {seconds:.3f} | {seconds / floor:.2f} |"


def _put(text: str) -> None:
    """Replace the section in the page, or append it."""
    page = PAGE.read_text(encoding="utf-8")
    before, found, rest = page.partition(TITLE + "\n")
    _, another, after = rest.partition("\n## ") if found else ("", "", "")
    PAGE.write_text(before.rstrip("\n") + "\n\n" + text + (another + after), encoding="utf-8")


def _head() -> str:
    versions = f"Python {platform.python_version()}, {platform.machine()}, numpy {np.__version__}, pyarrow {pa.__version__}"
    return f"""{TITLE}

Written by `python -m tests.benchmarks.readers --write`; CPU seconds, one thread, one run; read the ratios. Synthetic files, {versions}.

| file | way | CPU s | times the first |
|---|---|---|---|"""


if __name__ == "__main__":
    main()
