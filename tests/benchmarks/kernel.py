"""Measure the pass over a token log against what it cannot be faster than, and write docs/benchmarks.md.

    python -m tests.benchmarks.kernel [--tokens 2000000] [--write]

Everything is a ratio of CPU times taken in one run, best of several interleaved rounds, one thread. Nothing here is a test: a
shared machine may be slow at any time.
"""

from __future__ import annotations

import argparse
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ingest.schema import TOKENS
from monitor.metrics import kernel, kernel_numpy
from monitor.metrics.bounds import ClipBounds
from monitor.metrics.columns import READ
from monitor.metrics.k3 import k3
from monitor.record import files
from tests.benchmarks.page import put

ROUNDS = 7
TOKENS_PER_STEP = 200_000


def main() -> None:
    """Run every measurement and print the page; `--write` puts it where it belongs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=2_000_000)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    text = page(log(arguments.tokens))
    if arguments.write:
        put(text)
    sys.stdout.write(text)


def log(tokens: int) -> pa.Table:
    """Synthetic tokens: three quarters confident, discrepancy in proportion to the doubt, log-normal lengths, seeded."""
    rng = np.random.default_rng(20260727)
    confident = rng.random(tokens) < 0.75
    rollout = -np.where(confident, rng.lognormal(np.log(1e-4), 1.5, tokens), rng.exponential(1.0, tokens))
    doubt = -np.expm1(rollout)
    same = np.minimum(rollout + doubt * 0.03 * rng.standard_t(4, tokens), 0)
    current = np.minimum(same + doubt * 0.05 * rng.normal(size=tokens), 0)
    lengths = np.clip(rng.lognormal(np.log(550), 0.9, tokens // 100), 1, 8192).astype(int)
    sample = np.repeat(np.arange(len(lengths)), lengths)[:tokens]
    step = np.arange(tokens) // TOKENS_PER_STEP
    columns = {
        "step": step,
        "sample_id": sample,
        "position": np.arange(tokens) % 8192,
        "rollout_logprob": rollout,
        "same_weights_logprob": same,
        "current_logprob": current,
        "loss_mask": rng.random(tokens) < 0.95,
        "advantage": np.repeat(rng.normal(size=len(lengths)), lengths)[:tokens],
        "reward": np.repeat(rng.random(len(lengths)), lengths)[:tokens],
        "rollout_version": step - (sample % 4),
        "trainer_version": step,
        "entropy": rng.random(tokens),
    }
    schema = pa.schema([column for column in TOKENS if column.name in columns])
    return pa.table({name: pa.array(columns[name]).cast(schema.field(name).type) for name in schema.names}, schema=schema)


def page(tokens: pa.Table) -> str:
    """The page, from one run."""
    return "\n".join([_head(tokens), *_pass_rows(tokens), "", _LAYOUT_HEAD, *_layout_rows(tokens), "", _K3_HEAD, *_k3_rows(), ""])


def _pass_rows(tokens: pa.Table) -> list[str]:
    bounds, count = ClipBounds(), tokens.num_rows
    core = tokens.drop_columns(["position", "advantage", "reward", "rollout_version", "trainer_version", "entropy"])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tokens.parquet"
        _write(path, tokens)
        kernel.partials(tokens.slice(0, 1000), bounds)
        jobs: dict[str, Callable[[], object]] = {
            "decode all columns the pass uses (pyarrow, one thread)": lambda: _decode(path),
            "compiled pass, every metric": lambda: kernel.partials(tokens, bounds),
            "compiled pass, log-probabilities and mask only": lambda: kernel.partials(core, bounds),
            "decode and compiled pass": lambda: [kernel.partials(piece, bounds) for piece in _decode(path)],
            "numpy twin, every metric": lambda: kernel_numpy.partials(tokens, bounds),
        }
        seconds = _best(jobs)
    floor = next(iter(seconds.values()))
    return [f"| {name} | {spent / count * 1e9:.1f} | {spent / floor:.2f} |" for name, spent in seconds.items()]


def _layout_rows(tokens: pa.Table) -> list[str]:
    """Size and decoding of the layout the recorder writes, beside the same data without one of its choices."""
    nullable = pa.schema([column.with_nullable(True) for column in tokens.schema])
    integers = [column.name for column in tokens.schema if pa.types.is_integer(column.type)]
    group = {"row_group_size": TOKENS_PER_STEP, "compression": "zstd"}
    pages, whole = {"use_dictionary": integers, "use_byte_stream_split": _floats(tokens)}, {"max_rows_per_page": files.ROWS_PER_PAGE}
    writers: dict[str, Callable[[Path], object]] = {
        "as recorded": lambda path: _write(path, tokens),
        "nullable columns": lambda path: files.write_tokens(path, nullable, _steps(tokens.cast(nullable))),
        "pages of 20,000 rows (the library's default)": lambda path: pq.write_table(tokens, path, **group, **pages),
        "dictionaries for floats, in place of byte-stream split": lambda path: pq.write_table(tokens, path, **group, **whole),
    }
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: Path(folder) / f"{place}.parquet" for place, name in enumerate(writers)}
        for name, write in writers.items():
            write(paths[name])
        seconds = _best({name: lambda path=path: _decode(path) for name, path in paths.items()})
        sizes = {name: path.stat().st_size for name, path in paths.items()}
    floor, smallest = seconds["as recorded"], sizes["as recorded"]
    return [
        f"| {name} | {sizes[name] / tokens.num_rows:.2f} | {sizes[name] / smallest:.2f} | {seconds[name] / floor:.2f} |" for name in writers
    ]


def _k3_rows() -> list[str]:
    rows = []
    for sd in (1e-2, 1e-3, 3e-4, 1e-4):
        x = np.random.default_rng(1).normal(0, sd, 1_000_000).astype(np.float32)
        exact = float(k3(x.astype(np.float64)).mean())
        naive32 = float((np.exp(x) - np.float32(1) - x).mean(dtype=np.float64))
        naive64 = float((np.exp(x.astype(np.float64)) - 1 - x.astype(np.float64)).mean())
        direct = float((np.expm1(x.astype(np.float64)) - x.astype(np.float64)).mean())
        errors = [abs(found / exact - 1) for found in (naive64, direct)]
        rows.append(f"| {sd:g} | {naive32 / exact - 1:+.1%} | {errors[0]:.0e} | {errors[1]:.0e} |")
    return rows


def _best(jobs: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Smallest CPU time of each job over interleaved rounds."""
    best = dict.fromkeys(jobs, float("inf"))
    for _ in range(ROUNDS):
        for name, job in jobs.items():
            before = time.thread_time()
            job()
            best[name] = min(best[name], time.thread_time() - before)
    return best


