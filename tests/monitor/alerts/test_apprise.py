"""What apprise delivers for us: a JSON body that a program can read, and its own services behind an address that is never shown."""

import logging
import math
import socketserver
import threading
import traceback
from base64 import b64decode
from dataclasses import replace
from email import message_from_bytes
from email.header import decode_header, make_header
from xml.etree import ElementTree as ET

import pytest

from monitor.alerts.destination import destination
from monitor.alerts.fields import EXAMPLE, fields
from monitor.alerts.notification import Kind
from monitor.alerts.policy import SinkSettings
from monitor.alerts.rule import Severity
from monitor.alerts.sink import SettingsError, SinkError
from monitor.alerts.sinks.apprise import _overheard
from tests.monitor.alerts.servers import refused_port, serving

PRIVATE = "xoxb-99172-QwErTyAsDf"
TOLD = replace(
    EXAMPLE, rule="ess.lag.token", run="v1-broken", step=31, value=0.48, severity=Severity.CRITICAL, text="ESS < 0.5: resync & go"
)


def told_to(url, notification=TOLD):
    destination(SinkSettings(name="mine", sink="apprise", options={"url": url})).tell(notification)


def test_json_carries_rule_state_run_step_and_value():
    with serving() as hook:
        told_to(f"json://{hook.host}")
        told_to(f"json://{hook.host}/path", replace(TOLD, kind=Kind.RESOLVED, value=0.61))
        told_to(f"json://{hook.host}", replace(TOLD, kind=Kind.NAN, value=math.nan, step=None))
    firing, resolved, nan = (request.json for request in hook.requests)
    for said, told in ((firing, TOLD), (resolved, replace(TOLD, kind=Kind.RESOLVED, value=0.61))):
        assert said.items() >= fields(told).items()
    assert (firing["rule"], firing["state"], firing["run"], firing["step"], firing["value"]) == (
        "ess.lag.token",
        "firing",
        "v1-broken",
        31,
        0.48,
    )
    assert (resolved["state"], resolved["value"], nan["state"], nan["value"], nan["step"]) == ("resolved", 0.61, "nan", None, None)
    assert (firing["message"], firing["type"], resolved["type"]) == ("ESS < 0.5: resync & go", "failure", "success")
    assert [request.path for request in hook.requests] == ["/", "/path", "/"]
    assert {request.headers["Content-Type"] for request in hook.requests} == {"application/json"}


def test_all_that_an_address_of_apprise_says_holds(monkeypatch):
    with serving() as hook:
        monkeypatch.setenv("HOOK", f"json://me:{PRIVATE}@{hook.host}/?method=PUT&+X-Team=rl&:team=rl&:message=said&-q=1")
        told_to("env:HOOK")
        (got,) = hook.requests
    assert b64decode(got.headers["Authorization"].removeprefix("Basic ")).decode() == f"me:{PRIVATE}"
    assert (got.method, got.headers["X-Team"], got.path) == ("PUT", "rl", "/?q=1")
    assert (got.json["team"], got.json["said"], got.json["rule"]) == ("rl", "ESS < 0.5: resync & go", "ess.lag.token")


def test_another_of_its_services():
    with serving() as hook:
        told_to(f"xml://{hook.host}")
        (got,) = hook.requests
    assert "ESS < 0.5: resync & go" in "".join(ET.fromstring(got.body).itertext())  # noqa: S314 - apprise wrote it


@pytest.mark.parametrize("code", [404, 500])
def test_why_it_failed_is_said_without_secrets(monkeypatch, caplog, capfd, code):
    caplog.set_level(logging.DEBUG)
    with serving(code) as hook:
        monkeypatch.setenv("HOOK", f"json://me:{PRIVATE}@{hook.host}/{PRIVATE}x/?+X-Key={PRIVATE}y")
        with pytest.raises(SinkError, match=f"error={code}") as failed:
            told_to("env:HOOK")
    assert PRIVATE in hook.requests[0].path, "it was sent"
    told = "".join(traceback.format_exception(failed.value)) + caplog.text + "".join(capfd.readouterr())
    assert PRIVATE not in told
    assert f'/***/ HTTP/1.1" {code}' in caplog.text.replace("/***?", "/***/?"), "the HTTP client did log the address"


def test_where_nobody_listens(monkeypatch, caplog):
    monkeypatch.setenv("HOOK", f"json://me:{PRIVATE}@127.0.0.1:{refused_port()}/")
    with pytest.raises(SinkError, match=r"Connection error.*127\.0\.0\.1"):
        told_to("env:HOOK")
    assert "Connection error" not in caplog.text, "said once, by whoever catches it"


def test_what_apprise_says_elsewhere_is_left_alone(caplog):
    said = logging.getLogger("apprise").warning
    with _overheard() as heard:
        said("of this try")
        other = threading.Thread(target=said, args=("of somebody else",))
        other.start()
        other.join()
    assert heard == ["of this try"]
    assert caplog.messages == ["of somebody else"]
    assert not logging.getLogger("apprise").filters


def test_an_address_that_it_does_not_know(monkeypatch):
    monkeypatch.setenv("HOOK", f"carrierpigeon://{PRIVATE}")
    with pytest.raises(SettingsError, match="an address that apprise knows") as refused:
        told_to("env:HOOK")
    assert PRIVATE not in str(refused.value)


class Mailbox(socketserver.StreamRequestHandler):
    """As much of SMTP as one message takes."""

    def handle(self):
        self.wfile.write(b"220 here\r\n")
        for line in self.rfile:
            word = line.split()[0].upper()
            self.wfile.write(b"354 go on\r\n" if word == b"DATA" else b"250 ok\r\n")
            if word == b"DATA":
                self.server.mails.append(b"".join(iter(self.rfile.readline, b".\r\n")))
                self.wfile.write(b"250 taken\r\n")
            if word == b"QUIT":
                return


def test_e_mail():
    with socketserver.TCPServer(("127.0.0.1", 0), Mailbox) as server:
        server.mails = []
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        told_to(f"mailto://127.0.0.1:{server.server_address[1]}?from=watch@example.org&to=me@example.org")
        thread.join()
    mail = message_from_bytes(server.mails[0])
    assert "ess.lag.token in v1-broken" in str(make_header(decode_header(mail["Subject"])))
    assert mail.get_content_type() == "text/plain", "a text is not taken for HTML"
    assert mail.get_payload(decode=True).strip() == b"ESS < 0.5: resync & go"
