"""Following token parts: in any order, half written, taken back, compacted or deleted, the rows are those of loading them at once."""

import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.errors import RatiometerError
from ingest.readers import _listing
from ingest.schema import METRIC_FRAME
from monitor.metrics import stored
from monitor.metrics.bounds import ClipBounds
from monitor.record import Recorder, compact, set_aside
from tests.monitor.watch.followed import Consumer, assert_same, loaded
from tests.monitor.watch.runs import append, ess_rows, record


def tokens(step, first_id=0, responses=3, seed=0):
    """A canonical table of one step."""
    rng = np.random.default_rng([step, first_id, seed])
    ids = np.repeat(np.arange(first_id, first_id + responses), 5)
    engine = -rng.exponential(size=len(ids))
    columns = {"step": np.full(len(ids), step), "sample_id": ids, "rollout_logprob": engine.astype(np.float32)}
    columns["same_weights_logprob"] = (engine + rng.normal(size=len(ids)) * 0.1).astype(np.float32)
    columns["current_logprob"] = (engine + rng.normal(size=len(ids)) * 0.3).astype(np.float32)
    return pa.table(columns)


def made(folder, steps, ranks):
    """Closed parts in a folder that nobody watches, as a recorder writes them, without sums: path below the run -> where it lies."""
    found = {}
    for step in steps:
        for rank in range(ranks):
            path = folder / "tokens" / f"step={step:06d}" / f"rank={rank:03d}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(tokens(step, first_id=10 * rank), path)
            found[path.relative_to(folder)] = path
    return found


@given(data=st.data(), ranks=st.integers(1, 3), steps=st.integers(1, 6))
@settings(max_examples=40, deadline=None)
def test_parts_in_any_order_and_any_batches(data, ranks, steps, tmp_path_factory):
    source, run = tmp_path_factory.mktemp("made"), tmp_path_factory.mktemp("run") / "run"
    parts = made(source, range(steps), ranks)
    order = data.draw(st.permutations(sorted(parts)))
    consumer = Consumer(run)
    consumer.poll()
    for name in order:
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        parts[name].rename(run / name)
        if data.draw(st.booleans()):
            consumer.poll()
            assert_same(consumer.frames, loaded(run))
    consumer.poll()
    assert_same(consumer.frames, loaded(run))
    assert all(update.restarted_from is None for update in consumer.updates)


@given(data=st.data(), count=st.integers(1, 6))
@settings(max_examples=30, deadline=None)
def test_parts_of_any_names(data, count, tmp_path_factory):
    folder = tmp_path_factory.mktemp("parts")
    names = data.draw(
        st.lists(st.sampled_from([f"{letter}.parquet" for letter in "abcdefgh"]), min_size=count, max_size=count, unique=True)
    )
    consumer = Consumer(folder)
    for place, name in enumerate(names):
        pq.write_table(pa.concat_tables([tokens(2 * place), tokens(2 * place + 1)]), folder / name, row_group_size=15)
        if data.draw(st.booleans()):
            consumer.poll()
            assert_same(consumer.frames, loaded(folder))
    consumer.poll()
    assert_same(consumer.frames, loaded(folder))


def test_parts_that_share_tokens_become_runs_of_their_own_as_when_loaded(tmp_path):
    pq.write_table(tokens(0), tmp_path / "a.parquet")
    consumer = Consumer(tmp_path)
    consumer.poll()
    assert_same(consumer.frames, loaded(tmp_path))
    pq.write_table(tokens(0, seed=1), tmp_path / "b.parquet")
    consumer.poll()
    consumer.poll()
    wanted = loaded(tmp_path)
    assert set(wanted) == {"a", "b"}
    assert_same({name: consumer.frames[name] for name in wanted}, wanted)


def test_a_part_that_is_written_in_place_counts_when_it_is_whole(tmp_path):
    record(Recorder(tmp_path / "run"), 0)
    consumer = Consumer(tmp_path / "run")
    consumer.poll()
    content = next(iter(made(tmp_path / "made", [1], 1).values())).read_bytes()
    path = tmp_path / "run" / "tokens" / "step=000001" / "rank=000.parquet"
    path.parent.mkdir()
    for end in range(0, len(content), 997):
        path.write_bytes(content[:end])
        assert consumer.poll() == ()
        assert len(consumer.follower.troubles) == 1
    path.write_bytes(content)
    consumer.poll()
    assert consumer.follower.troubles == ()
    assert_same(consumer.frames, loaded(tmp_path / "run"))


