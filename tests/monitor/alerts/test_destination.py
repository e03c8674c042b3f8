"""A destination as set up: what it refuses, how it is shown, and that no secret comes out of it when it fails."""

import logging
import traceback
from dataclasses import replace

import pytest

from monitor.alerts.addresses import settings_of
from monitor.alerts.destination import destination, refuse_from_page
from monitor.alerts.fields import EXAMPLE
from monitor.alerts.policy import SinkSettings
from monitor.alerts.secrets import Origin, SecretError
from monitor.alerts.sink import OptionKind, SettingsError, Sink, SinkError, SinkOption, sinks
from tests.monitor.alerts.servers import serving

PRIVATE = "xoxb-99172-QwErTyAsDf"


def sink(kind, **options):
    return SinkSettings(name="mine", sink=kind, options=options)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (sink("carrier_pigeon"), "one of apprise, command, jsonl, log, resync, wandb_alert, webhook"),
        (sink("webhook"), "expected url, found none"),
        (sink("webhook", url=7), "url: expected a secret, found int"),
        (sink("webhook", url="http://127.0.0.1", uri="x"), "expected only url, method, headers, template, content_type, found 'uri'"),
        (sink("webhook", url="http://127.0.0.1", headers="x"), "headers: expected a table"),
        (sink("log", level="x"), "only no option"),
        (sink("wandb_alert", project="p", offline=1), "offline: expected a switch"),
        (sink("wandb_alert", project="p", offline=True), "dir: expected a folder"),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_do(settings, why):
    with pytest.raises(SettingsError, match=r"^sink 'mine'") as refused:
        destination(settings)
    assert why in str(refused.value)


def test_every_kind_says_what_its_options_mean():
    assert [sink.id for sink in sinks()] == ["apprise", "command", "jsonl", "log", "resync", "wandb_alert", "webhook"]
    for each in sinks():
        assert each.title
        assert all(option.what for option in each.options)
        assert set(each.secret_fields) <= {"url", "headers", "api_key"}


def test_headers_that_usually_hold_a_secret_name_it(monkeypatch):
    for header in ("Authorization", "X-Api-Key", "PRIVATE-TOKEN"):
        with pytest.raises(SettingsError, match=f"{header}.*found a value in the open") as refused:
            destination(sink("webhook", url="http://127.0.0.1", headers={header: PRIVATE}))
        assert PRIVATE not in str(refused.value)
    monkeypatch.setenv("HOOK_TOKEN", PRIVATE)
    destination(sink("webhook", url="http://127.0.0.1", headers={"Authorization": "env:HOOK_TOKEN", "X-Team": "rl"}))


@pytest.mark.parametrize(
    "settings",
    [sink("command", argv=("true",), allow=True), sink("jsonl", path="alerts.jsonl"), sink("resync")],
    ids=lambda each: each.sink,
)
def test_a_page_sets_nothing_that_acts_on_the_machine(settings):
    destination(settings)
    with pytest.raises(SettingsError, match="rule file by hand"):
        destination(settings, Origin.PAGE)


def test_a_page_keeps_what_the_rule_file_has_but_may_not_change_it(monkeypatch):
    command, hook = sink("command", argv=("true",), allow=True), replace(sink("webhook", url="http://127.0.0.1:1/"), name="hook")
    refuse_from_page([command], [command, hook])
    refuse_from_page([command], [])
    for changed in (
        replace(command, options={**command.options, "argv": ("rm",)}),
        replace(command, name="other"),
        replace(command, rules=("x",)),
    ):
        with pytest.raises(SettingsError, match="a kind that a page may set, found command"):
            refuse_from_page([command], [hook, changed])
    monkeypatch.setenv("CLOUD_KEY", PRIVATE)
    with pytest.raises(SecretError, match="RATIOMETER_"):
        refuse_from_page([], [replace(hook, options={"url": "http://127.0.0.1:1/", "headers": {"X": "env:CLOUD_KEY"}})])


def test_where_it_leads_is_shown_without_secrets(monkeypatch):
    monkeypatch.setenv("HOOK", f"https://example.org/{PRIVATE}")
    assert destination(sink("webhook", url="env:HOOK")).shown == "webhook env:HOOK"
    assert destination(sink("webhook", url="http://127.0.0.1:9/a/b")).shown == "webhook http://127.0.0.1:9/***"
    assert destination(sink("jsonl", path="alerts.jsonl")).shown == "jsonl alerts.jsonl"
    assert PRIVATE not in repr(destination(sink("webhook", url="env:HOOK")))


def broken(kind):
    """A kind of destination that fails with its secret in every place where a library could put it."""

    def send(options, _):
        url = options.text("url")
        logging.getLogger("a.library").error("could not POST %s", url)
        try:
            int(url)
        except ValueError as error:
            if kind is SinkError:
                raise SinkError(f"cannot reach {url}", lasting=True, retry_after_s=7) from error
            raise kind(url) from error

    return Sink(id="broken", title="b", send=send, options=(SinkOption(name="url", what="where", kind=OptionKind.SECRET),))


