"""Recording from inside a training loop: nothing is waited for, nothing is raised, nothing is lost in silence."""

import errno
import inspect
import json
import logging
import multiprocessing
import os
import shutil
import threading
import time
import weakref

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from ingest.load import load
from ingest.recorder_note import RecorderNote, Steps, note_path, read_note
from ingest.schema import TOKENS
from monitor.metrics.bounds import ClipBounds
from monitor.record import BackgroundRecorder, Recorder, compact, files
from monitor.record.arrays import TokenColumns
from monitor.record.backlog import Backlog

BASE = {"sample_id": [1, 1, 0], "position": [0, 1, 0], "rollout_logprob": [-1.0, -2.0, -3.0]}
WRONG = BASE | {"position": [0, 1]}


@pytest.fixture
def gate(monkeypatch):
    """Writing stands still until it is set, as on a disk that hangs."""
    opened, real = threading.Event(), files.write_tokens

    def wait(*given):
        opened.wait()
        real(*given)

    monkeypatch.setattr(files, "write_tokens", wait)
    yield opened
    opened.set()


@pytest.fixture
def recorder(tmp_path):
    made = BackgroundRecorder(tmp_path / "run")
    yield made
    made.close()


def recorded(folder):
    return [files.place(part) for part in files.parts(folder)]


def said(recorder):
    return [problem.what for problem in load(recorder.run_dir)[0].problems if "recorder" in problem.place]


def test_it_writes_what_the_plain_recorder_writes(tmp_path):
    columns = BASE | {"current_logprob": np.array([-1.0, -2.5, -3.0]), "loss_mask": [1, 0, 1], "reward": None, "rollout_version": 4}
    given = {"rank": "3", "bounds": ClipBounds(eps_low=0.05)}
    with BackgroundRecorder(tmp_path / "a", **given) as recorder:
        assert recorder.record(7, **columns) is True
        assert recorder.record(step=np.int64(8), **columns)
        assert recorder.flush()
        assert (recorder.recorded, recorder.dropped, recorder.failures, recorder.waiting) == (2, 0, 0, 0)
    plain = Recorder(tmp_path / "b", **given)
    wanted = [plain.record(step, **columns) for step in (7, 8)]
    found = files.parts(tmp_path / "a")
    assert [path.read_bytes() for path in found] == [path.read_bytes() for path in wanted]
    assert [path.name for path in found[0].parent.iterdir()] == [path.name for path in wanted[0].parent.iterdir()]
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["tokens"]


def test_the_columns_are_those_of_the_plain_recorder_and_of_the_log():
    parameters = inspect.signature(Recorder.record).parameters
    assert list(TokenColumns.__annotations__) == [name for name in parameters if name not in {"self", "step"}]
    assert set(TokenColumns.__annotations__) == set(TOKENS.names) - {"step"}
    required = {name for name, kind in TokenColumns.__annotations__.items() if "Required" in str(kind)}
    assert required == {name for name, each in parameters.items() if each.default is each.empty} - {"self", "step"}


def test_what_the_trainer_changes_after_the_call_is_not_recorded(recorder, gate):
    tensor, array, items = torch.tensor([-1.0, -2.0, -3.0]), np.array([-1.0, -2.0, -3.0], np.float32), [-1.0, -2.0, -3.0]
    view = np.array([[-1.0, 9.0], [-2.0, 9.0], [-3.0, 9.0]])[:, 0]
    recorder.record(0, **BASE | {"rollout_logprob": tensor}, current_logprob=array, old_logprob=items, ref_logprob=view)
    tensor.fill_(5), array.fill(5), view.fill(5)
    items[:] = [5.0] * 3
    gate.set()
    recorder.flush()
    table = pq.ParquetFile(files.part_of(recorder.run_dir, 0, 0)).read()
    for name in ("rollout_logprob", "current_logprob", "old_logprob", "ref_logprob"):
        assert table[name].to_pylist() == [-3.0, -1.0, -2.0], name


