"""Measure the diagnosis's own pass over the tokens, and its rules, against the pass that computes the metrics.

    python -m tests.benchmarks.diagnosis [--tokens 2000000] [--write]

Ratios of CPU times taken in one run, best of several interleaved rounds, one thread. Nothing here is a test.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ingest.tokens import open_piece, read_row_group, token_log
from monitor.diagnosis.case import Case
from monitor.diagnosis.diagnose import diagnose
from monitor.diagnosis.portrait import portray
from monitor.metrics import kernel
from monitor.metrics.bounds import ClipBounds
from monitor.metrics.columns import READ
from monitor.metrics.frame import metric_frame
from tests.benchmarks.kernel import TOKENS_PER_STEP, log
from tests.benchmarks.page import put
from tests.diagnosis_cases import run_of

ROUNDS = 3
HEADING = "## The diagnosis"


def main() -> None:
    """Measure and print the section; `--write` puts it into the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=2_000_000)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    text = section(with_ids(log(arguments.tokens)))
    if arguments.write:
        put(text)
    sys.stdout.write(text)


def with_ids(tokens: pa.Table) -> pa.Table:
    """The synthetic log with prompts and token ids, so that the same-prefix pass has its work to do."""
    rng = np.random.default_rng(1)
    ids = {"group_id": tokens["sample_id"].to_numpy() // 8, "token_id": rng.integers(0, 50, tokens.num_rows).astype(np.int32)}
    for name, values in ids.items():
        if name not in tokens.column_names:
            tokens = tokens.append_column(name, pa.array(values))
    return tokens


def section(tokens: pa.Table) -> str:
    """The section of the page."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tokens.parquet"
        pq.write_table(tokens, path, row_group_size=TOKENS_PER_STEP)
        run = run_of(tokens=tokens)
        run = type(run)(**{**vars(run), "tokens": token_log([open_piece(path)[0]])})
        case = Case(run=run, frame=metric_frame(run), portrait=portray(run))
        piece = run.tokens.pieces[0]
        spent = best(
            {
                "metrics": lambda: [kernel.partials(read_row_group(piece, n, READ)[0], ClipBounds()) for n in range(piece.row_groups)],
                "portrait": lambda: portray(run),
                "rules": lambda: diagnose(Case(run=run, frame=case.frame, portrait=case.portrait)),
            },
        )
    per_token = {name: seconds / tokens.num_rows * 1e9 for name, seconds in spent.items()}
    rows = [
        ("decode and compiled pass, every metric", per_token["metrics"], 1.0),
        ("decode and the diagnosis's own pass (numpy)", per_token["portrait"], spent["portrait"] / spent["metrics"]),
    ]
    lines = [
        HEADING,
        "",
        "Written by `python -m tests.benchmarks.diagnosis --write`. Paid once per run, when somebody asks what is wrong.",
        "",
        "| what | ns per token | ratio |",
        "|---|---|---|",
    ]
    lines += [f"| {what} | {ns:.1f} | {ratio:.2f} |" for what, ns, ratio in rows]
    steps = len(case.portrait.steps)
    return "\n".join([*lines, "", f"All rules together, once both are there: {spent['rules']:.2f} s of CPU for {steps} steps.", ""])


def best(work: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Least CPU time of each piece of work over the rounds, seconds."""
    spent = {name: [] for name in work}
    for _ in range(ROUNDS):
        for name, do in work.items():
            started = time.process_time()
            do()
            spent[name].append(time.process_time() - started)
    return {name: min(times) for name, times in spent.items()}


if __name__ == "__main__":
    main()
