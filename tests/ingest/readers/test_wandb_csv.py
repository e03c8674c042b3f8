"""Every wandb export gives what it holds: runs, points, steps, and what is odd about it."""

import math
from collections import Counter
from pathlib import Path

import pytest

from ingest.errors import ReadError, TooLargeError
from ingest.identify import identify_reader
from ingest.load import load
from ingest.readers import _cells
from ingest.readers.wandb_csv import READER
from ingest.run import ProblemKind

DATA = Path(__file__).parents[2] / "data" / "wandb_csv"


def raws(name):
    assert identify_reader(DATA / name) is READER
    return READER.read(DATA / name)


def counts(raw):
    return dict(Counter(raw.scalars["key"].to_pylist()))


def column(raw, key, name="value"):
    return [row[name] for row in raw.scalars.to_pylist() if row["key"] == key]


def said(raw):
    return " | ".join(f"{problem.place}: {problem.what}" for problem in raw.problems)


def write(tmp_path, text, encoding="utf-8"):
    path = tmp_path / "export.csv"
    path.write_bytes(text.encode(encoding))
    return path


def read(tmp_path, text, encoding="utf-8"):
    return READER.read(write(tmp_path, text, encoding))


def test_names_may_hold_what_separates_them():
    assert {raw.name: counts(raw) for raw in raws("plain_two_runs.csv")} == {
        "grpo-7b - lr 1e-6 - seed 1": {"actor/pg_clipfrac": 30},
        "17/04/2026_22:06:37_exp-48n tp 0": {"actor/pg_clipfrac": 30},
    }


def test_blank_cells_are_not_filled():
    found = raws("blank_cells_three_runs.csv")
    assert {raw.name: counts(raw) for raw in found} == {name: {"actor/entropy": 30} for name in ("v0", "v1-bad", "v1-fixed")}
    assert column(found[1], "actor/entropy", "step")[:2] == [1, 4]
    assert not any(raw.problems for raw in found)


def test_the_step_is_taken_from_its_own_column_where_x_is_a_metric():
    brisk, calm = raws("x_is_a_metric.csv")
    assert (brisk.name, calm.name) == ("brisk-dawn-12", "calm-lake-13")
    assert counts(brisk) == {"train/reward": 40, "train/global_step": 40}
    assert column(brisk, "train/reward", "step")[:3] == [4, 8, 12]
    assert column(calm, "train/global_step", "step")[:2] == [5, 9]
    assert column(calm, "train/global_step")[:2] == [1.0, 2.0]


def test_an_envelope_makes_a_group():
    fixed, broken = raws("grouped_min_max.csv")
    assert (fixed.name, broken.name) == ("Group: v1_fixed", "Group: v1_broken")
    assert counts(broken) == {"rl/ess": 50, "rl/ess.group_low": 50, "rl/ess.group_high": 50}
    assert (column(broken, "rl/ess.group_low")[0], column(broken, "rl/ess.group_high")[0]) == (0.85, 1.0)
    assert "a group of runs: the value is the mean" in said(fixed)
    quantities = {row["quantity"] for run in load(DATA / "grouped_min_max.csv") for row in run.scalars.to_pylist()}
    assert quantities == {"ess.total.token", "ess.total.token.group_low", "ess.total.token.group_high"}


def test_a_group_over_time_keeps_steps_and_time():
    (raw,) = raws("grouped_by_config_key_fractional_x.csv")
    assert raw.name == "clip_eps: 0.2"
    assert column(raw, "critic/score/mean", "step") == list(range(30))
    assert column(raw, "Relative Time (Process)")[:2] == [0.2, 12.545]


def test_unquoted_grouped_runs():
    (raw,) = raws("grouped_runs_unquoted.csv")
    assert raw.name == "Grouped runs"
    assert counts(raw)["kl"] == 20


def test_nan_infinity_repeated_and_unsorted_steps():
    (raw,) = raws("nan_inf_unsorted_repeated.csv")
    values = column(raw, "rl/kl_new_old")
    assert len(values) == 8
    assert sum(math.isnan(value) for value in values) == 2
    assert sum(math.isinf(value) for value in values) == 3
    assert column(raw, "rl/kl_new_old", "step") == [5, 1, 3, 3, 2, 4, 7, 6]
    assert "step 3: logged more than once" in said(raw)
    (run,) = load(DATA / "nan_inf_unsorted_repeated.csv")
    assert [(row["step"], row["value"]) for row in run.scalars.to_pylist()][2:4] == [(3, math.inf), (3, 0.02)]


