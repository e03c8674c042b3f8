"""A watch that is killed with -9 at any moment, again and again, loses nothing, and repeats no more than it was killed in between."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from tests.monitor.alerts.servers import serving
from tests.monitor.watch.runs import append, ess_rows

ROOT = Path(__file__).resolve().parents[3]
RULES = """
[[rule]]
id = "ess"
metric = "ess.lag.token"
comparison = "<"
threshold = 0.5
cooldown_s = 0
cap = 1000
"""


def started(run, rules, address, home):
    command = [sys.executable, "-m", "monitor", "watch", str(run), "--rules", str(rules), "--notify", address, "--poll", "0.05"]
    return subprocess.Popen(command, cwd=ROOT, env={**os.environ, "RATIOMETER_HOME": str(home)}, stdout=subprocess.DEVNULL)


def test_every_change_of_state_arrives_however_often_the_watch_is_killed(tmp_path):
    run, rules = tmp_path / "run", tmp_path / "rules.toml"
    run.mkdir()
    rules.write_text(RULES)
    chance, kills, step = random.Random(0), 0, 0  # noqa: S311 - moments, no secrets
    with serving() as served:
        watch = started(run, rules, f"json://{served.host}", tmp_path / "home")
        try:
            for episode in range(2):
                for value in (0.9, 0.3, 0.9):  # one episode: it fires at the second step and is over at the third
                    append(run / "steps.jsonl", *ess_rows(step, value))
                    step += 1
                    wanted = 2 * episode + (value == 0.3) + 2 * (value == 0.9 and step % 3 == 0)
                    time.sleep(chance.random() * 1.5)
                    os.kill(watch.pid, signal.SIGKILL)
                    watch.wait()
                    kills += 1
                    watch = started(run, rules, f"json://{served.host}", tmp_path / "home")
                    until = time.monotonic() + 30
                    while len({key(request) for request in served.requests}) < wanted and time.monotonic() < until:
                        time.sleep(0.05)
        finally:
            watch.kill()
            watch.wait()
    counts = Counter(key(request) for request in served.requests)
    assert sorted(counts) == sorted(
        (state, 3 * episode + (1 if state == "firing" else 2)) for episode in range(2) for state in ("firing", "resolved")
    )
    assert sum(counts.values()) - len(counts) <= kills


def key(request):
    return request.json["state"], request.json["step"]
