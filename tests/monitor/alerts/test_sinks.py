"""What arrives at each destination, and what each says when it does not: real servers, files and commands."""

import json
import logging
import math
import os
import stat
import sys
import threading
import time
from base64 import b64decode
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.alerts.destination import destination
from monitor.alerts.fields import EXAMPLE, fields
from monitor.alerts.notification import Kind
from monitor.alerts.policy import SinkSettings
from monitor.alerts.rule import Severity
from monitor.alerts.sink import Options, SettingsError, SinkError
from monitor.alerts.sinks import command as command_sink
from monitor.alerts.sinks import webhook
from tests.monitor.alerts.servers import hanging, refused_port, serving

PRIVATE = "xoxb-99172-QwErTyAsDf"
TOLD = replace(EXAMPLE, rule="ess.lag.token", run="v1-broken", step=31, value=0.48, text='ESS is under 0.5: "resync"', at=1.8e9)


def told_to(kind, notification=TOLD, **options):
    destination(SinkSettings(name="mine", sink=kind, options=options)).tell(notification)


@pytest.mark.parametrize(
    ("kind", "state"),
    [
        (Kind.FIRING, "firing"),
        (Kind.RESOLVED, "resolved"),
        (Kind.NAN, "nan"),
        (Kind.NO_DATA, "no_data"),
        (Kind.REMINDER, "firing"),
    ],
)
def test_fields(kind, state):
    given_ = fields(replace(TOLD, kind=kind))
    assert (given_["state"], given_["kind"]) == (state, kind)
    assert given_["rule"] in given_["title"]
    assert given_["run"] in given_["title"]


def test_numbers_that_json_does_not_have():
    for value in (math.nan, math.inf, -math.inf):
        said = fields(replace(TOLD, value=value))
        assert said["value"] is None
        assert float(said["value_text"]) == value or math.isnan(value)
        json.dumps(said, allow_nan=False)
    assert fields(replace(TOLD, value=None))["value_text"] == ""


def test_log(caplog):
    with caplog.at_level(logging.INFO, "monitor.alerts"):
        told_to("log", replace(TOLD, run="evil\nCRITICAL forged line"))
        told_to("log", replace(TOLD, kind=Kind.RESOLVED))
        told_to("log", replace(TOLD, severity=Severity.CRITICAL))
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO", "CRITICAL"]
    assert all("\n" not in record.getMessage() for record in caplog.records)
    assert caplog.messages[2] == 'Critical: ess.lag.token in v1-broken | step 31 | ESS is under 0.5: "resync"'


def test_jsonl_appends_whole_lines(tmp_path):
    path = tmp_path / "new" / "alerts.jsonl"
    told_to("jsonl", path=str(path))
    told_to("jsonl", replace(TOLD, value=math.nan, run="line\nbreak"), path=str(path))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(line["rule"], line["state"], line["run"], line["step"], line["value"]) for line in lines] == [
        ("ess.lag.token", "firing", "v1-broken", 31, 0.48),
        ("ess.lag.token", "firing", "line\nbreak", 31, None),
    ]


def test_jsonl_after_a_line_that_was_cut_short(tmp_path):
    path = tmp_path / "alerts.jsonl"
    path.write_text('{"rule": "cut')
    told_to("jsonl", path=str(path))
    assert json.loads(path.read_text().splitlines()[1])["step"] == 31


