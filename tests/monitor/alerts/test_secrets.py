"""Secrets: from the environment or a private file, and shown nowhere."""

import json
import logging
import os
import pickle
import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.alerts.masking import masker, secret_parts, shown
from monitor.alerts.quiet import quiet
from monitor.alerts.secrets import Origin, Secret, SecretError, secret

PRIVATE = "xoxb-99172-QwErTyAsDf"


def private(path, content=PRIVATE + "\n", mode=0o600):
    path.write_text(content)
    path.chmod(mode)
    return f"file:{path}"


def test_from_the_environment(monkeypatch):
    monkeypatch.setenv("SLACK", PRIVATE)
    assert secret("env:SLACK", "url").reveal() == PRIVATE


@pytest.mark.parametrize("text", ["env:NOT_THERE", "env:", "env:a b", "env:$(id)"])
def test_a_variable_that_is_not_there(text):
    with pytest.raises(SecretError, match="variable"):
        secret(text, "url")


def test_an_empty_variable_is_none(monkeypatch):
    monkeypatch.setenv("SLACK", "")
    with pytest.raises(SecretError, match="export SLACK"):
        secret("env:SLACK", "url")


def test_from_a_private_file(tmp_path):
    assert secret(private(tmp_path / "token"), "url").reveal() == PRIVATE
    assert secret(private(tmp_path / "read", mode=0o400), "url").reveal() == PRIVATE


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660, 0o610, 0o777])
def test_a_file_that_others_may_read_is_refused_with_its_mode(tmp_path, mode):
    with pytest.raises(SecretError, match=rf"mode 600, found mode {mode:o}") as refused:
        secret(private(tmp_path / "token", mode=mode), "url")
    assert PRIVATE not in str(refused.value)


def test_a_link_counts_as_what_it_leads_to(tmp_path):
    private(tmp_path / "open", mode=0o644)
    (tmp_path / "link").symlink_to(tmp_path / "open")
    with pytest.raises(SecretError, match="found mode 644"):
        secret(f"file:{tmp_path / 'link'}", "url")


def test_what_is_no_file_with_one_line_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe", 0o600)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "binary").chmod(0o600)
    for text, why in (
        (f"file:{tmp_path / 'pipe'}", "no plain file"),
        (f"file:{tmp_path}", "no plain file"),
        (f"file:{tmp_path / 'none'}", "No such file"),
        (f"file:{tmp_path / 'binary'}", "one line"),
        (private(tmp_path / "empty", ""), "one line"),
        (private(tmp_path / "long", "x" * 70_000), "one line"),
        (private(tmp_path / "two", "Bearer x\nX-Other: y"), "line break"),
    ):
        with pytest.raises(SecretError, match=why):
            secret(text, "url")


def test_a_page_names_only_variables_that_are_meant_for_it(monkeypatch, tmp_path):
    monkeypatch.setenv("CLOUD_KEY", PRIVATE)
    monkeypatch.setenv("RATIOMETER_SLACK", PRIVATE)
    for text in ("env:CLOUD_KEY", private(tmp_path / "token")):
        with pytest.raises(SecretError, match="RATIOMETER_"):
            secret(text, "url", Origin.PAGE)
    assert secret("env:RATIOMETER_SLACK", "url", Origin.PAGE).reveal() == PRIVATE


def test_a_secret_shows_itself_to_nobody():
    kept = Secret(PRIVATE)
    assert PRIVATE not in f"{kept} {kept!r} {kept!s} {[kept]} {vars(Secret)}"
    with pytest.raises(TypeError):
        pickle.dumps(kept)
    with pytest.raises(TypeError):
        json.dumps(kept)


@pytest.mark.parametrize(
    "address",
    [
        "json://127.0.0.1:9000",
        "json://localhost/hook/alerts",
        "https://alerts.example.org/v1/incoming?run=a",
        "mailto://relay.example.org",
        "log:",
    ],
)
def test_an_address_without_secrets_may_stand_in_the_open(address):
    assert secret(address, "url").reveal() == address


