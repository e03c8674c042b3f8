"""Logs that are being written: looking at a file after any cuts gives what reading it at once gives, and says what is other than before."""

import json
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.errors import ReadError, UnknownContainerError
from ingest.growing import Place, growing, places
from ingest.identify import readers
from ingest.readers._appended import Appended, Change
from ingest.run import ProblemKind
from tests import wandb_files
from tests.ingest.container_samples import MAKERS

READERS = {reader.id: reader for reader in readers()}
FLOATS = st.one_of(st.floats(width=32), st.sampled_from([0.0, 1.0, float("nan"), float("inf")]))


class Follower:
    """What a consumer makes of the looks: all of it anew, or what came behind."""

    def __init__(self, path, reader):
        self.growing, self.table = growing(Place(where=str(path), reader=READERS[reader])), None

    def look(self):
        grown = self.growing.more()
        if grown.anew:
            logs = self.growing.logs()
            self.table = logs[0].scalars if logs else self.table
        elif grown.fresh.num_rows:
            self.table = pa.concat_tables([self.table, grown.fresh])
        return grown


def rows(table):
    """Rows in an order of their own; values by their bits, so that NaN equals itself."""
    columns = [table.column(name).to_pylist() for name in ("key", "step", "value", "wall_time")]
    return sorted((key, step, np.float64(value).tobytes(), repr(wall)) for key, step, value, wall in zip(*columns, strict=True))


def same(found, wanted):
    assert rows(found.scalars) == rows(wanted.scalars)
    assert (found.name, found.path, found.container, found.axis, dict(found.config)) == (
        wanted.name,
        wanted.path,
        wanted.container,
        wanted.axis,
        dict(wanted.config),
    )
    assert sorted(map(repr, others(found))) == sorted(map(repr, others(wanted)))
    if wanted.container == "jsonl":
        assert sorted(map(repr, found.problems)) == sorted(map(repr, wanted.problems))
    else:  # the end of a file that grows is not judged
        assert all(rows <= lost(wanted).get(what, 0) for what, rows in lost(found).items())


def others(log):
    return [problem for problem in log.problems if problem.kind is not ProblemKind.LOST]


def lost(log):
    rows = Counter()
    for problem in log.problems:
        if problem.kind is ProblemKind.LOST:
            rows[re.sub(r";.*", "", problem.what)] += problem.rows
    return rows


def follow_by_cuts(folder, reader, content, name, cuts):
    """Write a file piece by piece; after each piece what was followed is what would be read."""
    path = folder / name
    path.write_bytes(b"")
    follower = Follower(path, reader)
    last = 0
    for cut in [*sorted(min(cut, len(content)) for cut in cuts), len(content)]:
        with path.open("ab") as file:
            file.write(content[last:cut])
        last = cut
        try:
            wanted = READERS[reader].read(path)[0]
        except ReadError:
            wanted = None
        try:
            follower.look()
        except ReadError:
            assert wanted is None
            continue
        if wanted is not None and wanted.scalars.num_rows:
            same(follower.growing.logs()[0], wanted)
            assert rows(follower.table) == rows(wanted.scalars)
    return follower


@st.composite
def histories(draw):
    steps = sorted(draw(st.lists(st.integers(0, 40), min_size=1, max_size=12)))
    keys = draw(st.lists(st.sampled_from(["rl/ess", "a", "b/c", "reward"]), min_size=1, max_size=3, unique=True))
    return steps, {key: draw(st.lists(FLOATS, min_size=len(steps), max_size=len(steps))) for key in keys}


@pytest.mark.parametrize("reader", ["jsonl", "tensorboard", "wandb_run"])
@given(history=histories(), cuts=st.lists(st.integers(0, 3000), max_size=6))
@settings(max_examples=60, deadline=None)
def test_any_cuts_of_a_file_give_what_is_read_at_once(reader, history, cuts, tmp_path_factory):
    folder = tmp_path_factory.mktemp("log")
    made = MAKERS[reader].make(folder, *history)
    content = made.read_bytes()
    made.unlink()
    follow_by_cuts(folder, reader, content, made.name, cuts)


def test_every_cut_of_a_file_of_each_kind(tmp_path):
    for reader in ("jsonl", "tensorboard", "wandb_run"):
        folder = tmp_path / reader
        folder.mkdir()
        made = MAKERS[reader].make(folder, [1, 2, 3], {"a": [0.5, float("nan"), 2.0], "b": [1.0, 2.0, 3.0]})
        content = made.read_bytes()
        made.unlink()
        follow_by_cuts(folder, reader, content, made.name, range(len(content)))