def _write(path: Path, tokens: pa.Table) -> None:
    files.write_tokens(path, tokens.schema, _steps(tokens))


def _steps(tokens: pa.Table) -> list[pa.Table]:
    return [tokens.slice(low, TOKENS_PER_STEP) for low in range(0, tokens.num_rows, TOKENS_PER_STEP)]


def _decode(path: Path) -> list[pa.Table]:
    file = pq.ParquetFile(path)
    columns = [name for name in file.schema_arrow.names if name in READ]
    return [file.read_row_group(index, columns=columns, use_threads=False) for index in range(file.num_row_groups)]


def _floats(tokens: pa.Table) -> list[str]:
    return [column.name for column in tokens.schema if pa.types.is_floating(column.type)]


def _head(tokens: pa.Table) -> str:
    versions = f"Python {platform.python_version()}, {platform.machine()}, numpy {np.__version__}, pyarrow {pa.__version__}"
    return f"""# Benchmarks

Written by `python -m tests.benchmarks.kernel --write`; every column is from one run on one thread, so read the ratios, not the
nanoseconds. {tokens.num_rows:,} synthetic tokens, {tokens.num_columns} columns, {versions}.

## The pass over the tokens

| what | ns per token | times the decoding |
|---|---|---|"""


_LAYOUT_HEAD = """## The layout that the recorder writes

Columns that cannot be null, a row group per step, zstd, byte-stream split for floats, dictionaries for integers (differences
for positions), checksums, one page per row group and column. Each row below gives up one of these; the last two also the
checksums and the differences.

| layout | bytes per token | size | decoding |
|---|---|---|---|"""

_K3_HEAD = """## Why k3 is not computed as exp(x) - 1 - x

Relative error of mean(exp(x) - 1 - x) for normal x, against the series this project uses (which agrees with decimal arithmetic to 2e-14).

| sd of x | float32, as written | float64, as written | float64, expm1(x) - x |
|---|---|---|---|"""


if __name__ == "__main__":
    main()
