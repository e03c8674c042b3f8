"""A small HTTP endpoint that a training loop polls where it shares no disk with the monitor: GET /resync?run=NAME, POST /taken."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from ingest.errors import ReadError
from monitor.alerts.resync import Places
from monitor.record.resync import ENDPOINT, TAKEN_ENDPOINT, pending, take

_MOST_BYTES = 4096
_PATIENCE_S = 5.0  # with a client that says nothing
_SHOWN = ("run", "episode", "step", "rule", "reason", "asked_at", "signal")
Answer = tuple[HTTPStatus, Mapping[str, Any]]


class EndpointError(ReadError):
    """The endpoint cannot listen where it should."""


class ResyncEndpoint:
    """Answers for every run whose signal lies in `places`, on a thread of its own, until it is closed.

    Args:
        places: where the signals lie.
        host: this machine only by default. Whoever reaches the endpoint can take a signal away, so open it to a trusted network only.
        port: 0 for any that is free.

    Raises:
        EndpointError: the port is taken, or the host is not one of this machine.
    """

    def __init__(self, places: Places, host: str = "127.0.0.1", port: int = 0) -> None:
        try:
            self._server = _Server((host, port), _Handler)
        except (OSError, OverflowError) as failed:
            where, found = f"resync endpoint {host}:{port}", getattr(failed, "strerror", None) or str(failed)
            raise EndpointError(where, expected="a free port", found=found, remedy="Choose another port (--resync-port).") from None
        self._server.places, self._server.asked_as = places, _names(host)
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, name="resync endpoint", daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        """What a trainer asks, up to the run's name: `should_resync(address + "/resync?run=NAME")`."""
        host, port = self._server.server_address[:2]
        return f"http://{host if isinstance(host, str) else host.decode()}:{port}"

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _names(host: str) -> frozenset[str] | None:
    """The names a request may call us by on this machine only; None where any goes, because others are meant to reach us.

    A page in a browser can make its own name lead here; its requests still carry that name.
    """
    try:
        here = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name
        here = False
    return frozenset({"localhost", "127.0.0.1", "[::1]", host}) if here else None


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    places: Places
    asked_as: frozenset[str] | None

    def handle_error(self, *_: object) -> None:
        """A client that goes away in the middle is no news, and a traceback on the screen of a watch is."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = _PATIENCE_S
    server_version, sys_version = "Ratiometer", ""

    def do_GET(self) -> None:
        """Whether a run is asked to resynchronise."""
        asked = urlsplit(self.path)
        if self._refused():
            return
        if asked.path != ENDPOINT:
            self._answer(_wrong(HTTPStatus.NOT_FOUND, f"only GET {ENDPOINT}?run=NAME and POST {TAKEN_ENDPOINT}"))
        else:
            self._answer(_asked(self.server.places, parse_qs(asked.query).get("run", [""])[0]))

    def do_POST(self) -> None:
        """A resync has been done."""
        if self._refused():
            return
        if urlsplit(self.path).path != TAKEN_ENDPOINT:
            self._answer(_wrong(HTTPStatus.NOT_FOUND, f"only GET {ENDPOINT}?run=NAME and POST {TAKEN_ENDPOINT}"))
        elif self.headers.get_content_type() != "application/json":  # a page in a browser could send anything else unasked
            self._answer(_wrong(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Content-Type: application/json"))
        else:
            self._answer(_taken(self.server.places, self._body()))

    def _refused(self) -> bool:
        names = self.server.asked_as
        if names is None or self.headers.get("Host", "").rsplit(":", 1)[0] in names:
            return False
        self._answer(_wrong(HTTPStatus.FORBIDDEN, "a request by the name of this machine"))
        return True

    def _body(self) -> Any:  # noqa: ANN401 - whatever somebody sends
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > _MOST_BYTES:
            return None
        try:
            return json.loads(self.rfile.read(int(length)))
        except ValueError:
            return None

    def _answer(self, answer: Answer) -> None:
        status, said = answer
        body = (json.dumps(said) + "\n").encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """A line per poll would bury everything else."""


def _asked(places: Places, run: str) -> Answer:
    folder = _folder(places, run)
    if folder is None:
        return _wrong(HTTPStatus.BAD_REQUEST, f"run=NAME, one of {', '.join(sorted(places.folders)) or 'the runs that are watched'}")
    try:
        signal = pending(folder)
    except (OSError, ValueError) as failed:
        return _wrong(HTTPStatus.INTERNAL_SERVER_ERROR, f"a signal that can be read ({type(failed).__name__})")
    if signal is None:
        return HTTPStatus.OK, {"resync": False, **_unknown(places, run)}
    return HTTPStatus.OK, {"resync": True, **{name: signal[name] for name in _SHOWN if name in signal}}


def _taken(places: Places, said: Any) -> Answer:  # noqa: ANN401 - whatever somebody sends
    run, signal, step = (said.get(name) for name in ("run", "signal", "step")) if isinstance(said, dict) else (None, None, None)
    folder = _folder(places, run or "") if isinstance(run, (str, type(None))) else None
    if folder is None or not isinstance(step, int) or not isinstance(signal, (str, type(None))):
        return _wrong(HTTPStatus.BAD_REQUEST, '{"run": "NAME", "step": 12}')
    try:
        return HTTPStatus.OK, {"taken": folder.is_dir() and take(folder, signal or "", step), **_unknown(places, run or "")}
    except (OSError, ValueError) as failed:
        return _wrong(HTTPStatus.INTERNAL_SERVER_ERROR, f"a folder that can be written ({type(failed).__name__})")


def _folder(places: Places, run: str) -> Path | None:
    """The place of a run; where only one is watched, it need not be named."""
    if run:
        return places.of(run)
    return next(iter(places.folders.values())) if len(places.folders) == 1 else None


def _unknown(places: Places, run: str) -> dict[str, str]:
    """What to say of a run that is not watched. It is no refusal: a trainer may begin before its log does."""
    known = {*list(places.folders), *list(places.watched)}
    if not run or run in known:
        return {}
    return {"error": f"no run {run!r} is watched so far; those that are: {', '.join(sorted(known)) or 'none'}"}


def _wrong(status: HTTPStatus, expected: str) -> Answer:
    return status, {"resync": False, "error": f"expected {expected}"}
