"""`python -m monitor watch` end to end: lines that fit the published schema, exit codes, rules, references, the endpoint, signals."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from monitor.__main__ import main
from monitor.alerts.deliver import Delivery
from monitor.alerts.policy import Policy, default_policy, save_policy
from monitor.watch import tokens
from tests.monitor.alerts.servers import refused_port, serving
from tests.monitor.watch.runs import Recorder, append, ess_rows, record

ROOT = Path(__file__).resolve().parents[3]
SCHEMAS = {name: json.loads((ROOT / "docs" / "schema" / f"{name}.json").read_text()) for name in ("watch", "error")}


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("RATIOMETER_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def lines(capsys):
    def call(*arguments):
        code = main(["watch", *map(str, arguments), "--json"])
        return code, [valid(line) for line in capsys.readouterr().out.splitlines()]

    return call


def valid(line):
    document = json.loads(line)
    jsonschema.Draft202012Validator(SCHEMAS["error" if "error" in document else "watch"]).validate(document)
    return document


def events(documents, kind):
    return [document for document in documents if document.get("event") == kind]


def a_run(folder, *values):
    folder.mkdir(parents=True, exist_ok=True)
    append(folder / "steps.jsonl", *ess_rows(0, *values))
    return folder


def test_one_look_at_a_run_that_fires(lines, tmp_path):
    code, said = lines(a_run(tmp_path / "run", 0.9, 0.9, 0.2), "--once")
    assert code == 1
    (told,) = events(said, "told")
    assert (told["run"], told["notification"]["rule"], told["notification"]["step"]) == ("run", "ess.lag.token", 2)
    assert said[-1]["event"] == "looked"
    assert said[-1]["firing"] == [{"rule": "ess.lag.token", "run": "run", "phase": "firing", "since": 2}]


def test_one_look_at_a_run_in_which_nothing_fires_any_more(lines, tmp_path):
    code, said = lines(a_run(tmp_path / "run", 0.9, 0.2, 0.9), "--once")
    assert (code, said[-1]["firing"]) == (0, [])
    assert [told["notification"]["kind"] for told in events(said, "told")] == ["firing", "resolved"]
    assert [never["rule"] for never in events(said, "never")]
    code, said = lines(tmp_path / "run", "--once")
    assert events(said, "told") == []


def test_one_look_sends_what_there_is_before_it_ends(lines, tmp_path):
    with serving() as served:
        _, said = lines(a_run(tmp_path / "run", 0.2), "--once", "--notify", f"json://{served.host}")
        assert [request.json["state"] for request in served.requests] == ["firing"]
    assert [sent["rule"] for sent in events(said, "sent")] == ["ess.lag.token"]
    assert said[-1]["unsent"] == 0


def test_nothing_to_look_at_is_an_error_in_one_line(lines, tmp_path):
    code, said = lines(tmp_path / "nowhere", "--once")
    assert code == 2
    assert [document["event"] for document in said[:-2]] == ["rules", "waiting"]
    assert said[-1]["error"]["kind"] == "NothingToWatch"
    assert "no such file" in said[-1]["error"]["message"]


@pytest.mark.parametrize(
    ("more", "kind"),
    [
        (("--poll", "0"), "UsageError"),
        (("--poll", "often"), "UsageError"),
        (("--rules", "missing.toml"), "PolicyError"),
        (("--notify", "nonsense"), "SettingsError"),
        (("--reference", "missing"), "ReadError"),
        (("--dialect", "missing"), "UnknownDialectError"),
        (("--resync-port", "99999"), "PolicyError"),
        (("--resync-port", "-5"), "PolicyError"),
    ],
)
def test_what_cannot_be_set_up_is_refused_at_once(tmp_path, capsys, more, kind):
    code = main(["watch", str(a_run(tmp_path / "run", 0.9)), "--once", "--json", *more])
    document = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator(SCHEMAS["error"]).validate(document)
    assert (code, document["error"]["kind"]) == (2, kind)


@pytest.mark.parametrize("port", [99999, -5])
def test_what_is_no_port_is_refused_with_its_place(tmp_path, capsys, port):
    rules = tmp_path / "rules.toml"
    rules.write_text(f'include_defaults = true\n[resync]\nrules = ["ess.*"]\nport = {port}\n')
    run = str(a_run(tmp_path / "run", 0.9))
    for more, where in ((["--resync-port", str(port)], "--resync-port"), (["--rules", str(rules)], f"{rules}, line 4, resync, port")):
        assert main(["watch", run, "--once", *more]) == 2
        assert f"{where}: expected a port from 1 to 65535, or 0 for none, found {port}. Choose" in capsys.readouterr().err


def test_one_look_says_that_the_trainer_was_told(lines, tmp_path, monkeypatch):
    serve = Delivery.serve

    def slow(delivery, seconds):  # what is handed out comes back before anybody looks again
        outcomes = serve(delivery, seconds)
        while delivery.busy:
            time.sleep(0.01)
        return outcomes

    monkeypatch.setattr(Delivery, "serve", slow)
    rules = tmp_path / "rules.toml"
    rules.write_text('include_defaults = true\n[resync]\nrules = ["ess.lag.token"]\n')
    run = a_run(tmp_path / "run", 0.9, 0.2)
    _, said = lines(run, "--once", "--rules", rules)
    assert (run / "resync.json").exists()
    assert [sent["sink"] for sent in events(said, "sent")] == ["resync"]


def test_rules_of_a_file_and_a_reference(lines, tmp_path):
    for seed in range(2):
        a_run(tmp_path / f"seed{seed}", *(0.9 + 0.01 * ((step + seed) % 3) for step in range(30)))
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nid = "away"\nmetric = "ess.lag.token"\ncomparison = "<"\nthreshold = 8\nrelation = "reference"\n')
    run = a_run(tmp_path / "run", *(0.9 for _ in range(20)), *(0.7 for _ in range(5)))
    code, said = lines(run, "--once", "--rules", rules, "--reference", tmp_path / "seed0", tmp_path / "seed1")
    assert code == 1
    assert [(told["notification"]["rule"], told["notification"]["step"]) for told in events(said, "told")] == [("away", 20)]


def save(home, *, threshold):
    """Rules as the Alerts page saves them."""
    rules = tuple(replace(rule, threshold=threshold, recover=threshold) for rule in default_policy().rules if rule.id == "ess.lag.token")
    save_policy(Policy(rules=rules), home / "rules.toml")


def test_without_a_file_the_rules_of_the_alerts_page_are_asked(lines, tmp_path, home):
    save(home, threshold=0.3)
    code, said = lines(a_run(tmp_path / "run", 0.9, 0.4), "--once")
    assert (code, events(said, "told")) == (0, [])
    (asked,) = events(said, "rules")
    assert asked["text"] == f"asking 1 rule of {home / 'rules.toml'}"
    assert asked["path"] == str(home / "rules.toml")
    save(home, threshold=0.45)
    assert lines(tmp_path / "run", "--once")[0] == 1


def test_rules_that_the_page_saved_and_that_cannot_be_read_are_an_error_and_not_passed_over(lines, tmp_path, home):
    home.mkdir()
    (home / "rules.toml").write_text("[[rule]]\nid = 3\n")
    code, said = lines(a_run(tmp_path / "run", 0.9), "--once")
    assert code == 2
    assert said[-1]["error"]["kind"] == "PolicyError"


def test_how_far_the_first_look_is_stands_on_standard_error_where_somebody_sees_it(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(tokens, "_AT_ONCE", 2)
    recorder = Recorder(tmp_path / "run")
    for step in range(3):
        record(recorder, step)
    main(["watch", str(tmp_path / "run"), "--once"])
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    main(["watch", str(tmp_path / "run"), "--once"])
    assert capsys.readouterr().err == "\rrun: 0 of 3 steps\rrun: 2 of 3 steps\rrun: 3 of 3 steps\n"


def test_text_says_each_thing_in_a_line(tmp_path, capsys):
    assert main(["watch", str(a_run(tmp_path / "run", 0.9, 0.2)), "--once"]) == 1
    out = capsys.readouterr().out.splitlines()
    assert "asking the 8 rules that are shipped" in out[0]
    assert "run: watching" in out[1]
    assert "critical firing: run: ess.lag.token is 0.2 at step 1" in out[2]
    assert out[-1].endswith("since step 1")


class Process:
    """A watch that runs until it is told to end."""

    def __init__(self, home, *arguments):
        command = [sys.executable, "-m", "monitor", "watch", *map(str, arguments), "--json", "--poll", "0.1"]
        environment = {**os.environ, "RATIOMETER_HOME": str(home)}
        self.process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
        self._patience = threading.Timer(60, self.process.kill)  # what never comes is a failure, not a wait without end
        self._patience.start()

    def until(self, kind):
        """Read lines until one of a kind."""
        for line in self.process.stdout:
            document = valid(line)
            if document["event"] == kind:
                return document
        pytest.fail(f"it ended before {kind}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._patience.cancel()
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_watch_goes_on_until_it_is_ended(tmp_path, home, number):
    with Process(home, tmp_path / "run") as watch:
        watch.until("waiting")
        a_run(tmp_path / "run", 0.9)
        assert watch.until("watching")["run"] == "run"
        append(tmp_path / "run" / "steps.jsonl", *ess_rows(1, 0.2))
        assert watch.until("told")["notification"]["step"] == 1
        watch.process.send_signal(number)
        assert watch.process.wait(10) == 0


def test_rules_that_the_page_saves_meanwhile_are_taken_up(tmp_path, home):
    with Process(home, a_run(tmp_path / "run", 0.9, 0.6)) as watch:
        watch.until("watching")
        save(home, threshold=0.7)
        assert "1 rule of" in watch.until("rules")["text"]
        assert watch.until("told")["notification"]["step"] == 1


def test_a_trainer_that_asks_over_http_is_answered(tmp_path, home):
    port, run = refused_port(), tmp_path / "run"
    recorder = Recorder(run)
    record(recorder, 0)
    with Process(home, run, "--resync-port", port) as watch:
        watch.until("watching")
        assert asked(port) == {"resync": False}
        record(recorder, 1, 0.2)
        watch.until("sent")
        assert asked(port)["rule"] == "ess.lag.token"
        assert json.loads((run / "resync.json").read_text())["step"] == 1


def asked(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/resync?run=run", timeout=5) as answer:
        return json.loads(answer.read())


def test_a_reader_that_goes_away_ends_the_watch(tmp_path, home):
    a_run(tmp_path / "run", 0.9)
    with Process(home, tmp_path / "run") as watch:
        watch.until("watching")
        watch.process.stdout.close()
        until = time.monotonic() + 20
        step = 1
        while watch.process.poll() is None and time.monotonic() < until:
            append(tmp_path / "run" / "steps.jsonl", *ess_rows(step, 0.2, 0.9))
            step += 2
            time.sleep(0.3)
        assert watch.process.returncode == 0
        watch.process.stdout = open(os.devnull)  # noqa: SIM115, PTH123 - what is closed again at the end