def test_a_full_line_drops_steps_without_a_wait_and_says_which(tmp_path, gate, caplog):
    recorder = BackgroundRecorder(tmp_path, waiting=2)
    taken = [recorder.record(step, **BASE) for step in range(5)]
    assert taken == [True, True, False, False, False]
    assert (recorder.dropped, recorder.waiting, recorder.recorded) == (3, 2, 0)
    (line,) = caplog.messages
    assert line == (
        f"recorder of rank 0 in {tmp_path}: step 2 is not recorded, because 2 steps wait to be written already; further ones are only "
        "counted. Record fewer columns, or to a faster disk, or let more steps wait (waiting=)."
    )
    gate.set()
    recorder.flush()
    assert recorder.record(5, **BASE)
    assert recorder.close()
    assert recorded(tmp_path) == [(0, 0), (1, 0), (5, 0)]
    assert "3 steps recorded, 3 dropped, 0 failed" in caplog.messages[-1]
    assert said(recorder) == [str(RecorderNote(dropped=Steps(count=3, spans=((2, 4),))))]


def test_nothing_is_copied_for_a_step_that_is_dropped(tmp_path, gate):
    class Untouched:
        def __array__(self, dtype=None, copy=None):
            raise AssertionError("it was copied")

    recorder = BackgroundRecorder(tmp_path, waiting=1)
    recorder.record(0, **BASE)
    assert not recorder.record(1, **BASE | {"position": Untouched()})
    gate.set()
    recorder.close()
    assert (recorder.dropped, recorder.failures) == (1, 0)


class Odd:
    def __init__(self, error):
        self.error = error

    def __array__(self, dtype=None, copy=None):
        raise self.error


@pytest.mark.parametrize(
    ("step", "columns", "message"),
    [
        (1, WRONG, r"ShapeError: position: not one row per token. Shapes: sample_id (3,) int64, position (2,)"),
        (1, {"sample_id": [1]}, "missing 2 required keyword-only arguments: 'position' and 'rollout_logprob'"),
        (1, BASE | {"logprob": [1.0] * 3}, "unexpected keyword argument 'logprob'"),
        (1, BASE | {"reward": [[1.0], [1.0, 2.0], [3.0]]}, "reward cannot be read as an array"),
        (1, BASE | {"reward": Odd(TypeError("can't convert cuda:0 device type tensor"))}, ".detach().float().cpu()"),
        (1, BASE | {"reward": Odd(MemoryError("no room"))}, "MemoryError: no room"),
        (1, BASE | {"reward": Odd(KeyError("of another library"))}, "KeyError: 'of another library'"),
        (1.5, BASE, "TypeError: 'float' object cannot be interpreted as an integer"),
        (None, BASE, "TypeError: 'NoneType' object cannot be interpreted as an integer"),
        (-1, BASE, "ValueError: step must be at least 0, found -1"),
        (0, BASE, "step 0 of rank 0 is recorded already"),
    ],
)
def test_what_does_not_fit_is_counted_logged_once_and_shown_by_readers(recorder, caplog, step, columns, message):
    recorder.record(0, **BASE)
    recorder.record(step, **columns)
    recorder.record(step, **columns)
    recorder.record(2, **BASE)
    recorder.flush()
    assert (recorder.recorded, recorder.dropped, recorder.failures) == (2, 0, 2)
    (line,) = caplog.messages
    assert message in line
    assert f"step {step} is not recorded" in line
    (shown,) = said(recorder)
    assert message in shown
    assert shown.startswith("2 calls of the recorder failed")
    assert recorded(recorder.run_dir) == [(0, 0), (2, 0)]


