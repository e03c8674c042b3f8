"""A run that restarts from a checkpoint: the later segment stands, and the seam is marked."""

from ingest._seams import joined
from ingest.load import load
from ingest.run import ProblemKind
from tests.ingest.test_mapping import raw


def log(*steps):
    return raw(*(("k", step, float(place)) for place, step in enumerate(steps)))


def values(found):
    return [(row["step"], row["value"]) for row in found.raw.scalars.to_pylist()]


def test_the_later_segment_stands_and_its_first_value_is_marked():
    before = log(1, 2, 3, 4, 3, 4, 5)
    found = joined(before)
    assert values(found) == [(1, 0.0), (2, 1.0), (3, 4.0), (4, 5.0), (5, 6.0)]
    assert list(found.marks) == [("k", 3)]
    shadowed, note = sorted(found.raw.problems, key=lambda problem: problem.kind == ProblemKind.NOTE)
    assert (shadowed.kind, shadowed.rows) == (ProblemKind.SHADOWED, 2)
    assert (note.kind, note.rows, note.place) == (ProblemKind.NOTE, 0, "step 3")


def test_what_a_later_segment_has_not_reached_yet_stays_and_is_marked():
    found = joined(log(1, 2, 3, 4, 5, 2, 3))
    assert sorted(values(found)) == [(1, 0.0), (2, 5.0), (3, 6.0), (4, 3.0), (5, 4.0)]
    assert "before the restart, which has not come so far" in found.marks["k", 4]
    assert sum(problem.rows for problem in found.raw.problems) == 2


def test_one_early_row_at_the_end_of_a_log_costs_one_value():
    found = joined(log(*range(1, 41), 3))
    assert [step for step, _ in sorted(values(found))] == list(range(1, 41))


def test_two_restarts():
    found = joined(log(1, 2, 3, 4, 5, 3, 4, 5, 6, 5, 6, 7))
    assert [step for step, _ in values(found)] == [1, 2, 3, 4, 5, 6, 7]
    assert sorted(step for _, step in found.marks) == [3, 5]


def test_the_mark_of_a_restart_goes_when_a_later_restart_passes_it():
    found = joined(log(*range(1, 10), 4, 5, 3, 4, 5, 6, 7))
    assert {step: said.rpartition("from here on ")[2] for (_, step), said in found.marks.items()} == {
        3: "were logged before the restart and are left out",
        8: "were logged before the restart, which has not come so far",
    }


def test_a_file_in_no_order_is_sorted_not_cut():
    before = log(5, 1, 4, 2, 3, 0)
    assert joined(before).raw is before


def test_a_step_logged_twice_in_a_row_is_no_restart():
    before = log(1, 2, 2, 3)
    assert joined(before).raw is before


def test_keys_are_judged_each_by_itself():
    before = raw(("a", 1, 0.0), ("a", 2, 0.0), ("b", 1, 0.0), ("a", 3, 0.0), ("b", 2, 0.0), ("a", 2, 1.0), ("a", 3, 1.0), ("b", 3, 0.0))
    found = joined(before)
    assert [row["step"] for row in found.raw.scalars.to_pylist() if row["key"] == "b"] == [1, 2, 3]
    assert list(found.marks) == [("a", 2)]


def test_the_seam_is_in_the_frame_of_the_run(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text("".join(f'{{"step": {step}, "reward.mean": {value}}}\n' for value, step in enumerate([1, 2, 3, 4, 3, 4])))
    (run,) = load(path)
    rows = run.scalars.to_pylist()
    assert [(row["step"], row["value"]) for row in rows] == [(1, 0.0), (2, 1.0), (3, 4.0), (4, 5.0)]
    assert [row["step"] for row in rows if "resumed at this step" in row["caveat"]] == [3]
    assert any(problem.what.startswith("the run was resumed here") for problem in run.problems)