def test_compacting_changes_no_row_and_goes_back_nowhere(tmp_path):
    recorders = [Recorder(tmp_path / "run", rank=rank) for rank in range(2)]
    for step in range(4):
        for rank, recorder in enumerate(recorders):
            recorder.record(
                step, sample_id=[rank, rank], position=[0, 1], rollout_logprob=[-1.0, -2.0], current_logprob=[-1.1, -2.3 - rank]
            )
    consumer = Consumer(tmp_path / "run")
    consumer.poll()
    compact(tmp_path / "run")
    consumer.poll()
    assert_same(consumer.frames, loaded(tmp_path / "run"))
    recorders[0].record(4, sample_id=[0], position=[0], rollout_logprob=[-1.0], current_logprob=[-1.1])
    consumer.poll()
    compact(tmp_path / "run")
    consumer.poll()
    assert_same(consumer.frames, loaded(tmp_path / "run"))
    assert [update.restarted_from for update in consumer.updates if update.restarted_from is not None] == []


def test_parts_that_stand_beside_the_compacted_file_for_a_while(tmp_path):
    """As where a compaction is killed before it removes them."""
    recorder = Recorder(tmp_path / "run")
    for step in range(3):
        record(recorder, step)
    copy = shutil.copytree(tmp_path / "run" / "tokens", tmp_path / "kept")
    consumer = Consumer(tmp_path / "run")
    consumer.poll()
    compact(tmp_path / "run")
    shutil.copytree(copy, tmp_path / "run" / "tokens")
    consumer.poll()
    assert_same(consumer.frames, loaded(tmp_path / "run"))


@pytest.mark.parametrize("back_to", [0, 40, 70, 79])
@pytest.mark.parametrize("looks_between", [True, False])
def test_a_recorder_that_goes_back(tmp_path, back_to, looks_between):
    recorder = Recorder(tmp_path / "run")
    for step in range(80):
        record(recorder, step)
    consumer = Consumer(tmp_path / "run")
    consumer.poll()
    set_aside(tmp_path / "run", back_to)
    if looks_between:
        consumer.poll()
    record(recorder, back_to, 0.5)
    for _ in range(3):
        consumer.poll()
    assert_same(consumer.frames, loaded(tmp_path / "run"))
    assert [update.restarted_from for update in consumer.updates if update.restarted_from is not None] == [back_to]


def test_steps_that_go_while_an_earlier_one_is_written_anew_in_place(tmp_path):
    """The same file, with the same inode, in a folder of which only the time says that something happened."""
    recorder = Recorder(tmp_path / "run")
    for step in range(120):
        record(recorder, step)
    consumer = Consumer(tmp_path / "run")
    consumer.poll()
    tokens, other = tmp_path / "run" / "tokens", Recorder(tmp_path / "other")
    for step in range(80, 120):
        shutil.rmtree(tokens / f"step={step:06d}")
    for step in range(40, 80):
        folder = tokens / f"step={step:06d}"
        (folder / "rank=000.sums.parquet").unlink()
        with (folder / "rank=000.parquet").open("r+b") as file:
            file.write(record(other, step, 0.5).read_bytes())
            file.truncate()
    consumer.poll()
    assert_same(consumer.frames, loaded(tmp_path / "run"))
    assert consumer.updates[-1].restarted_from == 40


def test_the_bounds_that_the_first_part_brings_hold_for_all(tmp_path):
    (tmp_path / "run").mkdir()
    append(tmp_path / "run" / "steps.jsonl", *ess_rows(0, 0.5))
    consumer = Consumer(tmp_path / "run")
    consumer.poll()
    recorder = Recorder(tmp_path / "run", bounds=ClipBounds(eps_low=0.1, eps_high=0.3))
    for step in range(2):
        record(recorder, step, 0.5)
        consumer.poll()
        assert_same(consumer.frames, loaded(tmp_path / "run"))


def test_old_parts_that_are_deleted_are_no_restart(tmp_path):
    recorder = Recorder(tmp_path / "run")
    for step in range(10):
        record(recorder, step)
    consumer = Consumer(tmp_path / "run")
    consumer.poll()
    for left, new in ((4, 10), (11, 11)):
        for step in range(left):
            shutil.rmtree(tmp_path / "run" / "tokens" / f"step={step:06d}", ignore_errors=True)
        record(recorder, new)
        consumer.poll()
        assert_same(consumer.frames, loaded(tmp_path / "run"))
    assert all(update.restarted_from is None for update in consumer.updates)


