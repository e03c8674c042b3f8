"""The resync signal as a trainer sees it: asked once, taken once, cheap, and never an exception."""

import json
import logging
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.record import resync, resync_taken, should_resync
from monitor.record.resync import ASKED, TAKEN, pending, write_whole

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def _forget():
    yield
    for kept in (resync._seen, resync._silent_until, resync._complained):
        kept.clear()


def ask(folder, episode="low:a:31", step=31):
    write_whole(folder / ASKED, {"episode": episode, "step": step, "reason": "ESS", "asked_at": 0.0})


def test_asked_until_it_is_taken(tmp_path):
    assert not should_resync(tmp_path)
    ask(tmp_path)
    assert should_resync(tmp_path)
    assert should_resync(str(tmp_path)), "as long as nobody has taken it"
    assert resync_taken(tmp_path, 40)
    assert not should_resync(tmp_path)
    assert json.loads((tmp_path / TAKEN).read_text())["step"] == 40


def test_the_same_signal_written_again_asks_no_second_time(tmp_path):
    ask(tmp_path)
    should_resync(tmp_path)
    resync_taken(tmp_path, 40)
    ask(tmp_path)
    assert not should_resync(tmp_path)
    ask(tmp_path, step=90)
    assert should_resync(tmp_path), "a reminder at a later step does"
    resync_taken(tmp_path, 91)
    ask(tmp_path, episode="low:a:120", step=120)
    assert should_resync(tmp_path)


def test_a_signal_that_came_meanwhile_is_not_taken_with_the_one_before(tmp_path):
    ask(tmp_path)
    assert should_resync(tmp_path)
    ask(tmp_path, episode="other:a:33", step=33)
    resync_taken(tmp_path, 40)
    assert should_resync(tmp_path)
    resync_taken(tmp_path, 41)
    assert not should_resync(tmp_path)


def test_taken_without_having_asked(tmp_path):
    assert not resync_taken(tmp_path, 3)
    assert not (tmp_path / TAKEN).exists()
    ask(tmp_path)
    assert resync_taken(tmp_path, 40), "for instance by a process that was started again"
    assert not should_resync(tmp_path)


def test_where_to_ask_may_stand_in_the_environment(tmp_path, monkeypatch):
    monkeypatch.delenv(resync.VARIABLE, raising=False)
    assert not should_resync()
    assert not resync_taken(None, 1)
    monkeypatch.setenv(resync.VARIABLE, str(tmp_path))
    ask(tmp_path)
    assert should_resync()
    assert resync_taken(None, 1)
    assert not should_resync()


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"null", b'{"step": 3}', b"\xff\xfe", b'{"episode": [1], "step": {}}', b"[" * 100_000]
)
def test_a_file_that_is_not_ours_asks_for_nothing(tmp_path, content):
    (tmp_path / ASKED).write_bytes(content)
    assert should_resync(tmp_path) == (content == b'{"episode": [1], "step": {}}')
    (tmp_path / ASKED).unlink()
    ask(tmp_path)
    (tmp_path / TAKEN).write_bytes(content)
    should_resync(tmp_path)


@pytest.mark.parametrize("content", [b"[]", b"null", b"{}", b'"signal"'])
def test_what_does_not_say_which_signal_was_taken_takes_none(tmp_path, content):
    ask(tmp_path)
    (tmp_path / TAKEN).write_bytes(content)
    assert should_resync(tmp_path)


@given(st.text() | st.binary().map(os.fsdecode))
def test_never_an_exception(text):
    for where in (text, f"http://127.0.0.1:1/{text}", f"http://127.0.0.1:{text}/"):
        assert should_resync(where) is False
        assert resync_taken(where, 3) is False


@pytest.mark.parametrize("step", [None, "x", float("nan"), object()])
def test_a_step_that_is_no_number_is_no_exception(tmp_path, step, caplog):
    ask(tmp_path)
    assert resync_taken(tmp_path, step) is False
    assert "training goes on" in caplog.text
    assert should_resync(tmp_path)


def test_a_folder_that_cannot_be_written(tmp_path, monkeypatch, caplog):
    ask(tmp_path)
    assert should_resync(tmp_path)
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    assert not resync_taken(tmp_path, 40)
    assert not resync_taken(tmp_path, 40)
    assert caplog.text.count("No space left") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == [ASKED], "nothing half-written is left"


def test_readers_see_the_old_or_the_new(tmp_path):
    stop, seen = threading.Event(), set()

    def write():
        number = 0
        while not stop.is_set():
            number += 1
            ask(tmp_path, episode=f"e{number}" + "x" * 5000, step=number)

    writer = threading.Thread(target=write)
    ask(tmp_path)
    writer.start()
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        asked = pending(tmp_path)
        seen.add(len(asked["episode"]) > 100)
    stop.set()
    writer.join()
    assert True in seen


def test_it_is_cheap(tmp_path):
    began = time.perf_counter()
    for _ in range(1000):
        should_resync(tmp_path)
    assert time.perf_counter() - began < 1.0, "a millisecond each would be too much already"


def test_an_endpoint_that_is_gone_costs_one_short_wait(caplog):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        where = f"http://127.0.0.1:{silent.getsockname()[1]}/resync?run=a"
        began = time.perf_counter()
        for _ in range(50):
            assert not should_resync(where)
        assert time.perf_counter() - began < 4 * resync._TIMEOUT_S
        assert caplog.text.count("training goes on without it") == 1
        assert resync._silent_until[where] > time.monotonic()
        resync._silent_until[where] = 0.0
        silent.close()
        assert not should_resync(where), "asked again later"
        assert resync._silent_until[where] > 0


def test_only_the_standard_library_is_needed(tmp_path):
    ask(tmp_path)
    code = (
        "import sys\n"
        "class Block:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name.partition('.')[0] in {'numpy', 'pyarrow', 'numba', 'pandas', 'torch', 'yaml', 'wandb', 'requests'}:\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name.partition('.')[0])\n"
        "sys.meta_path.insert(0, Block())\n"
        "from monitor.record import should_resync, resync_taken\n"
        f"where = {str(tmp_path)!r}\n"
        "print(should_resync(where), resync_taken(where, 3), should_resync(where))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.stdout.split() == ["True", "True", "False"], done.stderr


def test_the_recorder_is_where_it_was():
    from monitor.record import Recorder, compact, set_aside

    assert callable(compact)
    assert callable(set_aside)
    assert Recorder.__name__ == "Recorder"


def test_it_is_said_once_and_at_the_level_of_a_warning(tmp_path, caplog):
    (tmp_path / ASKED).mkdir()
    with caplog.at_level(logging.DEBUG):
        for _ in range(3):
            should_resync(tmp_path)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
