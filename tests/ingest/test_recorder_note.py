"""What a recorder could not write: counted exactly, said in a sentence, shown with the run, and never in the way of reading it."""

import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.errors import UnknownContainerError
from ingest.load import load
from ingest.readers._growing_run import GrowingRun
from ingest.recorder_note import _MOST_SPANS, RecorderNote, Steps, note_path, notes, read_note
from ingest.run import ProblemKind

RISING = st.lists(st.integers(0, 60), unique=True).map(sorted)


def steps(numbers):
    found = Steps()
    for number in numbers:
        found = found.and_one(number)
    return found


def numbers(found):
    return [number for low, high in found.spans for number in range(low, high + 1)]


def put(folder, note):
    note_path(folder, note.rank).write_text(note.written(), encoding="utf-8")


@given(RISING)
def test_steps_are_kept_as_spans_that_are_not_next_to_each_other(which):
    found = steps(which)
    assert found.count == len(which)
    assert numbers(found) == which
    assert all(low > high + 1 for (_, high), (low, _) in zip(found.spans, found.spans[1:], strict=False))


@given(RISING, st.integers(0, 61))
def test_steps_that_are_trained_again_are_taken_out(which, first):
    assert steps(which).before(first) == steps([number for number in which if number < first])


@given(st.lists(st.integers(0, 10**6)), RISING, RISING)
def test_every_call_is_counted_whatever_its_step(any_order, one, two):
    assert steps(any_order).count == len(any_order)
    assert steps(one).and_those(steps(two)).count == len(one) + len(two)


def test_a_step_without_a_number_is_counted_and_not_named():
    found = Steps().and_one(None).and_one(3)
    assert (found.count, found.spans, str(found)) == (2, ((3, 3),), "3 and 1 before them")
    assert found.and_one(5).before(4) == found, "it cannot be told whether it is among those that are trained again"


def test_of_very_many_the_latest_are_kept_and_all_are_counted():
    found = steps(range(0, 4 * _MOST_SPANS, 2))
    assert found.count == 2 * _MOST_SPANS
    assert found.spans[-1] == (4 * _MOST_SPANS - 2,) * 2
    assert len(found.spans) == _MOST_SPANS
    assert str(found) == f"{', '.join(str(4 * _MOST_SPANS - 2 * back) for back in range(8, 0, -1))} and {2 * _MOST_SPANS - 8} before them"
    assert len(RecorderNote(dropped=found, failed=found, first_failure="x" * 2000, last_failure="y" * 2000).written()) < 1 << 14


def test_a_note_is_read_as_it_was_written(tmp_path):
    note = RecorderNote(rank=11, dropped=steps([5, 7, 8]), failed=steps([1]), first_failure="OSError: full", last_failure="ShapeError: no")
    put(tmp_path, note)
    assert read_note(tmp_path / "recorder.rank=011.json") == note


def test_the_sentence_says_how_many_which_and_why():
    note = RecorderNote(dropped=steps([5, 7, 8]), failed=steps([1, 4]), first_failure="OSError: full", last_failure="ShapeError: no")
    assert str(note) == (
        "3 steps were not recorded, because the recorder was behind: it waited for the disk, and a training is never held up (5, 7 to 8); "
        "2 calls of the recorder failed (steps 1, 4), first with: OSError: full; lately: ShapeError: no"
    )
    assert "lately" not in str(replace(note, last_failure="OSError: full"))


def test_failures_go_with_their_message_when_they_are_recorded_again():
    note = RecorderNote(rank=2, dropped=steps([5, 7, 8]), failed=steps([9]), first_failure="a", last_failure="b")
    assert note.before(8) == RecorderNote(rank=2, dropped=steps([5, 7]))
    assert note.before(5).is_empty
    assert not note.before(6).is_empty


@pytest.fixture
def run(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "steps.jsonl").write_text('{"step": 1, "reward.mean": 0.5}\n', encoding="utf-8")
    return tmp_path / "run"


def test_readers_show_it_with_the_run_rank_by_rank(run):
    put(run, RecorderNote(rank=0, dropped=steps([5])))
    put(run, RecorderNote(rank=3, dropped=steps([6])))
    found = [problem for problem in load(run)[0].problems if "recorder" in problem.place]
    assert [problem.place for problem in found] == ["recorder of rank 0", "recorder of rank 3"]
    assert all(problem.kind is ProblemKind.NOTE and problem.rows == 0 for problem in found)
    assert "(5)" in found[0].what


def test_whoever_follows_the_run_is_told_the_same(run):
    put(run, RecorderNote(rank=3, dropped=steps([6])))
    growing = GrowingRun(run, time.monotonic)
    growing.more()
    assert [problem.what for problem in growing.logs()[0].problems] == [problem.what for problem in notes(run)] != []


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b'{"rank": 0}', b'{"rank": 0, "dropped": 3, "failed": 1}', b"\xff\xfe"])
def test_a_note_that_is_none_is_said_and_the_run_is_read(run, content):
    note_path(run, 0).write_bytes(content)
    (loaded,) = load(run)
    assert loaded.scalars.num_rows == 1
    assert any("its note cannot be read" in problem.what for problem in loaded.problems)


def test_a_link_out_of_the_folder_is_not_followed(run, tmp_path):
    put(tmp_path, RecorderNote(rank=0, dropped=steps([5])))
    note_path(run, 0).symlink_to(note_path(tmp_path, 0))
    assert list(notes(run)) == []


def test_the_notes_of_a_thousand_ranks_are_a_few_lines(run):
    for rank in range(40):
        put(run, RecorderNote(rank=rank, dropped=steps([5])))
    assert len(list(notes(run))) == 9
    assert "32 more ranks" in list(notes(run))[-1].what


def test_a_folder_in_which_nothing_could_be_recorded_says_why(tmp_path):
    put(tmp_path, RecorderNote(rank=0, failed=steps([1]), first_failure="ShapeError: position: not one row per token"))
    with pytest.raises(UnknownContainerError, match=r"recorder of rank 0: 1 calls of the recorder failed .*not one row per token"):
        load(tmp_path)
