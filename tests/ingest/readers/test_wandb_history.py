"""Histories as wandb exports them: Parquet parts in any order, and rows as JSON lines."""

import json
import math
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.errors import ReadError, TooLargeError, UnknownContainerError
from ingest.identify import identify_reader
from ingest.load import load
from ingest.readers import _wandb_parquet, wandb_history, wandb_run
from ingest.readers.wandb_history import READER
from ingest.run import ProblemKind

DATA = Path(__file__).parents[2] / "data"
LOST = ProblemKind.LOST


@pytest.fixture
def part(tmp_path):
    def _part(columns, name="0.parquet"):
        pq.write_table(columns if isinstance(columns, pa.Table) else pa.table(columns), tmp_path / name)
        return tmp_path / name

    return _part


def read(path):
    assert identify_reader(path) is READER
    return READER.read(path)[0]


def rows(raw):
    return [(row["key"], row["step"], row["value"]) for row in raw.scalars.to_pylist()]


def problems(raw, kind=LOST):
    return [(problem.place, problem.rows) for problem in raw.problems if problem.kind is kind]


def notes(raw):
    return " | ".join(f"{problem.place}: {problem.what}" for problem in raw.problems if problem.kind is ProblemKind.NOTE)


def test_parts_in_any_order_with_other_columns(part, tmp_path):
    part({"_step": [2.0, 3.0], "_timestamp": [12.0, 13.0], "_runtime": [2, 3], "b": [0.2, 0.3]}, "e_p_abc_0.runhistory.parquet")
    part({"_step": pa.array([], pa.float64())}, "e_p_abc_1.runhistory.parquet")
    part({"_step": [0, 1], "_timestamp": [10.0, None], "a": [1, None], "b": [0.0, 0.1]}, "e_p_abc_2.runhistory.parquet")
    part(pa.table({}), "e_p_abc_3.runhistory.parquet")
    raw = read(tmp_path)
    assert raw.name == "e_p_abc"
    assert rows(raw) == [("a", 0, 1.0), ("b", 0, 0.0), ("b", 1, 0.1), ("b", 2, 0.2), ("b", 3, 0.3)]
    assert raw.scalars.column("wall_time").to_pylist() == [10.0, 10.0, None, 12.0, 13.0]
    assert raw.problems == ()


def test_several_runs_in_one_folder(part, tmp_path):
    for run in ("e_p_one", "e_p_two"):
        part({"_step": [0], "a": [1.0]}, f"{run}_0.runhistory.parquet")
    assert [log.name for log in READER.read(tmp_path)] == ["e_p_one", "e_p_two"]


def test_numbered_parts_are_named_by_their_folder(part, tmp_path):
    for number in range(2):
        part({"_step": [number], "a": [1.0]}, f"{number:04d}.parquet")
    assert [(log.name, log.scalars.num_rows) for log in READER.read(tmp_path)] == [(tmp_path.name, 2)]


def test_one_part(part):
    assert read(part({"_step": [0], "a": [1.0]}, "e_p_abc_0.runhistory.parquet")).name == "e_p_abc"


TYPES = {
    "integers": (pa.array([1, None, 3]), [1.0, 3.0]),
    "floats": (pa.array([math.inf, None, -1.5]), [math.inf, -1.5]),
    "booleans": (pa.array([True, None, False]), [1.0, 0.0]),
    "texts": (pa.array(["Infinity", None, "1e-06"]), [math.inf, 1e-6]),
    "texts, coded": (pa.array(["2", None, "2"]).dictionary_encode(), [2.0, 2.0]),
    "half": (pa.array([0.5, None, 2.0], pa.float16()), [0.5, 2.0]),
    "decimals": (pa.array([1, None, 2]).cast(pa.decimal128(22, 1)), [1.0, 2.0]),
    "null": (pa.nulls(3), []),
}


@pytest.mark.parametrize("kind", TYPES)
def test_types_that_wandb_writes(part, kind):
    column, wanted = TYPES[kind]
    raw = read(part({"_step": [0, 1, 2], "a": column, "b": [1.0, 1.0, 1.0]}))
    assert [value for key, _, value in rows(raw) if key == "a"] == wanted
    assert problems(raw) == []


def test_nan_is_a_value_and_null_is_none(part):
    raw = read(part({"_step": [0, 1], "a": pa.array([math.nan, None])}))
    assert [repr(row) for row in rows(raw)] == ["('a', 0, nan)"]


def test_structs_are_nested_keys_and_media_are_counted(part):
    columns = {
        "_step": [0, 1],
        "n": [{"x": 1.0, "deep": {"y": 2}}, None],
        "hist": [{"_type": "histogram", "values": [1, 2], "nrows": 3}, None],
        "list": [[1.0], None],
        "word": ["restarted", None],
        "map": pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64())),
    }
    raw = read(part(columns))
    assert sorted(rows(raw)) == [("n.deep.y", 0, 2.0), ("n.x", 0, 1.0)]
    assert sorted(problems(raw)) == [(f"0.parquet, column {key}", 1) for key in ("list", "map", "word")]
    assert problems(raw, ProblemKind.UNMAPPED) == [("key hist", 3)]


@pytest.mark.parametrize("step", [None, math.nan, 1.5, math.inf, 1e300])
def test_rows_without_a_usable_step_are_counted(part, step):
    raw = read(part({"_step": pa.array([0.0, step]), "a": [1.0, 2.0]}))
    assert rows(raw) == [("a", 0, 1.0)]
    assert problems(raw) == [("0.parquet, column a", 1)]


