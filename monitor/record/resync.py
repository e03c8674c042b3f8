"""Whether somebody asks the trainer to load its newest weights into the generator now; needs only the standard library.

The monitor writes `resync.json` into the run's folder, the trainer `resync.taken.json`: each file has one writer, so that neither can
undo what the other says. Where they share no disk, the same is asked over HTTP. What a trainer calls never raises.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit
from urllib.request import ProxyHandler, Request, build_opener

ASKED, TAKEN = "resync.json", "resync.taken.json"
ENDPOINT, TAKEN_ENDPOINT = "/resync", "/taken"
VARIABLE = "RATIOMETER_RESYNC"  # where to ask, for a trainer that is not told otherwise
_TIMEOUT_S = 0.5  # an endpoint on this machine answers in a millisecond
_SILENT_S = 30.0  # so long an endpoint that did not answer is left alone: waiting for it each step would cost more than it can tell
_MOST_BYTES = 2**18  # each rule that asks takes some 500
_OPENER = build_opener(ProxyHandler({}))  # a proxy of the cluster has no business between a trainer and its monitor

log = logging.getLogger(__name__)

_seen: dict[str, str] = {}  # where -> the signal that was answered with yes last
_silent_until: dict[str, float] = {}  # where -> when an endpoint is asked again, on the monotonic clock
_complained: set[str] = set()


def should_resync(run: Path | str | None = None) -> bool:
    """Whether a resync is asked for and not yet taken. Cheap enough to be called each step.

    Where several ranks train, let one ask and broadcast the answer: between two calls it may change.

    Args:
        run: the run's folder, or `http://HOST:PORT/resync?run=NAME`; what RATIOMETER_RESYNC says where not given.

    Returns:
        False as well where nothing can be read: a monitor that is gone must not stop a training.
    """
    if not (where := _where(run)):
        return False
    try:
        asked = _get(where) if _is_address(where) else pending(Path(where).expanduser())
    except Exception as failed:  # noqa: BLE001 - whatever it is, the training goes on
        _complain(where, failed)
        return False
    if asked is None:
        return False
    _seen[where] = signal_id(asked)
    return True


def resync_taken(run: Path | str | None, step: int) -> bool:
    """Say that the resync which `should_resync` asked for has been done; it is not asked for again.

    Args:
        run: as given to `should_resync`.
        step: the optimizer step after which the generator has the newest weights.

    Returns:
        Whether that could be written down; if not, the same resync is asked for once more.
    """
    if not (where := _where(run)):
        return False
    try:
        signal = _seen.get(where, "")
        return _post(where, signal, step) if _is_address(where) else take(Path(where).expanduser(), signal, step)
    except Exception as failed:  # noqa: BLE001 - as above
        _complain(where, failed)
        return False


def pending(folder: Path) -> dict[str, Any] | None:
    """The signal in a folder that nobody has taken yet."""
    asked = read_asked(folder)
    if asked is None:
        return None
    said = (_read(folder / TAKEN) or {}).get("signal")
    taken = {said, *said.split()} if isinstance(said, str) else set()
    left = [each for each in askings(asked) if signal_id(each) not in taken]
    return {**left[-1], "signal": signal_id(asked)} if left else None


def read_asked(folder: Path) -> dict[str, Any] | None:
    """The signal in a folder, taken or not."""
    asked = _read(folder / ASKED)
    return asked if asked is not None and "episode" in asked else None


def askings(asked: dict[str, Any]) -> list[dict[str, Any]]:
    """What each rule asks that is in a signal, the latest last; a signal that does not list them is one itself."""
    listed = asked.get("asking")
    found = [each for each in listed if isinstance(each, dict) and "episode" in each] if isinstance(listed, list) else []
    return found or [asked]


def take(folder: Path, signal: str, step: int) -> bool:
    """Mark a signal as taken; the one that is there where none is named. False where there is none."""
    if not signal:
        asked = read_asked(folder)
        if asked is None:
            return False
        signal = signal_id(asked)
    write_whole(folder / TAKEN, {"signal": signal, "step": int(step), "taken_at": time.time()})
    return True


def signal_id(asked: dict[str, Any]) -> str:
    """What tells two signals apart: the same one written again asks no second time. That of several askings names each of them."""
    said = asked.get("signal")
    return said if isinstance(said, str) and said else f"{asked['episode']}@{asked.get('step')}"


def write_whole(path: Path, content: dict[str, Any]) -> None:
    """Write beside and rename: a reader sees the old file or the new one, never half of one."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.writing")
    try:
        with beside.open("w", encoding="utf-8") as file:
            json.dump(content, file)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def _read(path: Path, default: dict[str, Any] | None = None) -> dict[str, Any] | None:
    """A JSON object, or the default where there is none; each is written whole, so what is none was not written by us."""
    try:
        with path.open("rb") as file:
            said = json.loads(file.read(_MOST_BYTES))
    except FileNotFoundError:
        return default
    return said if isinstance(said, dict) else default


def _where(run: Path | str | None) -> str:
    return os.environ.get(VARIABLE, "") if run is None else str(run)


def _is_address(where: str) -> bool:
    return where.startswith(("http://", "https://"))


def _get(where: str) -> dict[str, Any] | None:
    if time.monotonic() < _silent_until.get(where, 0.0):
        return None
    try:
        said = _answer(Request(_at(where, ENDPOINT)))  # noqa: S310 - http or https, see _is_address
    except Exception:
        _silent_until[where] = time.monotonic() + _SILENT_S
        raise
    if said and "error" in said:
        _complain(where, said["error"])
    return said if said and said.get("resync") is True and "episode" in said else None


def _post(where: str, signal: str, step: int) -> bool:
    run = dict(parse_qsl(urlsplit(where).query)).get("run", "")
    body = json.dumps({"run": run, "signal": signal, "step": int(step)}).encode()
    asked = Request(_at(where, TAKEN_ENDPOINT), data=body, headers={"Content-Type": "application/json"}, method="POST")  # noqa: S310
    said = _answer(asked)
    return bool(said and said.get("taken") is True)


def _answer(request: Request) -> dict[str, Any] | None:
    with _OPENER.open(request, timeout=_TIMEOUT_S) as answer:
        said = json.loads(answer.read(_MOST_BYTES))
    return said if isinstance(said, dict) else None


def _at(where: str, path: str) -> str:
    """The address with the endpoint's path; the run stays in the query."""
    parts = urlsplit(where)
    base = parts.path.rstrip("/").removesuffix(ENDPOINT)
    return urlunsplit((parts.scheme, parts.netloc, base + path, urlencode(parse_qsl(parts.query)), ""))


def _complain(where: str, failed: object) -> None:
    """Say it once per place: a line each step would bury the training's own."""
    if where not in _complained:
        _complained.add(where)
        log.warning("the resync signal at %s cannot be used (%s); training goes on without it", where, failed)
