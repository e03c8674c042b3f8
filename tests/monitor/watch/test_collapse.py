"""A run that collapses, watched from outside: somebody is told once, the trainer takes the signal, and the end of it is told once.

Three processes and a real HTTP server: the laboratory trains with a frozen generator and no correction and records each step, `watch` looks
at the folder, and this one is told. Nothing is patched.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from ingest.load import load
from monitor.metrics.frame import metric_frame
from monitor.metrics.series import series
from monitor.record import files
from monitor.record.resync import TAKEN
from sample_runs.lab.live import FROZEN
from tests.monitor.alerts.servers import serving

ROOT = Path(__file__).parents[3]
ENDS_S = 600  # that a process gets; only one that hangs needs them
AFTER = 5  # steps after the first resync; the generator is frozen again, and the longer it goes on the likelier a second one is asked for
LOOKS = 3  # of the watch, in which nothing more may come

# Half of the tokens is where it fires; from .8 on it is over, so that the noise of one batch is no second collapse.
RULES = """
include_defaults = true

[[rule]]
id = "ess.lag.token"
what = "Resynchronise the generator now."
metric = "ess.lag.token"
comparison = "<"
threshold = 0.5
recover = 0.8
severity = "critical"

[resync]
rules = ["ess.lag.token"]
"""


@contextmanager
def process(*command, home, output):
    """One of ours, in a home of its own; it does not outlive the test."""
    environment = os.environ | {"RATIOMETER_HOME": str(home), "OMP_NUM_THREADS": "1"}
    with output.open("w", encoding="utf-8") as file:
        started = subprocess.Popen(
            [sys.executable, "-m", *map(str, command)], cwd=ROOT, env=environment, stdout=file, stderr=subprocess.STDOUT
        )
        try:
            yield started
        finally:
            started.kill()
            started.wait()


def until(so, what):
    limit = time.monotonic() + ENDS_S
    while not so():
        assert time.monotonic() < limit, what
        time.sleep(0.05)


def of_ess(served):
    """What was told of the rule, in the order in which it arrived."""
    return [body for request in served.requests if (body := request.json)["rule"] == "ess.lag.token"]


@pytest.fixture(scope="module")
def collapse(tmp_path_factory):
    """The whole story, once: what was told, what the lab and the watch said, and the run's folder."""
    home = tmp_path_factory.mktemp("collapse")
    folder, rules, lab_says, watch_says = (home / name for name in (FROZEN.name, "rules.toml", "lab.txt", "watch.jsonl"))
    rules.write_text(RULES, encoding="utf-8")
    with serving() as served:
        watch = ("monitor", "watch", folder, "--rules", rules, "--notify", f"json://{served.host}", "--json")
        lab = ("sample_runs.lab", "live", "--out", home, "--after", AFTER)
        with process(*watch, home=home / "ratiometer", output=watch_says) as watching:
            with process(*lab, home=home / "ratiometer", output=lab_says) as training:
                assert training.wait(ENDS_S) == 0, lab_says.read_text(encoding="utf-8")
            until(lambda: len(of_ess(served)) >= 2, watch_says.read_text(encoding="utf-8"))
            time.sleep(LOOKS)  # a second for each look
            watching.send_signal(signal.SIGTERM)
            assert watching.wait(ENDS_S) == 0
        told = of_ess(served)
    said = [json.loads(line) for line in watch_says.read_text(encoding="utf-8").splitlines()]
    return told, lab_says.read_text(encoding="utf-8"), said, folder


@pytest.fixture(scope="module")
def ess(collapse):
    """ESS of the lag by step, from the parts on the disk."""
    (run,) = load(collapse[3])
    found = series(metric_frame(run), "ess.lag.token")
    return dict(zip(found.steps.tolist(), found.values.tolist(), strict=True))


def test_it_is_told_once_when_the_ess_crosses_and_once_when_it_recovers(collapse, ess):
    told, _, _, _ = collapse
    assert [body["state"] for body in told] == ["firing", "resolved"]
    crossed = min(step for step, value in ess.items() if value < 0.5)
    recovered = min(step for step, value in ess.items() if step > crossed and value >= 0.8)
    assert [body["step"] for body in told] == [crossed, recovered]
    assert [body["value"] for body in told] == pytest.approx([ess[crossed], ess[recovered]])
    assert told[0]["episode"] == told[1]["episode"]
    assert {body["run"] for body in told} == {FROZEN.name}
    assert told[0]["severity"] == "critical"
    assert "Resynchronise the generator now." in told[0]["text"]


def test_the_trainer_took_each_signal_once_and_that_is_what_ended_it(collapse, ess):
    """One batch of old samples may fall under the line once more: the rule's cooldown holds that back from people, not from the trainer."""
    told, lab, said, folder = collapse
    steps = [int(step) for step in re.findall(r"resynchronised after step (\d+)", lab)]
    assert 1 <= len(steps) <= sum("ess.lag.token firing: sent to resync" in line["text"] for line in said if line["event"] == "sent")
    taken = json.loads((folder / TAKEN).read_text(encoding="utf-8"))
    assert taken["step"] == steps[-1]
    assert told[0]["step"] <= steps[0] < told[1]["step"]
    assert max(value for step, value in ess.items() if told[0]["step"] <= step <= steps[0]) < 0.8, "it did not recover by itself"
    last = pq.ParquetFile(files.parts(folder)[-1]).read()["rollout_version"].to_numpy()
    assert set(np.unique(last).tolist()) <= set(steps)


def test_every_step_was_recorded_beside_the_training(collapse, ess):
    _, _, _, folder = collapse
    assert list(ess) == list(range(1, len(ess) + 1))
    assert not list(folder.glob("recorder.*"))


def test_the_watch_said_so_and_nothing_failed(collapse):
    _, _, said, _ = collapse
    assert not [line for line in said if line["event"] in {"failed", "trouble", "problem"}], said
    asked = [line["episode"] for line in said if line["event"] == "sent" and "ess.lag.token firing: sent to resync" in line["text"]]
    assert asked
    assert len(asked) == len(set(asked)), "once for each episode"