def test_a_damaged_part_is_listed_and_the_others_are_read(part, tmp_path):
    part({"_step": [0], "a": [1.0]}, "0.parquet")
    whole = part({"_step": list(range(1000)), "a": [0.5] * 1000}, "1.parquet").read_bytes()
    (tmp_path / "1.parquet").write_bytes(whole[:600] + bytes(100) + whole[700:])
    raw = READER.read(tmp_path)[0]
    assert raw.scalars.num_rows >= 1
    (tmp_path / "1.parquet").write_bytes(whole[: len(whole) // 2])
    raw = READER.read(tmp_path)[0]
    assert rows(raw) == [("a", 0, 1.0)]
    assert [rows for _, rows in problems(raw)] == [1]


def test_a_file_that_unpacks_to_too_much_is_refused(part, monkeypatch):
    monkeypatch.setattr(_wandb_parquet, "MAX_ROW_GROUP_BYTES", 100)
    with pytest.raises(TooLargeError, match="row groups of at most"):
        READER.read(part({"_step": list(range(100)), "a": [0.0] * 100}))


def test_token_logs_stay_token_logs(part, tmp_path):
    path = part({"step": [1], "sample_id": [1], "rollout_logprob": [-1.0]})
    assert identify_reader(path).id == "parquet_tokens"
    assert identify_reader(tmp_path).id == "parquet_tokens"


def test_a_folder_of_both_is_no_history(part, tmp_path):
    part({"_step": [0], "a": [1.0]}, "0.parquet")
    part({"step": [1], "sample_id": [1], "rollout_logprob": [-1.0]}, "1.parquet")
    assert wandb_history.READER.objection(tmp_path) is not None


@pytest.fixture
def jsonl(tmp_path):
    def _jsonl(content, name="history.jsonl"):
        path = tmp_path / name
        text = content if isinstance(content, (str, bytes)) else "".join(json.dumps(row) + "\n" for row in content)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return _jsonl


def test_rows_of_scan_history(jsonl):
    content = [
        {"_step": 0, "_timestamp": 10.5, "_runtime": 1, "rl/ess": 0.5, "rl/reward": "NaN", "none": None},
        {"_timestamp": 11.5, "_step": 1, "n": {"x": 1}, "hist": {"_type": "histogram", "bins": [1]}, "word": "x", "yes": True},
    ]
    raw = read(jsonl(content))
    assert [repr(row) for row in rows(raw)] == [
        repr(row) for row in [("rl/ess", 0, 0.5), ("rl/reward", 0, math.nan), ("n.x", 1, 1.0), ("yes", 1, 1.0)]
    ]
    assert raw.scalars.column("wall_time").to_pylist() == [10.5, 10.5, 11.5, 11.5]
    assert problems(raw) == [("line 2, key word", 1)]
    assert problems(raw, ProblemKind.UNMAPPED) == [("key hist", 1)]
    assert "1 values are null" in notes(raw)


def test_unsorted_and_repeated_rows(jsonl):
    raw = read(jsonl([{"_step": step, "_runtime": 1, "a": step} for step in (2, 0, 2)]))
    assert [step for _, step, _ in rows(raw)] == [0, 2, 2]
    assert "step 2: logged more than once" in notes(raw)


@pytest.mark.parametrize("broken", [b"{bad", b"[1]", b"\xff"])
def test_broken_lines_are_counted(jsonl, broken):
    raw = read(jsonl(b'{"_step": 0, "_runtime": 1, "a": 1}\n' + broken + b'\n{"_step": 1, "_runtime": 1, "a": 1}\n'))
    assert len(rows(raw)) == 2
    assert problems(raw) == [("line 2", 1)]


def test_a_cut_last_line_is_a_note(jsonl):
    raw = read(jsonl('{"_step": 0, "_runtime": 1, "a": 1}\r\n{"_step": 1, "_ru'))
    assert rows(raw) == [("a", 0, 1.0)]
    assert "line 2: the last line is cut" in notes(raw)


def test_a_byte_order_mark(jsonl):
    assert rows(read(jsonl(b'\xef\xbb\xbf{"_step": 0, "_runtime": 1, "a": 1}\n'))) == [("a", 0, 1.0)]


def test_utf_16_is_refused(jsonl):
    with pytest.raises((ReadError, UnknownContainerError)):
        READER.read(jsonl('{"_step": 0, "_runtime": 1, "a": 1}\n'.encode("utf-16")))


def test_a_line_beyond_the_bound_is_refused(jsonl, monkeypatch):
    monkeypatch.setattr(wandb_history, "MAX_LINE_BYTES", 50)
    with pytest.raises(TooLargeError, match="line 1"):
        READER.read(jsonl([{"_step": 0, "_runtime": 1, "a": "x" * 100}]))


def test_other_json_lines_are_for_another_reader(jsonl):
    for row in ({"_step": 0, "a": 1}, {"step": 0, "_timestamp": 1, "a": 1}):
        assert identify_reader(jsonl([row])).id == "jsonl"


def test_a_run_folder_may_hold_one_as_its_step_log(jsonl, tmp_path):
    jsonl([{"_step": 3, "_timestamp": 1.0, "_runtime": 1, "rl/ess": 0.5}], "steps.jsonl")
    (run,) = load(tmp_path)
    assert run.scalars.column("step").to_pylist() == [3]


@pytest.mark.parametrize("name", ["scan_history.jsonl", "parts"])
def test_an_export_gives_what_the_record_file_gives(name):
    (recorded,) = wandb_run.READER.read(DATA / "wandb_run" / "normal" / "offline-run-20261129_120000-a1b2c3d4")
    exported = read(DATA / "wandb_history" / name)
    assert sorted(map(repr, exported.scalars.to_pylist())) == sorted(map(repr, recorded.scalars.to_pylist()))
    assert [rows for _, rows in problems(exported)] == [1]
