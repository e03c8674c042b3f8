"""A command has the whole environment at hand: what it prints is shown without the secrets of any destination, and of any variable."""

import sqlite3
from contextlib import closing

import pytest

from monitor.alerts.deliver import Delivery
from monitor.alerts.machine import Observation
from monitor.alerts.masking import masker, secrets_of
from monitor.alerts.policy import AlertRule, Policy, SinkSettings
from monitor.alerts.store import AlertStore

LOW = AlertRule(id="low", metric="ess.lag.token", threshold=0.5)
PAGER, CLOUD, FILED, OFF, SHORT = "pgr-71QwErTyAsDf", "cld-82QwErTyAsDf", "fld-93QwErTyAsDf", "off-14QwErTyAsDf", "x7"
PRINTS = 'echo "pager $PAGER, cloud $CLOUD_API_KEY, file $(cat "$PLACE"), off $SPARE, short $MY_TOKEN, x7y stays"; exit 3'


def pager(name, header, **more):
    return SinkSettings(name=name, sink="webhook", options={"url": "http://127.0.0.1:1/", "headers": {"X-Pager": header}}, **more)


def test_what_a_command_prints_holds_no_secret_of_others(tmp_path, monkeypatch):
    (tmp_path / "secret").write_text(FILED)
    (tmp_path / "secret").chmod(0o600)
    for name, value in {"PAGER": PAGER, "CLOUD_API_KEY": CLOUD, "SPARE": OFF, "MY_TOKEN": SHORT, "PLACE": str(tmp_path / "secret")}.items():
        monkeypatch.setenv(name, value)
    command = SinkSettings(name="own", sink="command", options={"allow": True, "argv": ("sh", "-c", PRINTS)})
    others = (pager("pager", "env:PAGER"), pager("filed", f"file:{tmp_path / 'secret'}"), pager("off", "env:SPARE", enabled=False))
    with closing(AlertStore(tmp_path / "alerts.sqlite")) as store:
        store.take(Policy(rules=(LOW,), sinks=(command,)), "a", [Observation(run="a", step=0, metric=LOW.metric, value=0.1)], 0.0)
        outcome = next(each for each in failing(store, (command, *others)) if each.queued.sink == "own")
        assert outcome.error == "ended with 3: pager ***, cloud ***, file ***, off ***, short ***, x7y stays"
    with closing(sqlite3.connect(tmp_path / "alerts.sqlite")) as kept:
        assert "".join(kept.iterdump()).count("***") >= 2
    stored = b"".join(path.read_bytes() for path in tmp_path.glob("alerts*"))
    assert not [secret for secret in (PAGER, CLOUD, FILED, OFF) if secret.encode() in stored]


def failing(store, sinks):
    with Delivery(store, sinks) as delivery:
        for _ in range(100):
            if outcomes := delivery.serve(0.1):
                return outcomes
    return ()


def test_half_a_secret_at_the_end_of_what_is_kept_is_not_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("CLOUD_API_KEY", CLOUD)
    script = 'printf "%2040s" " "; echo "$CLOUD_API_KEY"; exit 3'
    command = SinkSettings(name="own", sink="command", options={"allow": True, "argv": ("sh", "-c", f"echo begun; {script}")})
    with closing(AlertStore(tmp_path / "alerts.sqlite")) as store:
        store.take(Policy(rules=(LOW,), sinks=(command,)), "a", [Observation(run="a", step=0, metric=LOW.metric, value=0.1)], 0.0)
        (outcome,) = failing(store, (command,))
    assert outcome.error == "ended with 3: begun"


@pytest.mark.parametrize(
    "name", ["HF_TOKEN", "GITHUB_TOKEN_2", "AWS_SECRET_ACCESS_KEY", "PGPASSWORD", "db_passwd", "SLACK_WEBHOOK_URL", "MYSQL_PWD"]
)
def test_a_variable_that_is_named_like_a_secret_is_one(name):
    assert secrets_of({name: CLOUD}) == [CLOUD]


@pytest.mark.parametrize(
    ("name", "value"),
    [("TOKENIZERS_PARALLELISM", "x"), ("PWD", "/a"), ("HOME", "/a"), ("USE_TOKEN", "true"), ("ADDRESS", "tcp://10.0.0.1:80")],
)
def test_what_is_none_is_none(name, value):
    assert secrets_of({name: value}) == []


def test_a_password_in_an_address_and_a_secret_of_several_lines_are_hidden():
    (address,) = secrets_of({"DATABASE_URL": "postgres://me:pw-7QwErTy@db.example.org/x"})
    assert masker([address])("cannot log in with pw-7QwErTy") == "cannot log in with ***"
    assert masker(["-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0\n"])("it has MIIEvQIBADANBgkqhkiG9w0 in it") == "it has *** in it"
