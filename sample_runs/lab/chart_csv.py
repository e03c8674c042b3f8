"""Chart exports as the wandb web app writes them: one metric a file, three columns a run, every cell quoted."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

from sample_runs.lab.step_log import Line

CHARTS = ("rl/ess", "rl/kl_new_old", "rl/clamp_log_ratio_new_old_indicator", "rl/entropy", "rl/reward")


def write_charts(folder: Path, runs: Mapping[str, Sequence[Line]]) -> list[Path]:
    """Write one CSV for each of CHARTS.

    Args:
        folder: where to.
        runs: name -> its step log, in order.
    """
    folder.mkdir(parents=True, exist_ok=True)
    return [_write_chart(folder / f"{metric.replace('/', '_')}.csv", metric, runs) for metric in CHARTS]


def _write_chart(path: Path, metric: str, runs: Mapping[str, Sequence[Line]]) -> Path:
    columns = [f"{run} - {metric}{suffix}" for run in runs for suffix in ("", "__MIN", "__MAX")]
    by_step = {run: {line["stats/completed_steps"]: line[metric] for line in lines} for run, lines in runs.items()}
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n")
        writer.writerow(["Step", *columns])
        for step in sorted(set().union(*by_step.values())):
            # Of an ungrouped run the envelope equals the value; where a run has no such step its cells are empty.
            writer.writerow([step, *(by_step[run].get(step, "") for run in runs for _ in range(3))])
    return path