def test_a_trainer_whose_arrays_never_fit_leaves_a_note_before_it_ends(recorder):
    recorder.record(1, **BASE | {"reward": Odd(TypeError("can't convert cuda:0 device type tensor"))})
    limit = time.monotonic() + 60
    while not note_path(recorder.run_dir, 0).exists() and time.monotonic() < limit:
        time.sleep(0.01)
    assert read_note(note_path(recorder.run_dir, 0)).failed.count == 1


def test_each_kind_of_failure_is_logged(recorder, caplog):
    recorder.record(1, **WRONG)
    recorder.record(-1, **BASE)
    recorder.record(2, **BASE | {"position": [0]})
    recorder.flush()
    assert ["ShapeError" in line for line in caplog.messages] == [True, False]


def test_a_handler_that_raises_does_not_reach_the_training(tmp_path, gate):
    class Angry(logging.Handler):
        def handle(self, _):
            raise RuntimeError("no logs today")

    handler, logger = Angry(), logging.getLogger("monitor.record.background")
    logger.addHandler(handler)
    try:
        recorder = BackgroundRecorder(tmp_path, waiting=1)
        assert [recorder.record(step, **BASE) for step in (1, 2)] == [True, False]
        gate.set()
        recorder.flush()
        recorder.record(3, **WRONG)
        assert recorder.close()
    finally:
        logger.removeHandler(handler)
    assert (recorder.recorded, recorder.dropped, recorder.failures) == (1, 1, 1)


def test_a_thread_that_cannot_be_started_is_a_failure_of_that_step(recorder, monkeypatch):
    with monkeypatch.context() as none_left:
        none_left.setattr(threading.Thread, "start", lambda _: (_ for _ in ()).throw(RuntimeError("can't start new thread")))
        assert not recorder.record(0, **BASE)
    assert (recorder.failures, recorder.waiting) == (1, 0)
    assert recorder.record(1, **BASE)
    recorder.flush()
    assert recorded(recorder.run_dir) == [(1, 0)]
    assert "can't start new thread" in said(recorder)[0]


def test_a_full_disk_costs_the_steps_for_which_there_was_no_room_and_no_others(recorder, monkeypatch, caplog):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    recorder.record(0, **BASE)
    recorder.flush()
    with monkeypatch.context() as disk:
        disk.setattr(files, "_sync", full)
        for step in (1, 2):
            recorder.record(step, **BASE)
        assert recorder.flush()
        assert not note_path(recorder.run_dir, 0).exists(), "there is no room for a note either"
        assert [path for path in recorder.run_dir.rglob("*") if ".writing" in path.name] == []
    recorder.record(3, **BASE)
    recorder.flush()
    assert recorded(recorder.run_dir) == [(0, 0), (3, 0)]
    assert read_note(note_path(recorder.run_dir, 0)).failed == Steps(count=2, spans=((1, 2),))
    assert sum("No space left" in line for line in caplog.messages) == 2, "once for the step and once for the note"


def test_a_folder_that_vanishes_is_made_again(recorder):
    recorder.record(0, **BASE)
    recorder.flush()
    shutil.rmtree(recorder.run_dir)
    recorder.record(1, **BASE)
    recorder.flush()
    assert recorded(recorder.run_dir) == [(1, 0)]
    assert recorder.failures == 0


def test_a_place_where_nothing_can_be_written_costs_nothing_but_the_log(tmp_path, caplog):
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    recorder = BackgroundRecorder(tmp_path / "file" / "run")
    recorder.record(0, **BASE)
    assert recorder.close()
    assert recorder.failures == 1
    assert [("is not recorded" in line, "cannot be written" in line) for line in caplog.messages[:2]] == [(True, False), (False, True)]


def test_ranks_have_parts_and_notes_of_their_own(tmp_path):
    for rank in (0, 11):
        with BackgroundRecorder(tmp_path, rank=rank) as recorder:
            recorder.record(1, **BASE)
            recorder.record(2 + rank, **WRONG)
    assert recorded(tmp_path) == [(1, 0), (1, 11)]
    notes = [read_note(note_path(tmp_path, rank)) for rank in (0, 11)]
    assert [(note.rank, note.failed.spans) for note in notes] == [(0, ((2, 2),)), (11, ((13, 13),))]


