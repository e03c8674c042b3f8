"""Rows in = rows out + rows in problems, for any table and any log."""

import csv
import json
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingest.dialects.pipelinerl import DIALECT
from ingest.load import load
from ingest.readers import jsonl, wandb_csv
from ingest.run import ProblemKind

SLOW = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
KNOWN = ["rl/ess", "rl/kl_new_old", "rl/reward", "actor/reward_mean", "stats/grad_norm", "stats/lag", "stats/samples"]
cells = st.one_of(
    st.just(""),
    st.floats(width=32).map(repr),
    st.integers(-5, 5).map(str),
    st.sampled_from(["NaN", "inf", "-1", "junk", "1_0", "n/a", "True"]),
)
values = st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.floats(), st.sampled_from(["NaN", "word", [1], -1, 10**400]))


@pytest.fixture
def folder(tmp_path):
    return tmp_path


def lost_rows(problems):
    return sum(problem.rows for problem in problems if problem.kind is not ProblemKind.NOTE)


@SLOW
@given(data=st.data())
def test_chart_export(folder, data):
    """The x axis apart, which is kept beside the series where it is a metric of its own."""
    columns = [
        f"{run} - {metric}" for run in ("a", "b - c") for metric in data.draw(st.lists(st.sampled_from(KNOWN), unique=True, max_size=2))
    ]
    with_steps, x = data.draw(st.booleans()), data.draw(st.sampled_from(["Step", "epoch"]))
    names = [name + end for name in columns for end in ("", "__MIN", "__MAX")]
    steps = ["a - _step", "b - c - _step"] if with_steps else []
    table = data.draw(st.lists(st.lists(cells, min_size=1 + len(steps) + len(names), max_size=1 + len(steps) + len(names)), max_size=5))
    path = folder / "chart.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([[x, *steps, *names], *table])
    if not columns and not steps:
        return
    raws = wandb_csv.READER.read(path)
    keys = Counter(key for raw in raws for key in raw.scalars.column("key").to_pylist() if key != x)
    grouped = {problem.place.removeprefix("column ") for raw in raws for problem in raw.problems if problem.what.startswith("a group")}
    counted = [number for number, name in enumerate(names) if name in columns or name.rsplit("__", 1)[0] in grouped]
    rows_in = sum(row[1 + len(steps) + number].strip() != "" for row in table for number in counted)
    assert rows_in == keys.total() + sum(lost_rows(raw.problems) for raw in raws)


@SLOW
@given(lines=st.lists(st.one_of(st.dictionaries(st.sampled_from([*KNOWN, "other", "step"]), values), st.just("{broken")), max_size=8))
def test_step_log(folder, lines):
    path = folder / "log.jsonl"
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("".join(text + "\n" for text in texts), encoding="utf-8")
    axis = "step" if any("step" in line for line in lines if isinstance(line, dict)) else None
    given_values = sum(value is not None for line in lines if isinstance(line, dict) for key, value in line.items() if key != axis)
    broken = sum(isinstance(line, str) for line in lines)
    if not given_values:
        return
    (raw,) = jsonl.READER.read(path)
    assert given_values + broken == raw.scalars.num_rows + lost_rows(raw.problems)


@SLOW
@given(
    lines=st.lists(
        st.dictionaries(st.sampled_from([*KNOWN, "other"]), st.sampled_from([-1, 0.5, "NaN", "word", None])), min_size=1, max_size=8
    )
)
def test_mapping(folder, lines):
    """Derived values apart, which are more than what was logged."""
    path = folder / "log.jsonl"
    path.write_text("".join(json.dumps({"step": step, "rl/ess": 0.5} | line) + "\n" for step, line in enumerate(lines)), encoding="utf-8")
    if not any(line.get("rl/ess", 0) not in ("word", None) for line in lines):
        return
    (raw,) = jsonl.READER.read(path)
    (run,) = load(path)
    logged = [row for row in run.scalars.to_pylist() if not row["caveat"].startswith("derived")]
    assert raw.scalars.num_rows == len(logged) + lost_rows(run.problems) - lost_rows(raw.problems)
    assert run.dialect == DIALECT.id
    assert run.scalars.column("step").to_pylist() == sorted(run.scalars.column("step").to_pylist())
