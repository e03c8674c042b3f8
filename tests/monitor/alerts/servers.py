"""Real HTTP servers on this machine: one that answers what it is told to, one that never does, and a port at which nobody listens."""

import json
import socket
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Request:
    method: str
    path: str
    headers: dict
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)


@dataclass
class Served:
    port: int
    requests: list[Request] = field(default_factory=list)
    arrived: threading.Event = field(default_factory=threading.Event)

    @property
    def host(self):
        return f"127.0.0.1:{self.port}"


@contextmanager
def serving(*answers, headers=(), body=b"ok"):
    """Answers with these codes, the last one from then on; 200 where none is given."""
    codes, lock = list(answers) or [200], threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def handle_any(self):
            content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            with lock:
                served.requests.append(Request(self.command, self.path, dict(self.headers), content))
                code = codes.pop(0) if len(codes) > 1 else codes[0]
            self.send_response(code)
            for name, value in headers:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            served.arrived.set()

        do_GET = do_POST = do_PUT = do_PATCH = handle_any  # noqa: N815 - the server looks for these names

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    served = Served(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def hanging():
    """Takes connections and never says anything; the event ends its silence, and each connection with it."""
    listener, taken, over = socket.create_server(("127.0.0.1", 0)), [], threading.Event()
    listener.settimeout(0.05)

    def take():
        while not over.is_set():
            try:
                taken.append(listener.accept()[0])
            except TimeoutError:
                continue
        for connection in taken:
            connection.close()

    thread = threading.Thread(target=take, daemon=True)
    thread.start()
    served = Served(listener.getsockname()[1])
    served.requests, served.arrived = taken, over
    try:
        yield served
    finally:
        over.set()
        thread.join()
        listener.close()


def refused_port():
    """A port at which nobody listens; the system gave it out a moment ago, and gives it out again last."""
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        return asked.getsockname()[1]
