"""How a process that records may end: what was taken is written, a disk that hangs holds nobody up, and a kill leaves no half part."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ingest.load import load
from monitor.record import BackgroundRecorder, files

ROOT = Path(__file__).parents[3]
BASE = {"sample_id": [1, 1, 0], "position": [0, 1, 0], "rollout_logprob": [-1.0, -2.0, -3.0]}
BEGIN = f"""
import logging, sys, time
import numpy as np
from monitor.record import BackgroundRecorder, files
logging.basicConfig()
BASE = {BASE!r}
"""
ENDS = 120  # seconds that a process gets; only one that would never end needs them


def process(script, folder):
    command = [sys.executable, "-c", BEGIN + script, str(folder)]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)


def run(script, folder):
    with process(script, folder) as started:
        try:
            _, errors = started.communicate(timeout=ENDS)
        finally:
            started.kill()
        return started.returncode, errors


def recorded(folder):
    return [files.place(part)[0] for part in files.parts(folder)]


@pytest.mark.parametrize(("end", "code"), [("", 0), ("sys.exit(3)", 3), ("raise RuntimeError('the loss is nan')", 1)])
def test_what_was_taken_is_written_before_the_process_ends(tmp_path, end, code):
    script = f"""
recorder = BackgroundRecorder(sys.argv[1])
assert all(recorder.record(step, **BASE) for step in range(4))
{end}
"""
    found, errors = run(script, tmp_path)
    assert found == code
    assert recorded(tmp_path) == [0, 1, 2, 3]
    assert ("the loss is nan" in errors) == (code == 1)
    assert "WARNING" not in errors


def test_a_disk_that_hangs_does_not_keep_the_process_from_ending(tmp_path):
    script = """
files._sync = lambda _: time.sleep(10**6)
recorder = BackgroundRecorder(sys.argv[1], waiting=2, exit_timeout_s=0.2)
print([recorder.record(step, **BASE) for step in range(3)], file=sys.stderr)
"""
    code, errors = run(script, tmp_path)
    assert code == 0
    assert "[True, True, False]" in errors
    assert "2 steps are not written yet and will be lost if the process ends now" in errors
    assert recorded(tmp_path) == []


FOREVER = """
recorder = BackgroundRecorder(sys.argv[1])
step = 0
while True:
    recorder.record(step, sample_id=np.arange(20_000), position=np.zeros(20_000, int), rollout_logprob=-np.ones(20_000))
    step += 1
    time.sleep(0.005)
"""


def test_a_process_that_is_killed_leaves_whole_parts_only_and_another_goes_on(tmp_path):
    with process(FOREVER, tmp_path) as training:
        limit = time.monotonic() + ENDS
        while len(files.parts(tmp_path)) < 5 and time.monotonic() < limit:
            time.sleep(0.01)
        training.kill()
        training.communicate()
    assert training.returncode == -signal.SIGKILL
    assert len(files.parts(tmp_path)) >= 5
    assert all(pq.ParquetFile(part, page_checksum_verification=True).read().num_rows == 20_000 for part in files.parts(tmp_path))
    last = recorded(tmp_path)[-1]
    with BackgroundRecorder(tmp_path, resume_from=last) as again:
        again.record(last, **BASE)
        again.record(last + 1, **BASE)
    assert again.failures == 0
    (read,) = load(tmp_path)
    assert not [problem for problem in read.problems if "not read" in problem.what]
    assert recorded(tmp_path)[-2:] == [last, last + 1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no limits on files on this system")
def test_a_part_for_which_there_is_no_room_is_counted_and_leaves_nothing_behind(tmp_path):
    script = """
import resource
large = {"sample_id": np.arange(300_000), "position": np.zeros(300_000, int), "rollout_logprob": -np.random.default_rng(0).random(300_000)}
with BackgroundRecorder(sys.argv[1]) as recorder:
    recorder.record(0, **BASE)
    recorder.flush()
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))  # writing beyond it fails as on a full disk
    recorder.record(1, **large)
    recorder.record(2, **BASE)
assert (recorder.recorded, recorder.failures) == (2, 1), (recorder.recorded, recorder.failures)
"""
    code, errors = run(script, tmp_path)
    assert code == 0, errors
    assert "step 1 is not recorded" in errors
    assert recorded(tmp_path) == [0, 2]
    assert [path.name for path in tmp_path.rglob("*.writing")] == []
    assert any("first with: OSError" in problem.what for problem in load(tmp_path)[0].problems)
