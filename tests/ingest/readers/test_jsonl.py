"""Step logs line by line: what is a number is kept, what is not is counted, a cut end is only said."""

import json
import math
from pathlib import Path

import pytest

from ingest.errors import ReadError, TooLargeError
from ingest.identify import identify_reader
from ingest.readers.jsonl import READER
from ingest.run import ProblemKind


def read(tmp_path, text):
    path = tmp_path / "log.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert identify_reader(path) is READER
    return READER.read(path)[0]


def rows(raw):
    return [(row["key"], row["step"], row["value"]) for row in raw.scalars.to_pylist()]


def lost(raw):
    return [(problem.place, problem.rows) for problem in raw.problems if problem.kind is ProblemKind.LOST]


def notes(raw):
    return " | ".join(f"{problem.place}: {problem.what}" for problem in raw.problems if problem.kind is ProblemKind.NOTE)


def test_a_plain_log(tmp_path):
    raw = read(tmp_path, '{"step": 1, "reward": 0.5}\n\n{"step": 2, "reward": 1}\n')
    assert rows(raw) == [("reward", 1, 0.5), ("reward", 2, 1.0)]
    assert (raw.name, raw.problems) == ("log", ())


def test_nested_keys_are_joined(tmp_path):
    assert rows(read(tmp_path, '{"step": 1, "rl": {"ess": 0.5, "deep": {"er": 2}}}\n')) == [("rl/ess", 1, 0.5), ("rl/deep/er", 1, 2.0)]


def test_every_spelling_of_what_is_not_finite(tmp_path):
    raw = read(tmp_path, '{"step": 1, "a": NaN, "b": -Infinity, "c": "NaN", "d": "inf", "e": null, "f": true}\n')
    values = {key: value for key, _, value in rows(raw)}
    assert math.isnan(values["a"])
    assert math.isnan(values["c"])
    assert (values["b"], values["d"], values["f"]) == (-math.inf, math.inf, 1.0)
    assert "e" not in values
    assert "1 values are null" in notes(raw)


def test_what_is_no_number_is_counted_by_key(tmp_path):
    raw = read(tmp_path, "".join(f'{{"step": {step}, "text": "word", "list": [1, 2], "ok": 1}}\n' for step in range(7)))
    places = "; ".join(f"line {line}, key text" for line in range(1, 6)) + " and 2 more"
    assert lost(raw) == [(places, 7), (places.replace("text", "list"), 7)]


def test_the_first_axis_that_a_line_has_is_the_step(tmp_path):
    raw = read(tmp_path, '{"_step": 7, "global_step": 3, "stats/completed_steps": 1, "a": 5}\n')
    assert rows(raw) == [("global_step", 1, 3.0), ("a", 1, 5.0)]


def test_without_an_axis_the_line_is_the_step(tmp_path):
    raw = read(tmp_path, '{"a": 5}\n{"a": 6}\n')
    assert rows(raw) == [("a", 1, 5.0), ("a", 2, 6.0)]
    assert "no step axis among" in notes(raw)


@pytest.mark.parametrize("step", ["1.5", "null", "[1]", "1e300", str(2**63), '"x"'])
def test_a_line_without_a_usable_step_is_counted(tmp_path, step):
    raw = read(tmp_path, f'{{"step": 0, "a": 1}}\n{{"step": {step}, "a": 5}}\n')
    assert rows(raw) == [("a", 0, 1.0)]
    assert lost(raw) == [("line 2, key a", 1)]


@pytest.mark.parametrize("step", ["2", "2.0", '"2"', "true"])
def test_a_step_may_be_spelled_otherwise(tmp_path, step):
    assert rows(read(tmp_path, f'{{"step": {step}, "a": 5}}\n'))[0][1] in (1, 2)