LINES = [
    b'{"step": 1, "a": 0.5}\n',
    b"\n",
    b"   \n",
    b'{"step": 2, "a": 0.5, "time": 1764000000.0}\n',
    b'{"step": 2, "a": 0.5, "time": 3.0}\n',
    b'{"a": 0.25}\n',
    b'{"global_step": 7, "a": 0.25}\n',
    b'{"global_step": 8, "a": 0.25, "stats/completed_steps": 4}\n',
    b"broken\n",
    b'{"step": "x", "a": NaN, "text": "word"}\n',
    b'{"step": 3, "data": {"a": 1, "b": null}}\n',
    b'{"step": 3, "a": 1} trailing\n',
    b'{"step": 3, "a": 18446744073709551617}\n',
    b'\xef\xbb\xbf{"step": 9, "a": 1}\n',
    b'{"step": 4, "a": "\xff"}\n',
]


@given(
    lines=st.lists(st.sampled_from(LINES), min_size=1, max_size=10), cuts=st.lists(st.integers(0, 400), max_size=5), open_end=st.booleans()
)
@settings(max_examples=150, deadline=None)
def test_any_cuts_of_odd_lines(lines, cuts, open_end, tmp_path_factory):
    content = b"".join(lines)
    follow_by_cuts(tmp_path_factory.mktemp("log"), "jsonl", content[:-1] if open_end else content, "log.jsonl", cuts)


@given(cuts=st.lists(st.integers(0, 70_000), max_size=5), places=st.lists(st.integers(7, 70_000), max_size=3))
@settings(max_examples=40, deadline=None)
def test_any_cuts_of_a_damaged_record_file(cuts, places, tmp_path_factory):
    content = bytearray(wandb_files.file([wandb_files.run("abc", name="v1"), *wandb_files.steps(600, keys=("rl/ess", "rl/reward"))]))
    for place in places:
        if place < len(content):
            content[place] ^= 0xFF
    follow_by_cuts(tmp_path_factory.mktemp("log"), "wandb_run", bytes(content), "run-abc.wandb", cuts)


@given(cuts=st.lists(st.integers(0, 9_000), max_size=5), places=st.lists(st.integers(40, 9_000), max_size=3))
@settings(max_examples=40, deadline=None)
def test_any_cuts_of_a_damaged_event_file(cuts, places, tmp_path_factory):
    folder = tmp_path_factory.mktemp("log")
    made = MAKERS["tensorboard"].make(folder, range(60), {"a": [0.5] * 60, "b": [0.25] * 60})
    content = bytearray(made.read_bytes())
    made.unlink()
    for place in places:
        if place < len(content):
            content[place] ^= 0xFF
    follow_by_cuts(folder, "tensorboard", bytes(content), made.name, cuts)


KINDS = {"jsonl": "log.jsonl", "wandb_run": "run-abc.wandb", "tensorboard": "events.out.tfevents.1764000000.host.0"}


def content_of(reader, folder, steps, value=0.5):
    elsewhere = folder / "made"
    elsewhere.mkdir(exist_ok=True)
    return MAKERS[reader].make(elsewhere, steps, {"a": [value] * len(steps)}).read_bytes()


@pytest.mark.parametrize("reader", KINDS)
def test_a_file_that_is_truncated_and_written_again_is_read_anew(reader, tmp_path):
    path = tmp_path / KINDS[reader]
    first, second = content_of(reader, tmp_path, range(20)), content_of(reader, tmp_path, range(5), 0.25)
    path.write_bytes(first)
    follower = Follower(path, reader)
    follower.look()
    path.write_bytes(b"")
    follower.look()
    assert len(follower.table) == 20  # nothing has come in its place yet
    path.write_bytes(second)
    assert follower.look().anew
    assert rows(follower.table) == rows(READERS[reader].read(path)[0].scalars)


@pytest.mark.parametrize("reader", KINDS)
def test_a_longer_file_in_the_place_of_another_is_read_anew_whatever_its_inode(reader, tmp_path):
    path = tmp_path / KINDS[reader]
    path.write_bytes(content_of(reader, tmp_path, range(5)))
    follower = Follower(path, reader)
    follower.look()
    with path.open("r+b") as file:  # the same inode
        file.write(content_of(reader, tmp_path, range(50), 0.25))
    assert follower.look().anew
    assert rows(follower.table) == rows(READERS[reader].read(path)[0].scalars)