def test_jsonl_from_many_threads(tmp_path):
    path = tmp_path / "alerts.jsonl"
    threads = [threading.Thread(target=told_to, args=("jsonl", replace(TOLD, step=step)), kwargs={"path": str(path)}) for step in range(20)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert sorted(json.loads(line)["step"] for line in path.read_text().splitlines()) == list(range(20))


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no full device")  # noqa: PTH110
def test_jsonl_on_a_full_disk(tmp_path):
    path = tmp_path / "alerts.jsonl"
    path.symlink_to("/dev/full")
    with pytest.raises(SettingsError, match="a folder or a device"):
        told_to("jsonl", path=str(path))
    from monitor.alerts.sinks.jsonl import SINK

    with pytest.raises(SinkError, match="No space left"):
        SINK.send(Options(where="", plain={"path": str(path)}, secrets={}), TOLD)


def test_webhook_sends_the_fields_as_json():
    with serving() as hook:
        told_to("webhook", url=f"http://{hook.host}/in", headers={"X-Team": "rl"}, method="put")
        (got,) = hook.requests
    assert (got.method, got.path, got.headers["Content-Type"], got.headers["X-Team"]) == ("PUT", "/in", "application/json", "rl")
    assert got.json == fields(TOLD)


def test_webhook_with_user_and_password(monkeypatch):
    with serving() as hook:
        monkeypatch.setenv("HOOK", f"http://me:p%40ss{PRIVATE}@{hook.host}/in?a=b")
        told_to("webhook", url="env:HOOK")
        (got,) = hook.requests
    assert (got.path, got.headers["Host"]) == ("/in?a=b", hook.host)
    assert b64decode(got.headers["Authorization"].removeprefix("Basic ")).decode() == f"me:p@ss{PRIVATE}"


def test_webhook_template():
    with serving() as hook:
        template = '{"text": "$title at $step: $text", "value": $value, "cost": "$$5"}'
        told_to("webhook", url=f"http://{hook.host}/", template=template)
        told_to("webhook", url=f"http://{hook.host}/", template="say=$text&run=$run", content_type="application/x-www-form-urlencoded")
        told_to("webhook", url=f"http://{hook.host}/", template="$rule: $text", content_type="text/plain; charset=utf-8")
        as_json, form, plain = hook.requests
    assert as_json.json == {"text": 'Warning: ess.lag.token in v1-broken at 31: ESS is under 0.5: "resync"', "value": 0.48, "cost": "$5"}
    assert form.body == b"say=ESS+is+under+0.5%3A+%22resync%22&run=v1-broken"
    assert plain.body == b'ess.lag.token: ESS is under 0.5: "resync"'


@given(st.text(), st.text(), st.floats() | st.none())
def test_no_name_breaks_out_of_a_template(run, text, value):
    template = '{"run": "$run", "text": "$text", "value": $value}'
    options = Options(where="", plain={"template": template}, secrets={})
    said = json.loads(webhook._body(options, replace(TOLD, run=run, text=text, value=value)))
    assert set(said) == {"run", "text", "value"}
    assert (said["run"], said["text"]) == (run, text)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"url": "json://127.0.0.1/"}, "an address http"),
        ({"url": "http://"}, "an address http"),
        ({"url": "http://127.0.0.1/", "method": "GET"}, "POST, PUT, PATCH"),
        ({"url": "http://127.0.0.1/", "template": "$nothing"}, "the fields .*'nothing'"),
        ({"url": "http://127.0.0.1/", "template": "$ 5"}, "write \\$\\$"),
        ({"url": "http://127.0.0.1/", "template": '{"a": $title}'}, "JSON once it is filled"),
        ({"url": "http://127.0.0.1/", "headers": {"X\r\nEvil": "1"}}, "printable ASCII"),
        ({"url": "http://127.0.0.1/", "headers": {"X": "1\r\nEvil: 1"}}, "printable ASCII"),
    ],
)
def test_webhook_settings_are_looked_at_when_they_are_set_up(options, why):
    with pytest.raises(SettingsError, match=why):
        destination(SinkSettings(name="mine", sink="webhook", options=options))


@pytest.mark.parametrize(("code", "lasting"), [(500, False), (503, False), (429, False), (401, True), (404, True), (302, True)])
def test_webhook_says_what_came_back(code, lasting, monkeypatch):
    monkeypatch.setenv("KEY", f"Bearer {PRIVATE}")
    away = (("Location", f"http://127.0.0.1:{refused_port()}/"), ("Retry-After", "17"))
    with serving(code, headers=away, body=f"we do not like {PRIVATE}".encode()) as hook, pytest.raises(SinkError) as failed:
        told_to("webhook", url=f"http://{hook.host}/", headers={"Authorization": "env:KEY"})
    assert str(failed.value).startswith(f"answered {code} ")
    assert "we do not like ***" in str(failed.value)
    assert (failed.value.lasting, failed.value.retry_after_s) == (lasting, 17)
    assert len(hook.requests) == 1, "a redirect would hand the credentials on"
    assert hook.requests[0].headers["Authorization"] == f"Bearer {PRIVATE}"


@pytest.mark.parametrize(("said", "seconds"), [("Mon, 30 Nov 2026", None), ("-3", None), ("nan", None), ("inf", None), ("1e9", 3600.0)])
def test_how_long_to_wait_is_taken_with_a_grain_of_salt(said, seconds):
    with serving(429, headers=(("Retry-After", said),)) as hook, pytest.raises(SinkError) as failed:
        told_to("webhook", url=f"http://{hook.host}/")
    assert failed.value.retry_after_s == seconds