def test_a_folder_that_is_deleted_and_made_again(tmp_path):
    run = tmp_path / "run"
    for step in range(5):
        record(Recorder(run), step)
    consumer = Consumer(run)
    consumer.poll()
    before = consumer.frames["run"]
    shutil.rmtree(run)
    consumer.poll()
    assert consumer.frames["run"].equals(before)
    record(Recorder(run), 0, 0.25)
    consumer.poll()
    assert_same(consumer.frames, loaded(run))
    assert consumer.updates[-1].restarted_from is not None


@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_step_log_and_tokens_of_one_run_in_any_order(data, tmp_path_factory):
    run = tmp_path_factory.mktemp("run") / "run"
    run.mkdir()
    consumer, recorder = Consumer(run), Recorder(run)
    step = {"tokens": 0, "lines": 0}
    for _ in range(data.draw(st.integers(1, 8))):
        kind = data.draw(st.sampled_from(["tokens", "lines", "toml", "poll", "compact"]))
        if kind == "tokens":
            record(recorder, step["tokens"], data.draw(st.sampled_from([1.0, 0.5])))
        elif kind == "lines":
            append(run / "steps.jsonl", *ess_rows(step["lines"], 0.5))
        elif kind == "toml":
            clip = data.draw(st.sampled_from(["0.2", "0.3"]))
            (run / "run.toml").write_text(f'name = "run"\n[objective]\neps_low = {clip}\neps_high = {clip}\n', encoding="utf-8")
        elif kind == "compact" and any(run.glob("tokens/step=*/*")):
            compact(run)
        step = {name: count + (name == kind) for name, count in step.items()}
        consumer.poll()
        try:
            wanted = loaded(run)
        except RatiometerError:
            continue
        assert_same(consumer.frames, wanted)


def test_sums_beside_a_part_are_used_whenever_they_come(tmp_path):
    part = record(Recorder(tmp_path / "run"), 0)
    sums = stored.beside(part)
    late = tmp_path / sums.name
    sums.rename(late)
    consumer = Consumer(tmp_path / "run")
    consumer.poll()
    late.rename(sums)
    assert consumer.poll() == ()
    assert_same(consumer.frames, loaded(tmp_path / "run"))


def test_a_look_lists_no_folder_of_steps_as_long_as_their_names_follow(tmp_path, monkeypatch):
    recorder = Recorder(tmp_path / "run")
    for step in range(40):
        record(recorder, step)
    consumer = Consumer(tmp_path / "run")
    for _ in range(3):
        consumer.poll()
    listed = []
    scandir = os.scandir
    monkeypatch.setattr(_listing.os, "scandir", lambda path: (listed.append(str(path)), scandir(path))[1])
    for step in range(40, 50):
        record(recorder, step)
        consumer.poll()
        consumer.poll()
    top = str(tmp_path / "run" / "tokens")
    if Path(top).stat().st_nlink == 52:  # where the file system counts folders
        assert listed.count(top) <= 1
    assert_same(consumer.frames, loaded(tmp_path / "run"))
    set_aside(tmp_path / "run", 45)
    record(recorder, 47)
    consumer.poll()
    assert_same(consumer.frames, loaded(tmp_path / "run"))


def test_what_a_look_costs_does_not_grow_with_the_log(tmp_path, monkeypatch):
    counts = {}
    for steps in (10, 400):
        run = tmp_path / f"run{steps}"
        recorder = Recorder(run)
        for step in range(steps):
            record(recorder, step)
        consumer = Consumer(run)
        for _ in range(3):
            consumer.poll()
        record(recorder, steps)
        with monkeypatch.context() as patch:
            calls = [counted(patch, name) for name in ("stat", "scandir", "open")]
            (update,) = consumer.poll()
        assert set(update.rows["step"].to_pylist()) == {steps}
        counts[steps] = sum(map(len, calls))
    assert counts[400] < 2 * counts[10] + 100


def counted(patch, name):
    """The calls of a function of the system."""
    call, calls = getattr(os, name), []

    def counting(*given, **more):
        calls.append(given)
        return call(*given, **more)

    patch.setattr(os, name, counting)
    return calls


def test_of_an_empty_frame_and_all_updates_comes_the_frame_in_its_order(tmp_path):
    recorder = Recorder(tmp_path / "run")
    consumer = Consumer(tmp_path / "run")
    for step in (3, 1, 2):
        record(recorder, step)
        consumer.poll()
    assert consumer.frames["run"].schema == METRIC_FRAME
    assert consumer.frames["run"].equals(loaded(tmp_path / "run")["run"])
