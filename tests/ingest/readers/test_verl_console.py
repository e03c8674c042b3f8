"""verl's console lines amid what else is printed: values read, other lines counted, cut ends not guessed."""

import gzip
import math
from pathlib import Path

import pytest

from ingest.errors import ReadError
from ingest.identify import identify_reader
from ingest.readers.verl_console import READER
from ingest.run import ProblemKind

DATA = Path(__file__).parents[2] / "data" / "verl_console"


def read(tmp_path, text):
    path = tmp_path / "out.log"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert identify_reader(path) is READER
    return READER.read(path)[0]


def rows(raw):
    return [(row["key"], row["step"], row["value"]) for row in raw.scalars.to_pylist()]


@pytest.mark.parametrize("name", ["driver.log", "driver.log.gz"])
def test_a_driver_log(name):
    assert identify_reader(DATA / name) is READER
    (raw,) = READER.read(DATA / name)
    found = rows(raw)
    assert raw.name == "driver"
    assert len(found) == 122
    assert [step for key, step, _ in found if key == "actor/pg_loss"] == list(range(1, 13))
    assert math.isnan(next(value for key, step, value in found if (key, step) == ("actor/ppo_kl", 5)))
    assert [(step, value) for key, step, value in found if key.startswith("val-core")] == [(0, 0.21), (6, 0.4)]
    assert [problem.what for problem in raw.problems] == ["16 lines of other text are passed over"]


def test_wrapped_numbers_colons_in_keys_and_what_ray_appends(tmp_path):
    raw = read(
        tmp_path,
        "\x1b[36m(TaskRunner pid=1, ip=10.0.0.1)\x1b[0m step:3 - a/b:c:np.float64(0.5) - d:-1e-06\x1b[0m [repeated 2x across cluster]\n",
    )
    assert rows(raw) == [("a/b:c", 3, 0.5), ("d", 3, -1e-6)]


def test_what_is_no_number_is_counted(tmp_path):
    raw = read(tmp_path, "step:1 - a:0.5 - b:oops - c\nstep:99999999999999999999 - a:1\nstep:9223372036854775808 - a:1\n")
    assert rows(raw) == [("a", 1, 0.5)]
    assert sum(problem.rows for problem in raw.problems if problem.kind is ProblemKind.LOST) == 3


def test_other_steps_are_not_taken(tmp_path):
    raw = read(tmp_path, "global_step:3 - x:1\nat step:4 of 5\nstep:1 - a:0.5\n")
    assert rows(raw) == [("a", 1, 0.5)]


def test_a_line_that_may_be_cut_gives_all_but_its_last_value(tmp_path):
    raw = read(tmp_path, "step:1 - a:0.5 - b:1.0\nstep:2 - a:0.7 - b:1.")
    assert rows(raw)[-1] == ("a", 2, 0.7)
    assert "its last value may be cut" in raw.problems[0].what


def test_a_log_that_begins_with_printed_settings(tmp_path):
    assert len(rows(read(tmp_path, "{'trainer': {'logger': ['console']}}\nstep:1 - a:0.5\n"))) == 1


def test_the_first_step_may_come_late(tmp_path):
    assert len(rows(read(tmp_path, "loading weights, please wait\n" * 80_000 + "step:1 - a:0.5\n"))) == 1


def test_a_cut_gzip_is_read_up_to_the_cut(tmp_path):
    whole = "".join(f"step:{step} - a:{math.sin(step)}\n" for step in range(5000))
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress(whole.encode())[:-2000])
    (raw,) = READER.read(path)
    assert 0 < len(rows(raw)) < 5000
    assert any(problem.rows == 1 for problem in raw.problems)


def test_a_log_without_steps_is_refused(tmp_path):
    path = tmp_path / "out.log"
    path.write_text("just words\n")
    assert "no line of it" in READER.objection(path)
    with pytest.raises(ReadError, match="driver"):
        READER.read(path)