@pytest.mark.parametrize(
    ("wrong", "error"),
    [({"rank": -1}, ValueError), ({"rank": "one"}, TypeError), ({"resume_from": -1}, ValueError), ({"waiting": 1.5}, TypeError)],
)
def test_a_recorder_that_cannot_work_is_refused_before_the_training_begins(tmp_path, wrong, error):
    with pytest.raises(error):
        BackgroundRecorder(tmp_path, **wrong)


def test_making_one_touches_no_disk_and_starts_no_thread(tmp_path):
    before = threading.active_count()
    recorder = BackgroundRecorder(tmp_path / "run", resume_from=3)
    assert recorder.close()
    assert list(tmp_path.iterdir()) == []
    assert threading.active_count() == before


def test_an_error_of_the_training_goes_through_and_what_was_taken_is_written(tmp_path):
    def training():
        with BackgroundRecorder(tmp_path) as recorder:
            recorder.record(1, **BASE)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        training()
    assert recorded(tmp_path) == [(1, 0)]


def test_a_closed_recorder_goes_on_where_it_is_used_again(recorder):
    recorder.record(1, **BASE)
    recorder.close()
    recorder.record(2, **BASE)
    assert recorder.close()
    assert recorder.close()
    assert recorded(recorder.run_dir) == [(1, 0), (2, 0)]
    assert recorder.recorded == 2


def test_closing_leaves_no_thread(recorder):
    before = set(threading.enumerate())
    recorder.record(1, **BASE)
    (thread,) = set(threading.enumerate()) - before
    recorder.close()
    thread.join(timeout=60)
    assert not thread.is_alive()


def test_closing_waits_as_long_as_it_was_told(tmp_path, monkeypatch):
    waited, real = [], Backlog.flush
    monkeypatch.setattr(Backlog, "flush", lambda self, timeout_s: waited.append(timeout_s) or real(self, timeout_s))
    recorder = BackgroundRecorder(tmp_path, exit_timeout_s=77)
    for timeout in ({}, {"timeout_s": 55}):
        recorder.record(len(waited), **BASE)
        recorder.close(**timeout)
    assert waited == [77, 55]


def test_closing_gives_up_in_time_and_says_so(tmp_path, gate, caplog):
    recorder = BackgroundRecorder(tmp_path, exit_timeout_s=0.01)
    recorder.record(1, **BASE)
    assert not recorder.flush(timeout_s=0.01)
    assert not recorder.close()
    assert "1 steps are not written yet and will be lost if the process ends now" in caplog.messages[-1]
    gate.set()


def test_the_copies_are_let_go_once_they_are_written(recorder, monkeypatch):
    held, real = [], Recorder.record

    def watch(self, step, **columns):
        held.append(weakref.ref(columns["position"]))
        return real(self, step, **columns)

    monkeypatch.setattr(Recorder, "record", watch)
    recorder.record(0, **BASE)
    while recorder.waiting:
        time.sleep(0.01)
    assert held[0]() is None


def test_resuming_sets_the_repeated_steps_aside_and_forgets_what_was_missing_of_them(tmp_path):
    with BackgroundRecorder(tmp_path) as recorder:
        for step in (1, 2, 4):
            recorder.record(step, **BASE)
        recorder.record(3, **WRONG)
        recorder.record(5, **WRONG)
    with BackgroundRecorder(tmp_path, resume_from=4) as again:
        again.record(4, **BASE)
        again.flush()
        assert said(again)[0].startswith("1 calls of the recorder failed (steps 3)")
        again.record(6, **WRONG)
    assert recorded(tmp_path) == [(1, 0), (2, 0), (4, 0)]
    assert (again.recorded, again.failures) == (1, 1), "its own, not those of the process before"
    assert read_note(note_path(tmp_path, 0)).failed == Steps(count=2, spans=((3, 3), (6, 6)))
    with BackgroundRecorder(tmp_path, resume_from=0) as anew:
        anew.record(0, **BASE)
    assert not note_path(tmp_path, 0).exists()