def test_webhook_where_nobody_listens():
    with pytest.raises(SinkError, match="cannot be reached: Connection refused"):
        told_to("webhook", url=f"http://127.0.0.1:{refused_port()}/")


def test_webhook_that_never_answers(monkeypatch):
    monkeypatch.setattr(webhook, "TIMEOUT_S", 0.2)
    with hanging() as hook, pytest.raises(SinkError, match=r"no answer within 0\.2 s"):
        told_to("webhook", url=f"http://{hook.host}/")


def test_webhook_with_a_broken_answer():
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer():
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"SMTP 220 hello\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(SinkError, match="the connection broke"):
            told_to("webhook", url=f"http://127.0.0.1:{listener.getsockname()[1]}/")
        thread.join()


def script(tmp_path, body):
    path = tmp_path / "tell"
    path.write_text(f"#!{sys.executable}\nimport os, sys, time, json\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return (str(path), "--to", "$(touch pwned); me")


def test_command_gets_the_fields_and_no_shell(tmp_path):
    out = tmp_path / "out.json"
    body = (
        f"json.dump([sys.argv[1:], {{k: v for k, v in os.environ.items() if k.startswith('RATIOMETER_ALERT_')}}], open({str(out)!r}, 'w'))"
    )
    told_to("command", replace(TOLD, run="nul\0 $(id) ü"), argv=script(tmp_path, body), allow=True)
    argv, environment = json.loads(out.read_text())
    assert argv == ["--to", "$(touch pwned); me"]
    assert environment["RATIOMETER_ALERT_RULE"] == "ess.lag.token"
    assert environment["RATIOMETER_ALERT_STEP"] == "31"
    assert environment["RATIOMETER_ALERT_STATE"] == "firing"
    assert environment["RATIOMETER_ALERT_RUN"] == "nul $(id) ü"
    assert set(environment) == {f"RATIOMETER_ALERT_{name.upper()}" for name in fields(TOLD)}


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"argv": ("true",)}, "expected allow"),
        ({"argv": ("true",), "allow": False}, "true, because a command is run only where that is said"),
        ({"argv": (), "allow": True}, "the program, then its arguments"),
        ({"argv": "rm -r x", "allow": True}, "list of texts, found str"),
        ({"argv": ("./not_there",), "allow": True}, "a program that may be run"),
    ],
)
def test_command_is_off_until_it_is_allowed(options, why):
    with pytest.raises(SettingsError, match=why):
        destination(SinkSettings(name="mine", sink="command", options=options))


def test_command_that_was_allowed_once_is_not_run_without(tmp_path):
    with pytest.raises(SinkError, match="switched off"):
        command_sink.SINK.send(Options(where="", plain={"argv": ("touch", str(tmp_path / "ran"))}, secrets={}), TOLD)
    assert not (tmp_path / "ran").exists()


def test_command_that_fails_or_is_not_there(tmp_path):
    with pytest.raises(SinkError, match="ended with 3: no such pager"):
        told_to("command", argv=script(tmp_path, "print('no such pager', flush=True); sys.exit(3)"), allow=True)
    with pytest.raises(SinkError, match="cannot be started: No such file") as failed:
        told_to("command", argv=("no-such-program-anywhere",), allow=True)
    assert failed.value.lasting


def test_command_that_takes_too_long_is_ended_with_all_it_started(tmp_path, monkeypatch):
    monkeypatch.setattr(command_sink, "TIMEOUT_S", 1.0)
    beat = tmp_path / "beat"
    child = f"import time\nwhile True:\n    open({str(beat)!r}, 'a').write('.'); time.sleep(0.02)"
    body = f"import subprocess; subprocess.Popen([sys.executable, '-c', {child!r}]); time.sleep(60)"
    with pytest.raises(SinkError, match="took more than 1 s, and was ended"):
        told_to("command", argv=script(tmp_path, body), allow=True)
    assert beat.exists()
    before = beat.stat().st_size
    time.sleep(0.2)
    assert beat.stat().st_size - before <= 1


def test_command_that_leaves_something_running_is_not_waited_for(tmp_path):
    body = "import subprocess; subprocess.Popen(['sleep', '5']); print('left it')"
    began = time.monotonic()
    told_to("command", argv=script(tmp_path, body), allow=True)
    assert time.monotonic() - began < 4