BROKEN = {
    "cut": b'{"step": 1,',
    "list": b"[1]",
    "deep": b'{"a":' + b"[" * 100_000,
    "digits": b'{"a": 1' + b"0" * 5000 + b"}",
    "bytes": b'{"a\xff": 1}',
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_line_is_counted(tmp_path, name):
    raw = read(tmp_path, b'{"step": 1, "a": 1}\n' + BROKEN[name] + b'\n{"step": 2, "a": 1}\n')
    assert len(rows(raw)) == 2
    assert lost(raw) == [("line 2", 1)]


def test_an_integer_beyond_a_float_is_counted(tmp_path):
    assert lost(read(tmp_path, '{"step": 1, "b": 1, "a": 1' + "0" * 400 + "}\n")) == [("line 1, key a", 1)]


def test_a_cut_last_line_is_a_note(tmp_path):
    raw = read(tmp_path, '{"step": 1, "a": 1}\n{"step": 2, "a"')
    assert lost(raw) == []
    assert "line 2: the last line is cut" in notes(raw)


def test_a_whole_last_line_without_a_line_break_is_read(tmp_path):
    assert len(rows(read(tmp_path, '{"step": 1, "a": 1}\n{"step": 2, "a": 2}'))) == 2


def test_wall_time(tmp_path):
    raw = read(tmp_path, '{"step": 1, "a": 1}\n{"step": 2, "_timestamp": 1764000000.5, "_runtime": 3, "a": 1}\n')
    assert raw.scalars.column("wall_time").to_pylist() == [None, 1764000000.5]
    assert [key for key, _, _ in rows(raw)] == ["a", "a"]


def test_rows_of_a_wandb_history_are_for_another_reader(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"_step": 1, "_timestamp": 1764000000.5, "a": 1}\n', encoding="utf-8")
    assert READER.objection(path) == "it is a history that wandb exported"


def test_repeated_steps_are_kept_and_said(tmp_path):
    raw = read(tmp_path, '{"step": 1, "a": 1}\n{"step": 1, "a": 2}\n')
    assert len(rows(raw)) == 2
    assert "step 1: logged more than once" in notes(raw)


def test_a_byte_order_mark(tmp_path):
    assert rows(read(tmp_path, b'\xef\xbb\xbf{"step": 1, "a": 1}\r\n')) == [("a", 1, 1.0)]


def test_half_a_surrogate_in_a_key_does_not_stop_the_reading(tmp_path):
    assert rows(read(tmp_path, '{"step": 1, "a\\ud800": 1}\n')) == [("a?", 1, 1.0)]


def test_utf_16_is_refused(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_bytes('{"step": 1}\n'.encode("utf-16"))
    with pytest.raises(ReadError, match="found utf-16 text"):
        READER.read(path)


def test_nothing_but_broken_lines_is_refused(tmp_path):
    with pytest.raises(ReadError, match="no line with a number"):
        read(tmp_path, "{bad\n{worse\n")


def test_an_empty_file_is_refused(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"\n")
    with pytest.raises(ReadError, match="empty file"):
        READER.read(path)


def test_a_line_beyond_the_bound_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("ingest.readers.jsonl.MAX_LINE_BYTES", 100)
    with pytest.raises((ReadError, TooLargeError), match="line 2"):
        read(tmp_path, '{"step": 1, "a": 1}\n' + json.dumps({"step": 2, "a": "x" * 200}) + "\n")


DATA = Path(__file__).parents[2] / "data" / "jsonl"


def test_verls_file_logger():
    (raw,) = READER.read(DATA / "verl_file_logger.jsonl")
    assert raw.axis == "step"
    assert {key for key, _, _ in rows(raw)} >= {"actor/ppo_kl", "critic/score/mean"}
    assert [step for key, step, _ in rows(raw) if key == "actor/grad_norm"] == [*range(1, 7), *range(8, 21)]
    assert "1 values are null" in notes(raw)


def test_prime_rls_rows_of_one_step_and_its_clock():
    (raw,) = READER.read(DATA / "prime_rl_metrics.jsonl")
    assert len(rows(raw)) == 140
    assert raw.scalars.column("wall_time").to_pylist()[:4] == [1764000000.5] * 3 + [1764000001.5]
    assert raw.problems == ()


def test_a_list_of_one_is_its_value_and_a_list_of_several_none():
    (raw,) = READER.read(DATA / "nested_lists.jsonl")
    assert ("objective/kl1_avg", 3, 0.003) in rows(raw)
    assert sum(rows_lost for _, rows_lost in lost(raw)) == 10


def test_lines_of_changing_shape_keep_their_order(tmp_path):
    lines = [{"step": step, "a": step, **({"b": 1.5} if step % 3 else {}), **({"t": "x"} if step == 4 else {})} for step in range(9)]
    raw = read(tmp_path, "".join(json.dumps(line) + "\n" for line in lines))
    assert rows(raw) == [(key, line["step"], line[key]) for line in lines for key in ("a", "b") if key in line]


@pytest.mark.parametrize("far", [100, 30_000])
def test_a_better_step_far_down_is_the_axis_of_all(tmp_path, far):
    text = '{"step": 5, "a": 1}\n' * far + '{"step": 5, "stats/completed_steps": 9, "a": 2}\n'
    raw = read(tmp_path, text)
    assert rows(raw) == [("step", 9, 5.0), ("a", 9, 2.0)]
    raw = read(tmp_path, text.replace("stats/completed_steps", "stats\\/completed_steps"))
    assert ("a", 9, 2.0) in rows(raw)


def test_large_whole_steps_stay_exact(tmp_path):
    assert rows(read(tmp_path, f'{{"step": {2**53 + 1}, "a": 1}}\n'))[0][1] == 2**53 + 1