def test_setting_aside_is_tried_again_after_a_failure_and_the_old_note_is_kept(tmp_path, monkeypatch):
    with BackgroundRecorder(tmp_path) as recorder:
        recorder.record(3, **BASE)
        recorder.record(2, **WRONG)
    again = BackgroundRecorder(tmp_path, resume_from=3)
    with monkeypatch.context() as disk:
        disk.setattr(files, "parts", lambda _: (_ for _ in ()).throw(OSError("stale file handle")))
        for step in (1, 4):
            again.record(step, **BASE)
            again.flush()
    again.record(5, **BASE)
    again.close()
    assert recorded(tmp_path) == [(5, 0)]
    assert len(list((tmp_path / "tokens" / "superseded").rglob("rank=000.parquet"))) == 1
    assert read_note(note_path(tmp_path, 0)).failed == Steps(count=3, spans=((2, 2), (1, 1), (4, 4)))


def test_the_note_outlives_compacting(recorder):
    recorder.record(1, **BASE)
    recorder.record(2, **WRONG)
    recorder.close()
    compact(recorder.run_dir)
    assert sorted(path.name for path in recorder.run_dir.iterdir()) == ["recorder.rank=000.json", "tokens.parquet", "tokens.sums.parquet"]
    assert said(recorder)


def test_a_healthy_run_has_no_note(recorder):
    recorder.record(1, **BASE)
    recorder.close()
    assert [path.name for path in recorder.run_dir.iterdir()] == ["tokens"]


def in_fork(work):
    """Run in a forked process and give its exit code."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException:  # noqa: BLE001 - the child must never return into pytest
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


forks = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


@forks
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_process_neither_waits_for_the_steps_of_its_parent_nor_writes_them(recorder, gate):
    recorder.record(1, **BASE)

    def child():
        assert recorder.flush(timeout_s=600)
        assert recorder.close()
        assert (recorder.recorded, recorder.dropped) == (0, 0)

    assert in_fork(child) == 0
    gate.set()
    recorder.flush()
    assert (recorder.recorded, recorder.failures) == (1, 0)


@forks
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_process_records_by_itself(tmp_path):
    with BackgroundRecorder(tmp_path) as before:
        before.record(3, **BASE)
        before.record(8, **BASE)
    recorder = BackgroundRecorder(tmp_path, resume_from=8)
    recorder.record(8, **BASE)
    recorder.flush()

    def child():
        assert recorder.close()
        recorder.record(9, **BASE)
        assert recorder.close()
        assert (recorder.recorded, recorder.failures) == (1, 0)

    assert in_fork(child) == 0
    recorder.record(10, **BASE)
    recorder.close()
    assert recorded(tmp_path) == [(3, 0), (8, 0), (9, 0), (10, 0)], "nothing is set aside a second time"
    assert recorder.recorded == 2


def _record_and_leave(folder):
    BackgroundRecorder(folder).record(1, **BASE)


@forks
@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_a_worker_of_multiprocessing_that_ends_leaves_nothing_unwritten(tmp_path, start):
    worker = multiprocessing.get_context(start).Process(target=_record_and_leave, args=(tmp_path,))
    worker.start()
    worker.join()
    assert worker.exitcode == 0
    assert recorded(tmp_path) == [(1, 0)]


def test_the_note_is_json(recorder):
    recorder.record(1, **WRONG)
    recorder.flush()
    note = json.loads(note_path(recorder.run_dir, 0).read_text(encoding="utf-8"))
    assert note["failed"] == {"count": 1, "steps": [[1, 1]]}
