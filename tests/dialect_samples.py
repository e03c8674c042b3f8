"""Samples of each framework's log under tests/data, what they are expected to say, and one-line logs for single traps."""

import json
from pathlib import Path

from ingest.load import load

DATA = Path(__file__).parent / "data"


def expected(framework):
    """Sample -> quantity -> values in the order of steps."""
    return json.loads((DATA / framework / "expected.json").read_text(encoding="utf-8"))


def found(framework, sample):
    """What a sample says now, and as which dialect."""
    (run,) = load(DATA / framework / sample)
    values = {}
    for row in run.scalars.to_pylist():
        values.setdefault(row["quantity"], []).append(row["value"])
    return run.dialect, values


def rows_add_up(framework, sample):
    """Whether every value of a sample is either a quantity or counted in a problem; derived values come on top."""
    (run,) = load(DATA / framework / sample)
    lines = [json.loads(line) for line in (DATA / framework / sample).read_text(encoding="utf-8").splitlines()]
    axes = ("_step", "_timestamp", "step", "train/global_step", "trainer/global_step", "training_step", "system/global_step", "global_step")
    logged = sum(key not in axes for line in lines for key in line)
    kept = sum(not row["caveat"].startswith("derived") for row in run.scalars.to_pylist())
    counted = sum(problem.rows for problem in run.problems if problem.place.removeprefix("key ") not in axes)
    return logged == kept + counted


def run_of(folder, line, config="", dialect=None):
    """A run of one line, with its settings as a run.toml says them."""
    (folder / "run.toml").write_text(config, encoding="utf-8")
    (folder / "steps.jsonl").write_text(json.dumps({"step": 1, **line}) + "\n", encoding="utf-8")
    (run,) = load(folder, dialect)
    return run


def said(run):
    """Quantity -> (value, caveat) of a run of one line."""
    return {row["quantity"]: (row["value"], row["caveat"]) for row in run.scalars.to_pylist()}
