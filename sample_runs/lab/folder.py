"""A run's folder on disk: the token log by the Recorder, the step log, run.toml, and expected.json."""

from __future__ import annotations

import json
import platform
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import torch

from sample_runs.lab.figures import Columns, Figures, expected, step_figures
from sample_runs.lab.model import Weights
from sample_runs.lab.pipeline import train
from sample_runs.lab.settings import POOL_SEED, WARM_START_SEED, RunSettings
from sample_runs.lab.step_log import Line, StepLog
from sample_runs.lab.task import PROMPT
from sample_runs.lab.trainer import TrainedBatch

PROGRESS_EVERY = 20  # steps
NOTES = (
    "every response of every batch is logged; old_logprob is absent because one optimizer step a batch makes it equal current_logprob; "
    "entropy is rounded to 8 significant bits"
)


def make_run(settings: RunSettings, weights: Weights, out: Path, progress: Callable[[str], None] = print) -> Path:
    """Train one run and write its folder anew.

    Args:
        settings: the run.
        weights: of the warm start.
        out: parent of the run's folder.
        progress: told a line now and then.
    """
    return write_run(settings, train(settings, weights), out, progress)


def write_run(
    settings: RunSettings, batches: Iterable[TrainedBatch], out: Path, progress: Callable[[str], None] = print, prompt: int = PROMPT
) -> Path:
    """Write a run's folder anew from its batches, whoever trains them.

    Args:
        settings: the run.
        batches: one for each optimizer step.
        out: parent of the run's folder.
        progress: told a line now and then.
        prompt: tokens of a prompt.
    """
    from monitor.record import Recorder, compact

    folder = out / settings.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "run.toml").write_text(run_toml(settings), encoding="utf-8")
    recorder, kv_ages = Recorder(folder), {}

    def keep(step: int, columns: Columns, kv_age: float) -> None:
        recorder.record(step=step, **columns)
        kv_ages[step] = kv_age

    lines, figures = log_batches(batches, StepLog(settings, prompt), keep, progress)
    compact(folder)
    (folder / "tokens.sums.parquet").unlink(missing_ok=True)  # valid for one modification time only, which a checkout does not keep
    (folder / "steps.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    (folder / "expected.json").write_text(json.dumps(expected_json(figures, kv_ages), indent=1) + "\n", encoding="utf-8")
    return folder


def train_and_log(
    settings: RunSettings,
    weights: Weights,
    keep: Callable[[int, Columns, float], None],
    progress: Callable[[str], None],
) -> tuple[list[Line], dict[int, Figures]]:
    """Train one run; give its step log and its figures by step, and hand each batch's columns and prompt cache age to `keep`."""
    return log_batches(train(settings, weights), StepLog(settings), keep, progress)


def log_batches(
    batches: Iterable[TrainedBatch], log: StepLog, keep: Callable[[int, Columns, float], None], progress: Callable[[str], None]
) -> tuple[list[Line], dict[int, Figures]]:
    """Go through a run's batches; see `train_and_log`."""
    settings, lines, figures = log.settings, [], {}
    for batch in batches:
        keep(batch.step, batch.columns, float(batch.step - 1 - batch.prompt_versions.mean()))
        lines.append(log.line(batch))
        figures[batch.step] = step_figures(batch.columns)
        if batch.step % PROGRESS_EVERY == 0:
            progress(f"{settings.name}: step {batch.step} of {settings.steps}, reward {figures[batch.step]['reward.mean']:.2f}")
    return lines, figures


def expected_json(figures: dict[int, Figures], kv_ages: dict[int, float]) -> dict[str, object]:
    """What a correct reader must find, and what it was made with."""
    made_with = {"python": platform.python_version(), "torch": torch.__version__, "numpy": np.__version__, "machine": platform.machine()}
    kv_age = {"prompt_kv_age_versions.mean": float(np.mean(list(kv_ages.values()))), "prompt_kv_age_versions.last": kv_ages[max(kv_ages)]}
    return expected(figures) | {"laboratory": kv_age, "made_with": made_with}


def run_toml(settings: RunSettings) -> str:
    """The run's description; keys before tables, as TOML wants it."""
    top = {name: getattr(settings, name) for name in ("name", "title", "role", "group", "seed", "fault", "what_is_wrong")}
    top |= {
        "made_by": settings.made_by or f"python -m sample_runs.lab make --only {settings.name}",
        "notes": NOTES,
        **({"prompt_pool_seed": POOL_SEED} if settings.prompts else {}),
        "warm_start_seed": WARM_START_SEED,
    }
    top |= {"model": settings.model} if settings.model != "dense" else {}
    tables = settings.tables() | {"tokens": {"sampled": True, "filtered": False}}
    parts = ["\n".join(f"{key} = {_toml(value)}" for key, value in top.items())]
    parts += [f"[{table}]\n" + "\n".join(f"{key} = {_toml(value)}" for key, value in keys.items()) for table, keys in tables.items()]
    return "\n\n".join(parts) + "\n"


def _toml(value: object) -> str:
    """A string, number, truth value or list of strings as TOML; JSON spells these alike."""
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)
