"""Logs that are being written: looking at a file after any cuts gives what reading it at once gives, and says what is other than before."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.errors import ReadError
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
    assert sorted(map(repr, found.problems)) == sorted(map(repr, wanted.problems))


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


@given(lines=st.lists(st.sampled_from(LINES), min_size=1, max_size=10), cuts=st.lists(st.integers(0, 400), max_size=5), open_end=st.booleans())
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
