"""A destination that fails again and again is said once, although each answer has other words."""

import itertools
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from monitor.alerts import deliver
from monitor.alerts.store import AlertStore
from monitor.watch.event import EventKind
from tests.monitor.watch.runs import append, ess_rows
from tests.monitor.watch.test_loop import Watching


@pytest.fixture
def refusing():
    """Answers 500 with a body of its own each time."""
    number = itertools.count()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            body = f"request {next(number)} failed".encode()
            self.send_response(500)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", number
        server.shutdown()


def test_the_same_failure_is_said_once_whatever_its_body_says(tmp_path, refusing, monkeypatch):
    address, asked = refusing
    monkeypatch.setattr(deliver, "wait_s", lambda *_: 0.0)
    append(tmp_path / "steps.jsonl", *ess_rows(0, 0.2))
    store = AlertStore(tmp_path / "home" / "alerts.sqlite")
    watching = Watching(store, tmp_path / "steps.jsonl", notify=(address,))
    end = time.monotonic() + 10
    while next(asked) < 6 and time.monotonic() < end:
        watching.look(serve=0.2)
    (said,) = watching.texts(EventKind.FAILED)
    assert "answered 500 Internal Server Error: request" in said
    watching.watcher.close()
    store.close()