@pytest.mark.parametrize("kind", [SinkError, ValueError, KeyError, OSError])
def test_a_failure_holds_no_secret_in_any_place(monkeypatch, caplog, kind):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr("monitor.alerts.destination.sink_of", lambda *_: broken(kind))
    monkeypatch.setenv("HOOK", f"https://me:{PRIVATE}@example.org/hook")
    with pytest.raises(SinkError) as failed:
        destination(sink("broken", url="env:HOOK")).tell(EXAMPLE)
    told = "".join(traceback.format_exception(failed.value)) + caplog.text + repr(failed.value)
    assert PRIVATE not in told
    assert "***" in str(failed.value)
    assert "could not POST ***" in caplog.text
    assert failed.value.__cause__ is None
    assert failed.value.__context__ is None, "what is behind it is kept from whoever prints it with all its causes"
    assert (failed.value.lasting, failed.value.retry_after_s) == ((True, 7) if kind is SinkError else (False, None))


def test_a_long_reason_is_cut(monkeypatch):
    noisy = Sink(id="noisy", title="n", send=lambda *_: (_ for _ in ()).throw(SinkError("so\nlong " * 500)))
    monkeypatch.setattr("monitor.alerts.destination.sink_of", lambda *_: noisy)
    with pytest.raises(SinkError) as failed:
        destination(sink("noisy")).tell(EXAMPLE)
    assert len(str(failed.value)) < 320
    assert "\n" not in str(failed.value)


def test_a_secret_that_is_gone_by_then_is_a_failure(monkeypatch):
    monkeypatch.setenv("HOOK", "http://127.0.0.1:1/")
    hook = destination(sink("webhook", url="env:HOOK"))
    monkeypatch.delenv("HOOK")
    with pytest.raises(SinkError, match="the variable HOOK, found none") as failed:
        hook.tell(EXAMPLE)
    assert failed.value.lasting


def test_a_secret_that_is_exchanged_is_used_at_once(monkeypatch):
    with serving() as first, serving() as second:
        monkeypatch.setenv("HOOK", f"http://{first.host}/")
        hook = destination(sink("webhook", url="env:HOOK"))
        hook.tell(EXAMPLE)
        monkeypatch.setenv("HOOK", f"http://{second.host}/")
        hook.tell(EXAMPLE)
        assert len(first.requests) == len(second.requests) == 1


@pytest.mark.parametrize(
    ("address", "kind", "options"),
    [
        ("json://127.0.0.1:9000", "apprise", {"url": "json://127.0.0.1:9000"}),
        ("xml://127.0.0.1:9000", "apprise", {"url": "xml://127.0.0.1:9000"}),
        ("http://127.0.0.1:9000/hook", "webhook", {"url": "http://127.0.0.1:9000/hook"}),
        ("jsonl:alerts/a.jsonl", "jsonl", {"path": "alerts/a.jsonl"}),
        ("jsonl:///var/alerts.jsonl", "jsonl", {"path": "/var/alerts.jsonl"}),
        ("log:", "log", {}),
        ("env:SLACK", "apprise", {"url": "env:SLACK"}),
        ("env:NATIVE", "apprise", {"url": "env:NATIVE"}),
        ("env:HOOK", "webhook", {"url": "env:HOOK"}),
    ],
)
def test_an_address_on_the_command_line(monkeypatch, address, kind, options):
    monkeypatch.setenv("SLACK", "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ")
    monkeypatch.setenv("NATIVE", "https://hooks.slack.com/services/T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ")
    monkeypatch.setenv("HOOK", "https://example.org/hook")
    settings = settings_of(address)
    assert (settings.sink, settings.options) == (kind, options)
    assert settings == settings_of(address), "the same name after a restart"
    assert destination(settings).settings == settings


def test_names_of_two_addresses_differ():
    assert settings_of("json://127.0.0.1:9000").name != settings_of("json://127.0.0.1:9001").name


@pytest.mark.parametrize("address", [PRIVATE, "", ":", "env:TEXT", "env:LINES", "env:NOT_THERE"])
def test_what_is_no_address_is_refused_without_being_repeated(monkeypatch, address):
    monkeypatch.setenv("TEXT", PRIVATE)
    monkeypatch.setenv("LINES", f"jsonl:{PRIVATE}")
    with pytest.raises((SettingsError, SecretError), match="--notify") as refused:
        settings_of(address)
    assert PRIVATE not in str(refused.value)


def test_an_address_that_lets_anybody_write_is_refused():
    with pytest.raises(SecretError, match="lets anybody write there"):
        settings_of("https://hooks.slack.com/services/T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ")


def test_nothing_is_loaded_that_nobody_uses():
    import subprocess
    import sys

    code = (
        "import sys; from monitor.alerts.deliver import Delivery; from monitor.alerts.sink import sinks; sinks(); "
        "print(sorted({name.partition('.')[0] for name in sys.modules} & {'apprise', 'wandb', 'requests', 'torch', 'streamlit'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("foo://bar", "found foo:, which nobody takes"),
        ("command:ls", 'found command:.*rule file: .*sink = "command"'),
        ("resync:/tmp", 'rule file: .*sink = "resync"'),
        ("xoxb9917288812345QwErTyAsDf://x", "found another scheme"),
    ],
)
def test_a_scheme_that_nobody_takes_is_called_that(address, why):
    with pytest.raises(SettingsError, match=why):
        settings_of(address)