@pytest.mark.parametrize(
    "address",
    [
        "json://me:hunter2@127.0.0.1:9000",
        "https://example.org/hook?token=abc",
        "json://127.0.0.1/?+Authorization=Bearer%20abc",
        "https://hooks.slack.com/services/T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ",
        "https://discord.com/api/webhooks/4174216298/JHMHI8qBe7bk2ZwO5U711o3dV_js",
        "https://example.org/9f86d081-884c-7d65-9a2f-eaa0c55ad015",
        "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ",
        "tgram://123456789:abcdefg_hijklmnop/12315544",
        "ntfy://topic",
        "just-a-token",
    ],
)
def test_an_address_with_a_secret_may_not(address):
    with pytest.raises(SecretError, match="in the open") as refused:
        secret(address, "url")
    assert "env:NAME" in str(refused.value)
    for part in ("hunter2", "abc", "TIiajkdnlazkcOXrIdevi7FQ", "JHMHI8q", "9f86d081", "abcdefg", "topic", "just-a-token"):
        assert part not in str(refused.value)


@pytest.mark.parametrize(
    ("address", "seen"),
    [
        ("json://127.0.0.1:9000", "json://127.0.0.1:9000"),
        ("json://me:hunter2@127.0.0.1:9000/x?a=b", "json://***@127.0.0.1:9000/***?***"),
        ("https://hooks.slack.com/services/T1/A1/TI", "https://hooks.slack.com/***"),
        ("slack://T1JJ3T3L2/A1BRTD4JD/TI", "slack://***"),
        ("mailto://me:hunter2@example.org", "mailto://***@example.org"),
        ("hunter2", "***"),
        ("hun:ter2", "hun://***"),
        ("https://[hunter2", "https://***"),
        ("log:", "log:"),
    ],
)
def test_how_an_address_is_shown(address, seen):
    assert shown(address) == seen


def test_every_form_of_a_secret_is_taken_out():
    mask = masker(["json://me:pa%2Fss%20word@example.org/s3cr3t/path?+X-Key=k%C3%A9y123&plain=va lue", "Bearer abcdef123", "abc"])
    said = (
        "pa/ss word pa%2Fss%20word pa%2Fss+word bWU6cGEvc3Mgd29yZA== POST /s3cr3t/path kéy123 k%C3%A9y123 va%20lue "
        "Authorization: abcdef123 'Bearer abcdef123' abc abcde"
    )
    masked = mask(said)
    for piece in ("pa/ss", "pa%2F", "bWU6", "s3cr3t", "kéy123", "k%C3", "va%20lue", "abcdef123", " abc "):
        assert piece not in masked
    assert masked.endswith("*** abcde"), "a short secret is no part of a longer word"
    assert masker([])("text") == "text"


@given(st.text(st.characters(exclude_characters="*"), min_size=6).filter(lambda text: text.strip()), st.text(), st.text())
def test_a_secret_is_never_left(hidden, before, after):
    assert hidden not in masker([hidden])(f"{before}{hidden}{after}")


def test_a_secret_of_bytes_that_are_no_text_is_taken_out():
    odd = b"s3cr3t\xff\xfe".decode(errors="surrogateescape")  # as Python reads a variable of the environment
    assert masker([f"https://me:{odd}@host/x"])(f"a {odd} b") == "a *** b"


@given(st.text(st.characters(codec="utf-8"), min_size=1))
def test_any_text_can_be_looked_at(text):
    assert isinstance(shown(text), str)
    assert isinstance(secret_parts(text), str)
    masker([text])(text)


def test_log_records_of_any_library_are_cleared(caplog):
    caplog.set_level(logging.DEBUG)
    other = logging.getLogger("some.library")
    with quiet(masker([PRIVATE])):
        other.debug("POST /services/%s HTTP/1.1", PRIVATE)
        try:
            int(PRIVATE)
        except ValueError:
            other.exception("it failed", stack_info=True)
    assert "POST /services/***" in caplog.text
    assert "invalid literal for int() with base 10: '***'" in caplog.text
    assert PRIVATE not in caplog.text
    other.warning("afterwards %s", PRIVATE)
    assert PRIVATE in caplog.text, "only while something is sent"


def test_the_parts_of_an_error_hold_no_secret(monkeypatch):
    monkeypatch.setenv("HOOK", f"{PRIVATE}\x07")
    with pytest.raises(SecretError, match="control character") as refused:
        secret("env:HOOK", "url")
    assert PRIVATE not in "".join(traceback.format_exception(refused.value))