@pytest.mark.parametrize("reader", KINDS)
def test_a_copy_that_is_renamed_into_place_goes_on(reader, tmp_path):
    """As rsync brings a log from another machine, again and again."""
    path, content = tmp_path / KINDS[reader], content_of(reader, tmp_path, range(50))
    path.write_bytes(content[: len(content) // 2])
    follower = Follower(path, reader)
    follower.look()
    (tmp_path / "copy").write_bytes(content)
    (tmp_path / "copy").replace(path)
    grown = follower.look()
    assert not grown.anew
    assert grown.fresh.num_rows
    assert rows(follower.table) == rows(READERS[reader].read(path)[0].scalars)


@pytest.mark.parametrize("reader", KINDS)
def test_a_deleted_file_keeps_what_was_read_and_goes_on_when_it_is_back(reader, tmp_path):
    path, content = tmp_path / KINDS[reader], content_of(reader, tmp_path, range(50))
    path.write_bytes(content[: len(content) // 2])
    follower = Follower(path, reader)
    follower.look()
    path.unlink()
    assert not follower.look().changed
    assert follower.growing.logs()
    path.write_bytes(content)
    assert not follower.look().anew
    assert rows(follower.table) == rows(READERS[reader].read(path)[0].scalars)


@pytest.mark.parametrize("reader", KINDS)
def test_a_look_at_a_file_that_did_not_change_reads_nothing(reader, tmp_path, monkeypatch):
    path = tmp_path / KINDS[reader]
    path.write_bytes(content_of(reader, tmp_path, range(5)))
    follower = Follower(path, reader)
    follower.look()
    monkeypatch.setattr(Path, "open", lambda *_, **__: pytest.fail("it was opened"))
    assert not follower.look().changed


def test_what_cannot_be_read_is_raised_again_and_read_when_it_can(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"step": 1, "a": 1}\n')
    follower = Follower(path, "jsonl")
    follower.look()
    path.write_bytes('{"step": 1, "a": 1}\n'.encode("utf-16"))
    for _ in range(2):
        with pytest.raises(ReadError, match="utf-16"):
            follower.look()
    path.write_bytes(b'{"step": 1, "a": 1}\n{"step": 2, "a": 3}\n')
    assert follower.look().anew
    assert follower.table.column("value").to_pylist() == [1.0, 3.0]


def test_a_key_that_turns_out_to_be_a_table_takes_its_rows_back(tmp_path):
    rows_before = [wandb_files.history([wandb_files.item("a.nrows", "3"), wandb_files.item("b", "1")], step) for step in range(3)]
    medium = wandb_files.history([wandb_files.item("a", json.dumps({"_type": "table-file", "nrows": 3}))], 3)
    path = tmp_path / "run-abc.wandb"
    path.write_bytes(wandb_files.file(rows_before))
    follower = Follower(path, "wandb_run")
    follower.look()
    assert set(follower.table.column("key").to_pylist()) == {"a.nrows", "b"}
    path.write_bytes(wandb_files.file([*rows_before, medium]))
    assert follower.look().anew
    assert set(follower.table.column("key").to_pylist()) == {"b"}
    same(follower.growing.logs()[0], READERS["wandb_run"].read(path)[0])


def test_a_record_file_of_a_version_that_counted_blocks_otherwise(tmp_path):
    content = wandb_files.file(wandb_files.steps(2000), origin=len(wandb_files.HEADER))
    follower = follow_by_cuts(tmp_path, "wandb_run", content, "run-abc.wandb", range(0, len(content), 9000))
    assert follower.growing.logs()[0].scalars.num_rows == 2000


def test_settings_that_come_later_are_said(tmp_path):
    path = tmp_path / "run-abc.wandb"
    records = [wandb_files.run("abc", name="v1"), *wandb_files.steps(2)]
    path.write_bytes(wandb_files.file(records))
    follower = Follower(path, "wandb_run")
    follower.look()
    late = wandb_files.field(5, wandb_files.config({"lr": "0.5"}))
    path.write_bytes(wandb_files.file([*records, late]))
    grown = follower.look()
    assert (grown.settings, grown.anew, grown.fresh.num_rows) == (True, False, 0)
    assert follower.growing.logs()[0].config["lr"] == 0.5
    path.write_bytes(wandb_files.file([*records, late, wandb_files.END]))
    follower.look()
    assert follower.growing.ended


def test_the_file_itself_is_known_by_its_bytes(tmp_path):
    path = tmp_path / "file"
    seen = Appended(path)
    assert seen.look() is Change.GONE
    path.write_bytes(b"x" * 2000)
    assert seen.look() is Change.MORE
    assert seen.look() is Change.MORE  # as long as nobody said how far it was read
    seen.reached(1500)
    assert seen.look() is Change.NONE
    path.touch()
    assert seen.look() is Change.MORE
    path.write_bytes(b"x" * 1400 + b"y" + b"x" * 600)
    assert seen.look() is Change.ANEW
    path.write_bytes(b"x" * 1499)
    assert seen.look() is Change.ANEW


@pytest.mark.parametrize("name", ["missing", "empty", "binary"])
def test_nothing_to_follow_is_said_in_the_words_of_loading(tmp_path, name):
    path = tmp_path / name
    if name != "missing":
        path.write_bytes(b"" if name == "empty" else b"\x00\x01\x02")
    with pytest.raises(UnknownContainerError, match=r"no such file|no known kind of log"):
        places(str(path))


def test_damage_is_said_with_what_is_read(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"step": 1, "a": 1}\nbroken\n{"step": 2, "a": 1}\n{"st')
    follower = Follower(path, "jsonl")
    follower.look()
    said = {problem.kind: problem.what for problem in follower.growing.logs()[0].problems}
    assert said[ProblemKind.LOST] == "no JSON object"
    assert "the last line is cut" in said[ProblemKind.NOTE]


def test_a_line_that_was_whole_without_its_break_and_goes_on_is_taken_back(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"step": 1, "a": 1}\n{"step": 2, "a": 1}')
    follower = Follower(path, "jsonl")
    follower.look()
    assert len(follower.table) == 2
    with path.open("ab") as file:
        file.write(b" and more\n")
    assert follower.look().anew
    assert len(follower.table) == 1


def test_a_look_that_fails_half_way_takes_nothing(tmp_path, monkeypatch):
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"step": 1, "a": 1}\n')
    follower = Follower(path, "jsonl")
    follower.look()
    with path.open("ab") as file:
        file.write(b'{"step": 2, "a": 1}\n{"step": 3, "text": "%s", "a": 1}\n' % (b"x" * 100))
    monkeypatch.setattr("ingest.readers._growing_lines.MAX_LINE_BYTES", 100)
    with pytest.raises(ReadError, match="a longer one"):
        follower.look()
    monkeypatch.undo()
    follower.look()
    assert rows(follower.table) == rows(READERS["jsonl"].read(path)[0].scalars)


@pytest.mark.parametrize("reader", ["wandb_run", "tensorboard"])
def test_bytes_that_come_after_the_place_for_them_are_waited_for(reader, tmp_path):
    """As on a file system that shows the length of a file before what is in it."""
    path, content = tmp_path / KINDS[reader], content_of(reader, tmp_path, range(50))
    path.write_bytes(content[:-20] + bytes(20))
    follower = Follower(path, reader)
    follower.look()
    before = len(follower.table)
    path.write_bytes(content)
    assert not follower.look().anew
    assert len(follower.table) == before + 1 == 50


def test_a_clock_that_was_not_set_at_first_is_read_alike_in_one_go_and_in_two(tmp_path):
    lines = [json.dumps({"step": step, "a": 1.0, "time": at}).encode() + b"\n" for step, at in ((0, 12.0), (1, 1.764e9), (2, 13.0))]
    follow_by_cuts(tmp_path, "jsonl", b"".join(lines), "log.jsonl", [len(lines[0]), len(lines[0] + lines[1])])


def test_the_end_of_a_record_file_is_called_damaged_once_something_follows(tmp_path):
    content = wandb_files.file([wandb_files.run("abc", name="v1"), *wandb_files.steps(3000)])
    path = tmp_path / "run-abc.wandb"
    broken = bytearray(content[: len(content) // 2])
    path.write_bytes(broken)
    follower = Follower(path, "wandb_run")
    follower.look()
    assert lost(READERS["wandb_run"].read(path)[0])  # cut inside a record, for whoever reads it as it is
    assert not lost(follower.growing.logs()[0])
    broken[-3] ^= 0xFF
    path.write_bytes(bytes(broken) + content[len(broken) :])
    follower.look()
    grown = lost(follower.growing.logs()[0])
    assert grown == lost(READERS["wandb_run"].read(path)[0])
    assert grown


@pytest.mark.parametrize("reader", KINDS)
def test_what_cannot_be_read_of_what_came_is_said_with_it(reader, tmp_path):
    path, both = tmp_path / KINDS[reader], bytearray(content_of(reader, tmp_path, range(4000)))
    half = len(both) // 2
    both[half + 40] ^= 0xFF
    path.write_bytes(bytes(both[:half]))
    follower = Follower(path, reader)
    assert follower.look().unread == ()
    path.write_bytes(bytes(both))
    said = follower.look().unread
    assert said
    assert set(said) <= set(READERS[reader].read(path)[0].problems)
    assert follower.look().unread == ()
