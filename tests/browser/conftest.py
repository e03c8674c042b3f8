"""The dashboard as a process of its own, and a Chromium that may talk to nothing else."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
SHOTS = Path(__file__).parent / "shots"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--no-first-run",
    "--disable-component-update",
    "--disable-sync",
]
START_S, WAIT_MS = 40, 30_000
PROBE = re.compile(r"/(upload|compare|runs|findings|migration|what_if|alerts)/_stcore/")
IDLE = "[data-testid=stApp][data-test-script-state=notRunning]"


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """Address of a running dashboard with an empty upload store."""
    with serving(tmp_path_factory.mktemp("server"), tmp_path_factory.mktemp("home")) as address:
        yield address


@contextmanager
def serving(folder, home, *arguments):
    """A dashboard as a process: its log in a folder, its store in another, opened on some paths."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = folder / "log.txt"
    command = [
        sys.executable,
        "-m",
        "streamlit",
        "run",
        "app.py",
        "--server.headless",
        "true",
        "--server.port",
        str(port),
        "--",
        *arguments,
    ]
    env = os.environ | {"RATIOMETER_HOME": str(home)}
    with log.open("wb") as out, subprocess.Popen(command, cwd=ROOT, env=env, stdout=out, stderr=out) as process:
        try:
            _wait_until_ok(f"http://127.0.0.1:{port}/_stcore/health", process, log)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
    assert "Traceback" not in log.read_text()


def _wait_until_ok(address, process, log):
    until = time.monotonic() + START_S
    while time.monotonic() < until and process.poll() is None:
        try:
            with urllib.request.urlopen(address, timeout=1) as answer:  # noqa: S310 our own address
                if answer.read() == b"ok":  # unknown paths answer 200 as well
                    return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    pytest.fail(f"the dashboard did not start: {log.read_text()}")


@pytest.fixture(scope="session")
def chromium():
    """One browser for all tests."""
    if CHROMIUM is None:
        pytest.fail("no Chromium found; on Debian: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium, server):
    """Open a path of the dashboard; at the end no request may have left this machine, and the console must be clean."""
    contexts, complaints, strangers = [], [], []

    def open_path(path="/", *, width=1440, height=900, scheme="light") -> Page:
        context = chromium.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        contexts.append(context)
        context.route("**/*", lambda route: _only_here(route, strangers))
        page = context.new_page()
        page.set_default_timeout(WAIT_MS)
        page.on("console", lambda line: complaints.append(f"{line.text} {line.location['url']}") if _tells(line) else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(server + path)
        settle(page)
        return page

    yield open_path
    for context in contexts:
        context.close()
    assert strangers == []
    assert not complaints, complaints


def _tells(line):
    """Warnings and errors, but for the one that Streamlit makes itself: at the address of a page it looks for its server below it first."""
    return line.type in {"error", "warning"} and not PROBE.search(line.location["url"])


def _only_here(route, strangers):
    if urlsplit(route.request.url).hostname in {"127.0.0.1", None}:
        route.continue_()
    else:
        strangers.append(route.request.url)
        route.abort()


def settle(page):
    """Wait until the script has run and the browser has drawn."""
    page.wait_for_selector(IDLE)
    page.wait_for_timeout(150)
    page.wait_for_selector(IDLE)
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def shot(page, name):
    """A picture of the whole page, for a person to look at."""
    SHOTS.mkdir(exist_ok=True)
    size = page.viewport_size
    tall = page.evaluate("document.querySelector('[data-testid=stMain]').scrollHeight")
    page.set_viewport_size({"width": size["width"], "height": max(tall, size["height"])})
    settle(page)
    page.screenshot(path=SHOTS / f"{name}.png")
    page.set_viewport_size(size)
