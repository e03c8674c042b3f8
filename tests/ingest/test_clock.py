"""The true step of a log whose reader counted something else, and two clocks in one log."""

from ingest._clock import timed
from ingest.run import ProblemKind
from tests.ingest.test_mapping import raw


def rows(log):
    return [(row["key"], row["step"], row["value"]) for row in log.scalars.to_pylist()]


def lost(log):
    return sum(problem.rows for problem in log.problems if problem.kind is not ProblemKind.NOTE)


def test_a_log_is_put_on_its_own_step():
    log = raw(("gs", 0, 10.0), ("k", 0, 0.1), ("gs", 1, 20.0), ("k", 1, 0.2))
    found = timed(log, ("absent", "gs"))
    assert rows(found.raw) == [("k", 10, 0.1), ("k", 20, 0.2)]
    (axis,) = found.raw.problems
    assert (axis.kind, axis.rows) == (ProblemKind.SHADOWED, 2)
    assert found.caveats == {}


def test_another_clock_keeps_its_steps_and_is_said():
    log = raw(("gs", 0, 10.0), ("k", 0, 0.1), ("engine", 5, 7.0), ("engine", 6, 8.0))
    found = timed(log, ("gs",))
    assert rows(found.raw) == [("k", 10, 0.1), ("engine", 5, 7.0), ("engine", 6, 8.0)]
    assert found.caveats == {"engine": "its step is the file's own count, not gs"}
    (note,) = [problem for problem in found.raw.problems if problem.kind is ProblemKind.NOTE]
    assert "another clock" in note.what
    assert "engine" in note.place


def test_a_value_without_the_step_that_its_key_has_elsewhere_is_lost():
    log = raw(("gs", 0, 10.0), ("k", 0, 0.1), ("k", 1, 0.2))
    found = timed(log, ("gs",))
    assert rows(found.raw) == [("k", 10, 0.1)]
    assert log.scalars.num_rows == found.raw.scalars.num_rows + lost(found.raw)
    assert [(problem.place, problem.rows) for problem in found.raw.problems if problem.kind is ProblemKind.LOST] == [("key k", 1)]


def test_a_step_that_counts_the_same_changes_nothing():
    log = raw(("gs", 1, 1.0), ("k", 1, 0.1), ("engine", 2, 7.0))
    found = timed(log, ("gs",))
    assert rows(found.raw) == [("k", 1, 0.1), ("engine", 2, 7.0)]
    assert found.caveats == {}


def test_a_step_that_is_no_number_is_none():
    log = raw(("gs", 0, float("nan")), ("gs", 1, float("inf")), ("gs", 2, 1e300), ("gs", 3, 9.0), ("k", 3, 0.1), ("k", 0, 0.2))
    assert rows(timed(log, ("gs",)).raw) == [("k", 9, 0.1)]


def test_the_axis_of_the_reader_is_not_replaced_by_a_lesser_one():
    log = raw(("lesser", 5, 1.0), ("k", 5, 0.1))
    log = type(log)(**{**vars(log), "axis": "best"})
    assert timed(log, ("best", "lesser")).raw is log


def test_without_a_step_key_the_log_stays_as_it_is():
    log = raw(("k", 5, 0.1))
    assert timed(log, ("gs",)).raw is log
    assert timed(log, ()).raw is log


def test_rows_that_lack_the_first_step_are_placed_by_the_next():
    """slime logs `rollout/step` and `train/step` in rows of their own."""
    rows = []
    for step in range(3):
        rows += [("rollout/step", 2 * step, float(step)), ("rollout/raw_reward", 2 * step, 0.5)]
        rows += [("train/step", 2 * step + 1, float(step)), ("train/ppo_kl", 2 * step + 1, 0.1)]
    found = timed(raw(*rows), ("train/step", "rollout/step"))
    steps = {}
    for row in found.raw.scalars.to_pylist():
        steps.setdefault(row["key"], []).append(row["step"])
    assert steps == {"train/ppo_kl": [0, 1, 2], "rollout/raw_reward": [0, 1, 2]}
    assert found.caveats == {"rollout/raw_reward": "its step is rollout/step, another clock than train/step"}
    assert sum(problem.rows for problem in found.raw.problems) == 6
