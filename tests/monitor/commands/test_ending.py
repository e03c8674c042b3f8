"""Ctrl-C and SIGTERM end a watch soon and without a traceback: while it is set up, while it computes, and where they are swallowed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.monitor.watch.runs import append, ess_rows

ROOT = Path(__file__).resolve().parents[3]
SOON_S = 4.0  # 2 s, on a machine that others use
BEGIN = """
import signal, sys, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell that starts tests in its background leaves it ignored
from concurrent.futures import ThreadPoolExecutor
from monitor.__main__ import main
from monitor.commands._ending import leave
from monitor.watch import loop

def busy():
    print("here", file=sys.stderr, flush=True)
    time.sleep(60)
"""
END = "\nleave(main(sys.argv[1:]))\n"
SET_UP = "loop.Watcher.__init__ = lambda *_: busy()"
CASES = {
    "set up": SET_UP,
    "a pool that computes": """
def look(*_, **more):
    with ThreadPoolExecutor() as pool:
        pool.submit(time.sleep, 60)
        busy()
loop.Watcher.look = look
""",
    "a thread at the end": """
threading.Thread(target=time.sleep, args=(60,)).start()
loop.Watcher.look = lambda *_, **more: busy()
""",
    "swallowed once": """
def look(*_, **more):
    try:
        busy()
    except KeyboardInterrupt:
        pass
loop.Watcher.look = look
""",
    "swallowed always": """
def look(*_, **more):
    print("here", file=sys.stderr, flush=True)
    while True:
        try:
            time.sleep(60)
        except KeyboardInterrupt:
            pass
loop.Watcher.look = look
""",
}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("case", CASES)
def test_a_signal_ends_it_soon_whatever_it_does(tmp_path, case, number):
    append(tmp_path / "steps.jsonl", *ess_rows(0, 0.9))
    command = [sys.executable, "-c", BEGIN + CASES[case] + END, "watch", str(tmp_path / "steps.jsonl"), "--poll", "60"]
    environment = {**os.environ, "RATIOMETER_HOME": str(tmp_path / "home")}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr.readline() == "here\n"
            began = time.monotonic()
            process.send_signal(number)
            assert process.wait(30) == 0
            assert time.monotonic() - began < SOON_S
            assert process.stderr.read() == ""
        finally:
            process.kill()


def test_one_look_that_is_broken_off_is_no_answer(tmp_path):
    command = [sys.executable, "-c", BEGIN + SET_UP + END, "watch", str(tmp_path), "--once"]
    environment = {**os.environ, "RATIOMETER_HOME": str(tmp_path / "home")}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr.readline() == "here\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert process.stderr.read() == ""