def test_byte_order_mark_and_line_ends():
    (raw,) = raws("bom_crlf.csv")
    assert (raw.name, counts(raw)) == ("прогон-1", {"reward": 12})


def test_one_point():
    (raw,) = raws("one_point.csv")
    assert column(raw, "entropy") == [1.2]


def test_a_runs_table_is_settings_without_people():
    v0, v1 = raws("runs_table.csv")
    assert v0.scalars.num_rows == 0
    assert v0.config["actor.clip_ratio"] == 0.2
    assert v0.config["rollout.engine_kwargs.logprobs_mode"] == "processed_logprobs"
    assert v1.config["rollout.temperature"] == 0.7
    assert "no curves" in said(v0)
    assert "left out as personal: Notes, User, Tags" in said(v0)
    assert "someone" not in str(v0)
    assert [(run.name, run.scalars.num_rows, run.dialect) for run in load(DATA / "runs_table.csv")] == [("v0", 0, ""), ("v1", 0, "")]


def test_a_history_has_its_index_and_axes_taken_off():
    (raw,) = raws("history_unnamed_index.csv")
    assert counts(raw) == {"actor/ppo_kl": 45, "rollout_corr/rollout_is_eff_sample_size": 45, "rollout_corr/kl": 22}
    assert column(raw, "actor/ppo_kl", "step") == list(range(0, 441, 10))
    assert column(raw, "actor/ppo_kl", "wall_time")[:2] == [1764000000.5, 1764000001.5]


def test_hostile_names_stay_text():
    names = ["<img src=x onerror=alert(1)>", '=HYPERLINK("x")', "../../etc/passwd", r"$\frac{1}{0}$ **bold** - x"]
    assert [raw.name for raw in raws("hostile_names.csv")] == names
    runs = load(DATA / "hostile_names.csv")
    assert [run.name for run in runs] == names
    assert all(run.id.replace("-", "").replace("_", "").isalnum() for run in runs)


def test_ess_crossings():
    runs = {run.name: run.scalars.to_pylist() for run in load(DATA / "ess_crossings.csv")}
    broken = {row["step"]: row["value"] for row in runs["broken V1"]}
    assert {row["quantity"] for row in runs["broken V1"]} == {"ess.total.token"}
    assert broken[80] >= 0.5 > broken[81] == 0.488
    assert broken[99] < 0.5 <= broken[100]
    assert min(broken.items(), key=lambda item: item[1]) == (99, 0.272)


def test_what_is_no_number_is_counted_with_line_and_column(tmp_path):
    (raw,) = read(tmp_path, "Step,a - m\n1,0.5\n2,oops\n3,1_000\n4,np.float64(0.25)\n5,True\n")
    assert column(raw, "m") == [0.5, 0.25, 1.0]
    (problem,) = raw.problems
    assert (problem.rows, problem.kind) == (2, ProblemKind.LOST)
    assert problem.place == "line 3, column a - m; line 4, column a - m"


def test_values_without_a_step_are_counted(tmp_path):
    (raw,) = read(tmp_path, "Step,a - m\n1,0.5\n,0.6\nnan,0.7\n")
    assert column(raw, "m") == [0.5]
    assert [(problem.rows, problem.place) for problem in raw.problems] == [(2, "line 3, column a - m")]


def test_a_time_axis_without_steps_is_counted_off_and_kept(tmp_path):
    (raw,) = read(tmp_path, "Relative Time (Wall),a - m\n0.5,1\n2.5,2\n1.5,3\n")
    assert column(raw, "m", "step") == [0, 2, 1]
    assert column(raw, "Relative Time (Wall)") == [0.5, 2.5, 1.5]
    assert "stands for the step" in said(raw)


def test_a_step_that_is_a_mean_is_rounded_and_said(tmp_path):
    (raw,) = read(tmp_path, "Time,a - _step,a - m\n0.5,1.4,1\n")
    assert column(raw, "m", "step") == [1]
    assert "and are rounded: 1" in said(raw)


def test_a_step_column_names_the_run_beyond_doubt(tmp_path):
    (raw,) = read(tmp_path, "x,a - b - _step,a - b - c - d\n1,1,1\n")
    assert (raw.name, counts(raw)) == ("a - b", {"c - d": 1, "x": 1})
    shorter, longer = read(tmp_path, "x,a - _step,a - m,a - b - _step,a - b - m\n1,1,1,1,1\n")
    assert (shorter.name, longer.name, counts(longer)) == ("a", "a - b", {"m": 1, "x": 1})


