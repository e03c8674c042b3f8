"""Measure the replay of corrections against the pass that computes the metrics.

    python -m tests.benchmarks.what_if [--tokens 2000000] [--write]

Ratios of CPU times taken in one run, best of several interleaved rounds, one thread. Nothing here is a test.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ingest.run import Run
from ingest.tokens import open_piece, read_row_group, token_log
from monitor.corrections._replay_recipes import DEFAULT
from monitor.corrections._replay_tokens import sides
from monitor.corrections.replay import replayed
from monitor.metrics import kernel
from monitor.metrics.bounds import ClipBounds
from monitor.metrics.columns import READ
from tests.benchmarks.diagnosis import best
from tests.benchmarks.kernel import TOKENS_PER_STEP, log
from tests.benchmarks.page import put
from tests.diagnosis_cases import run_of

HEADING = "## What if"


def main() -> None:
    """Measure and print the section; `--write` puts it into the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=2_000_000)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    text = section(log(arguments.tokens))
    if arguments.write:
        put(text)
    sys.stdout.write(text)


def section(tokens: pa.Table) -> str:
    """The section of the page."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tokens.parquet"
        pq.write_table(tokens, path, row_group_size=TOKENS_PER_STEP)
        run = replace(run_of(tokens=tokens.slice(0, 1)), tokens=token_log([open_piece(path)[0]]))
        spent = best(
            {
                "metrics": lambda: _metrics(run),
                "decode": lambda: sum(1 for _ in sides(run.tokens)),
                "one": lambda: replayed(run, DEFAULT[:1]),
                "all": lambda: replayed(run),
            },
        )
    names = {
        "metrics": "decode and compiled pass, every metric",
        "decode": "decode for the replay, steps put together",
        "one": "replay: ESS at three levels, sync interval, one correction",
        "all": f"replay: the same with all {len(DEFAULT)} corrections",
    }
    millions = tokens.num_rows / 1e6
    rows = [f"| {names[name]} | {seconds / millions:.3f} | {seconds / spent['metrics']:.1f} |" for name, seconds in spent.items()]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return "\n".join(
        [
            HEADING,
            "",
            "Written by `python -m tests.benchmarks.what_if --write`: the replay of `docs/what_if.md`, numpy, one thread, once per run.",
            "",
            "| what | CPU s per million tokens | ratio |",
            "|---|---|---|",
            *rows,
            "",
            f"Steps of {TOKENS_PER_STEP:,} tokens; the process, with the whole log in memory before, peaks at {peak:,.0f} MiB.",
            "",
        ],
    )


def _metrics(run: Run) -> None:
    piece = run.tokens.pieces[0]
    for group in range(piece.row_groups):
        kernel.partials(read_row_group(piece, group, READ)[0], ClipBounds())


if __name__ == "__main__":
    main()
