import csv
import io

import pandas as pd
import pyarrow as pa
import pytest

from ingest.run import ProblemKind, ReadProblem
from monitor.pages import _tables
from monitor.pages._colours import BROKEN, Identity
from monitor.pages._curves import View, strip
from monitor.pages._panels import panels
from tests.monitor.pages.frames import frame

WHO = Identity(id="r", label="=mine", hue=BROKEN, symbol="x")


def strips(rows, ratio="lag"):
    return [strip(panel, [(WHO, rows)], [], View()) for panel in panels(ratio)]


def test_a_row_per_stay_with_its_lowest_value():
    table = _tables.crossing_table(strips(frame(ess__lag__token=[0.4, 1, 0.123456, float("nan"), 0.2, 1, 0.3])), View())
    assert table.to_numpy().tolist() == [
        ["=mine", "lag", "token", "0 (first row)", "0", "0.4", "0", "1"],
        ["=mine", "lag", "token", "2", "4 (1 without a value)", "0.123", "2", "5"],
        ["=mine", "lag", "token", "6", "6", "0.3", "6", "still under at the end"],
    ]
    assert list(_tables.crossing_table(strips(frame(reward__mean=[1.0])), View()).columns) == list(_tables.CROSSING_COLUMNS)


@pytest.mark.parametrize(
    ("first", "last", "expected"), [(None, None, ["1", "5"]), (2, 4, ["1"]), (3, 4, []), (None, 4, ["1"]), (3, None, ["5"]), (5, 5, ["5"])]
)
def test_only_stays_that_touch_the_part_drawn_are_listed(first, last, expected):
    view = View(first_step=first, last_step=last)
    table = _tables.crossing_table(strips(frame(ess__lag__token=[1, 0.4, 0.4, 1, 1, 0.4, 1])), view)
    assert table["from step"].tolist() == expected


def test_a_total_that_stands_in_for_a_lag_is_labelled():
    rows = frame(ess__total__sequence=[1, 0.1])
    assert _tables.crossing_table(strips(rows), View())["ratio"].tolist() == ["total (lag not separable)"]
    assert _tables.crossing_table(strips(rows, "total"), View())["ratio"].tolist() == ["total"]


def test_the_crossing_of_a_group_is_that_of_its_lowest_run():
    low = {"ess__lag__token.group_low": [0.9, 0.3, 0.9], "ess__lag__token.group_high": [1, 1, 1]}
    table = _tables.crossing_table(strips(frame(ess__lag__token=[1, 0.6, 1], **low)), View())
    assert table[["level", "from step", "lowest value"]].to_numpy().tolist() == [["token, lowest run of the group", "1", "0.3"]]


def problem(what, path="x/steps.jsonl", rows=3):
    return ReadProblem(path=path, place="key a", what=what, rows=rows, kind=ProblemKind.UNMAPPED)


def test_runs_that_share_a_problem_are_named_together_and_no_row_is_lost():
    table = _tables.problem_table([("a", problem("one")), ("b", problem("one", rows=4)), ("a", problem("two"))], runs=2)
    assert table.to_numpy().tolist() == [
        ["all 2 runs", "unmapped", "steps.jsonl key a", "one", 7],
        ["a", "unmapped", "steps.jsonl key a", "two", 3],
    ]
    assert _tables.problem_table([], runs=2).empty


def test_notes_that_differ_only_in_their_file_are_one_row_and_the_lost_come_first():
    found = [(f"run{n}", problem("one", path=f"x/run{n}.jsonl", rows=1)) for n in range(100)]
    lost = ReadProblem(path="x/run0.jsonl", place="line 3", what="no number", rows=1, kind=ProblemKind.LOST)
    table = _tables.problem_table([*found, ("run0", lost)], runs=100)
    assert table.to_numpy().tolist() == [
        ["run0", "lost", "run0.jsonl line 3", "no number", 1],
        ["all 100 runs", "unmapped", "key a", "one", 100],
    ]
    assert _tables.problem_table(found[:5], runs=100)["run"].tolist() == ["5 runs"]
    assert len(_tables.problem_rows([*found, ("run0", lost)])) == 101


def test_the_data_are_the_rows_that_are_drawn():
    rows = frame(reward__mean=[1, 2], kl__total__k2=[5])
    logged = frame("logged", reward__mean=[9], entropy__mean=[3])
    both = pa.concat_tables([rows, logged])
    table = _tables.drawn_rows(strips(both), {"=mine": both})
    assert table[["run", "metric", "value", "origin"]].to_numpy().tolist() == [
        ["=mine", "reward.mean", 1.0, "tokens"],
        ["=mine", "reward.mean", 2.0, "tokens"],
        ["=mine", "kl.total.k2", 5.0, "tokens"],
        ["=mine", "entropy.mean", 3.0, "logged"],
    ]
    assert _tables.drawn_rows([], {}).empty


def test_no_spreadsheet_runs_a_cell():
    table = pd.DataFrame({"run": ["=1+1", "fine", "@x"], "value": [-1.0, 2.0, float("nan")], "\tn": ["+1", "-1", "\r"]})
    read = list(csv.reader(io.StringIO(_tables.as_csv(table).decode(), newline="")))
    assert read[1:] == [["'=1+1", "-1.0", "'+1"], ["fine", "2.0", "'-1"], ["'@x", "", "'\r"]]
