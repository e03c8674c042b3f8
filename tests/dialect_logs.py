"""Logs in the words of a framework: written for one test, or kept as a sample with what must come out of it."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from ingest.load import load
from ingest.run import ProblemKind

DATA = Path(__file__).parent / "data"


def samples(framework):
    """The folders of a framework's samples, each with run.toml, steps.jsonl and expected.json."""
    return sorted(path.parent for path in (DATA / framework).glob("*/expected.json"))


def run_of(tmp_path, dialect, line, config=None):
    """A run of one or several logged lines, read as the dialect that its keys suggest."""
    lines = line if isinstance(line, list) else [{"_step": 1, **line}]
    settings = "".join(f"{_quoted(name)} = {json.dumps(value)}\n" for name, value in (config or {}).items())
    (tmp_path / "run.toml").write_text(settings, encoding="utf-8")
    (tmp_path / "steps.jsonl").write_text("".join(json.dumps(row) + "\n" for row in lines), encoding="utf-8")
    (run,) = load(tmp_path)
    assert run.dialect == dialect
    return run


def _quoted(name):
    return ".".join(part if part.replace("_", "").replace("-", "").isalnum() else json.dumps(part) for part in name.split("."))


def values(run, quantity):
    return [row["value"] for row in run.scalars.to_pylist() if row["quantity"] == quantity]


def only(run, key):
    """The one value of a key: its quantity, and what is said beside it."""
    (row,) = [row for row in run.scalars.to_pylist() if row["source_key"] == key]
    return row["quantity"], row["caveat"]


def said(run, key, kind):
    """What a problem of one kind says about a key."""
    return [problem.what for problem in run.problems if problem.kind == kind and problem.place == f"key {key}"]


def assert_as_expected(folder, dialect):
    """A sample gives the quantities its expected.json lists, and no others; what went in came out or is counted."""
    (run,) = load(folder)
    assert run.dialect == dialect
    expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    table = run.scalars.to_pylist()
    assert {row["quantity"] for row in table} == set(expected)
    for quantity, numbers in expected.items():
        assert values(run, quantity) == pytest.approx(numbers, rel=1e-12), quantity
    logged = [json.loads(line) for line in (folder / "steps.jsonl").read_text(encoding="utf-8").splitlines()]
    axes = {"_step", "step", "time", "stats/completed_steps"}
    rows_in = sum(name not in axes for line in logged for name in line)
    kept = pa.compute.sum(pa.compute.invert(pa.compute.starts_with(run.scalars.column("caveat"), "derived"))).as_py()
    counted = sum(problem.rows for problem in run.problems if problem.kind != ProblemKind.NOTE)
    assert kept + counted == rows_in
    return run