def test_a_header_that_can_be_divided_in_two_ways_says_so(tmp_path):
    first, second = read(tmp_path, "Step,lr 1 - seed 1 - m,lr 2 - seed 1 - m\n1,1,1\n")
    assert (first.name, second.name) == ("lr 1 - seed 1", "lr 2 - seed 1")
    assert "it may be part of the metric" in said(first)


def test_runs_of_one_name_are_told_apart(tmp_path):
    first, second = read(tmp_path, "Step,a - m,a - m__MIN,a - m__MAX,a - m,a - m__MIN,a - m__MAX\n1,1,1,1,2,2,2\n")
    assert (first.name, second.name) == ("a", "a (2)")
    assert (counts(first), counts(second)) == ({"m": 1}, {"m": 1})
    assert "several runs have this name" in said(first)


def test_points_that_look_like_a_selection_are_called_sampled(tmp_path):
    text = "Step,a - m\n" + "".join(f"{step},1\n" for step in (0, 4, 56, 60, 112, 113, 120, 160, 200, 210, 220, 300))
    assert "sampled or bucketed" in said(read(tmp_path, text)[0])
    text = "Step,a - m\n" + "".join(f"{step * 3},1\n" for step in range(500))
    assert "500 points: probably a sampled" in said(read(tmp_path, text)[0])
    text = "Step,a - m\n" + "".join(f"{step},1\n" for step in range(500))
    assert not read(tmp_path, text)[0].problems


def test_a_cut_file_is_read_up_to_the_cut(tmp_path):
    (raw,) = read(tmp_path, '"Step","a - m"\n"1","0.5"\n"2","0.')
    assert column(raw, "m") == [0.5]
    assert [(problem.rows, problem.place) for problem in raw.problems] == [(1, "lines 3 to 3")]


def test_a_lost_quote_counts_the_lines_it_swallows(tmp_path):
    (raw,) = read(tmp_path, 'Step,a - m\n1,0.5\n2,"0.6\n3,0.7\n4,0.8\n')
    assert column(raw, "m") == [0.5]
    assert raw.problems[0].rows == 3


def test_ragged_rows(tmp_path):
    raw = read(tmp_path, "Step,a - m,b - m\n1,0.5\n2,0.6,0.7,0.8\n")[0]
    assert [(problem.place, problem.rows, problem.kind) for problem in raw.problems] == [
        ("line 2", 0, ProblemKind.NOTE),
        ("line 3", 1, ProblemKind.LOST),
    ]


def test_a_column_of_another_shape_is_counted(tmp_path):
    (raw,) = read(tmp_path, "Step,a - m,other\n1,0.5,3\n2,0.6,\n")
    assert [(problem.place, problem.rows) for problem in raw.problems] == [("column other", 1)]


def test_utf_16_of_a_spreadsheet(tmp_path):
    (raw,) = read(tmp_path, "Step,a - m\r\n1,0.5\r\n", "utf-16")
    assert (raw.name, column(raw, "m")) == ("a", [0.5])


@pytest.mark.parametrize("text", ["a,b\n1,2\n", "Step,reward\n1,2\n", "a - m,b - m\n1,2\n", ",\n"])
def test_other_tables_are_refused_with_their_columns(tmp_path, text):
    with pytest.raises(ReadError, match="found the columns"):
        read(tmp_path, text)


@pytest.mark.parametrize("text", ["", "\n\n"])
def test_an_empty_file_is_refused(tmp_path, text):
    with pytest.raises(ReadError, match="empty file"):
        read(tmp_path, text)


def test_an_export_without_points_is_refused(tmp_path):
    with pytest.raises(ReadError, match="at least one value"):
        load(write(tmp_path, "Step,a - m\n1,\n"))


def test_text_that_is_not_unicode_is_refused(tmp_path):
    path = tmp_path / "export.csv"
    path.write_bytes(b"Step,caf\xe9 - m\n1,2\n")
    with pytest.raises(ReadError, match="UTF-8"):
        READER.read(path)


def test_bounds(tmp_path, monkeypatch):
    path = write(tmp_path, "Step,a - m\n1,2\n")
    monkeypatch.setattr("ingest._bounds.MAX_TEXT_BYTES", 3)
    with pytest.raises(TooLargeError, match="MiB of text"):
        READER.read(path)
    monkeypatch.undo()
    monkeypatch.setattr("ingest._bounds.MAX_COLUMNS", 1)
    with pytest.raises(TooLargeError, match="at most 1 columns"):
        list(_cells.records(path))
