"""Runs on a wandb server: `wandb:entity/project/run_id`, or `wandb:entity/project` for a project's latest; every row, never a sample.

wandb itself finds the key, in the environment or in netrc; it is never looked at here, and no message of the server's is passed on.
"""

from __future__ import annotations

import importlib
import netrc
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from ingest.errors import ReadError
from ingest.reader import Reader
from ingest.readers._rows import clean
from ingest.readers._wandb_config import described, flat
from ingest.readers._wandb_values import Values
from ingest.run import ProblemKind, RawLog, ReadProblem

SCHEME = "wandb"
MAX_RUNS = 50  # of a project; each is downloaded whole
_PAGE = 1_000  # steps asked for at once
_MOST_PAGES = 200  # runs that count samples or environment steps take larger pages, so that there are no more than this
_TIMEOUT = 30  # seconds for one request
_KEYS = ("WANDB_API_KEY", "WANDB_IDENTITY_TOKEN_FILE")
_NETRC = "NETRC"
_PART = re.compile(r"(?!\.+\Z)[A-Za-z0-9_.-]+\Z")
_FORM = "wandb:entity/project/run_id, or wandb:entity/project for its latest runs"
_PEOPLE = "The id is the last part of the run's URL, not its display name."

_NO_RUN = ("could not find", "not found", "404")
_REFUSED = ("AuthenticationError", "UsageError")
_NO_ANSWER = ("respond", "time", "connect", "no such host", "network", "unreachable")  # said by a login that never reached the server

Progress = Callable[[str], None]


def _objection(_path: Path) -> str | None:
    return f"runs on a server are read by address ({_FORM})"


def _read(path: Path) -> tuple[RawLog, ...]:
    raise ReadError(str(path), expected=_FORM, found="a path", remedy="Give the address.")


def read_address(address: str) -> tuple[RawLog, ...]:
    """Download a run, or the latest of a project, with progress on a terminal.

    Raises:
        ReadError: no such address, wandb is not installed or not logged in, the server cannot be reached, or there is no such run.
    """
    entity, project, *run_id = parts_of(address)
    api = client(address)
    progress = _on_terminal if sys.stderr.isatty() else _nowhere
    notes: list[ReadProblem] = []
    if run_id:
        runs = [asked(address, lambda: api.run(f"{entity}/{project}/{run_id[0]}"))]
    else:
        runs, notes = latest(address, api, f"{entity}/{project}")
    first, *others = [_run(address, run, f"{SCHEME}:{entity}/{project}/{run.id}", progress) for run in runs]
    return (replace(first, problems=(*notes, *first.problems)), *others)


def addresses(address: str) -> tuple[str, ...]:
    """The address of each run that an address stands for.

    Raises:
        ReadError: as `read_address`.
    """
    entity, project, *run_id = parts_of(address)
    if not run_id:
        run_id = [run.id for run in latest(address, client(address), f"{entity}/{project}")[0]]
    return tuple(f"{SCHEME}:{entity}/{project}/{each}" for each in run_id)


def parts_of(address: str) -> list[str]:
    """Entity, project and perhaps run of an address; the path of a run's page has `runs` between them.

    Raises:
        ReadError: it has another shape.
    """
    parts = address.removeprefix(f"{SCHEME}:").strip("/").split("/")
    parts = [*parts[:2], *parts[3:]] if parts[2:3] == ["runs"] else parts
    if len(parts) not in (2, 3) or not all(_PART.match(part) for part in parts):
        raise ReadError(address[:200], expected=_FORM, found="another shape", remedy=_PEOPLE)
    return parts


def client(address: str) -> Any:  # noqa: ANN401 - wandb is known only once it is imported
    """The client; wandb would ask for a key on the terminal, so it is not called where there is none.

    Raises:
        ReadError: wandb is missing, or there is no key.
    """
    try:
        wandb = importlib.import_module("wandb")
    except ImportError:
        raise ReadError(address, expected="the package wandb", found="none", remedy="Install it: pip install wandb.") from None
    if not _is_logged_in():
        found, remedy = "none in WANDB_API_KEY or netrc", "Log in on this machine first: wandb login."
        raise ReadError(address, expected="a key for wandb", found=found, remedy=remedy)
    return asked(address, lambda: wandb.Api(timeout=_TIMEOUT))


def _is_logged_in() -> bool:
    if any(os.environ.get(name) for name in _KEYS):
        return True
    path = os.environ.get(_NETRC) or next((str(Path.home() / name) for name in (".netrc", "_netrc") if (Path.home() / name).is_file()), "")
    try:
        return bool(path and netrc.netrc(path).hosts)
    except (OSError, netrc.NetrcParseError):
        return False


def latest(address: str, api: Any, path: str) -> tuple[list[Any], list[ReadProblem]]:  # noqa: ANN401
    """The latest runs of a project, and what to say where there are more."""
    found = asked(address, lambda: list(islice(api.runs(path, order="-created_at"), MAX_RUNS + 1)))
    if not found:
        raise ReadError(address, expected="a project with runs", found="none", remedy="Check entity and project.")
    if len(found) <= MAX_RUNS:
        return found, []
    what = f"the project has more runs than the latest {MAX_RUNS}, which are read; name a run to read another"
    return found[:MAX_RUNS], [ReadProblem(path=address, place="", what=what, kind=ProblemKind.NOTE)]


def _run(address: str, run: Any, path: str, progress: Progress) -> RawLog:  # noqa: ANN401
    """One run, downloaded page by page."""
    name = clean(str(run.name or run.id))
    values = Values()
    for number, row in enumerate(pages(address, run, report=lambda row: progress(f"wandb: {name[:60]}: {row:,} rows")), start=1):
        values.take_row(row, f"row {number}")
    progress("")
    return log_of(address, run, path, values)


def log_of(address: str, run: Any, path: str, values: Values) -> RawLog:  # noqa: ANN401
    """What was downloaded of a run as a log."""
    config, said = flat(asked(address, lambda: dict(run.config)), path)
    scalars = values.table()
    about = {"id": run.id, "project": getattr(run, "project", ""), "job_type": getattr(run, "job_type", ""), "state": run.state}
    return RawLog(
        name=clean(str(run.name or run.id)),
        path=path,
        container=READER.id,
        scalars=scalars,
        config=described(config, group=str(getattr(run, "group", "") or ""), **{key: str(value or "") for key, value in about.items()}),
        problems=(*values.problems(path), *values.rows.repeated(path), *said, *_state(path, run.state)),
    )


def pages(
    address: str,
    run: Any,  # noqa: ANN401
    *,
    since: int = 0,
    report: Callable[[int], None] = lambda _row: None,
) -> Iterator[dict[str, Any]]:
    """Every row from a step on: `scan_history` asks for a range of steps at a time, `history` would give a sample of 500 rows."""
    last = asked(address, lambda: run.lastHistoryStep)
    page = max(_PAGE, (int(last) - since) // _MOST_PAGES + 1)
    first = {"min_step": since} if since else {}
    rows = asked(address, lambda: iter(run.scan_history(page_size=page, **first)))
    end = object()
    for number in range(sys.maxsize):
        row = asked(address, lambda: next(rows, end))
        if row is end:
            return
        if number % _PAGE == 0:
            report(number)
        yield row


def _state(path: str, state: object) -> Iterable[ReadProblem]:
    if state == "running":
        what = "the run has not ended: there will be more than was read now"
        yield ReadProblem(path=path, place="", what=what, kind=ProblemKind.NOTE)


def asked(address: str, question: Callable[[], Any]) -> Any:  # noqa: ANN401
    """Ask wandb something; whatever it raises becomes a sentence of ours, for its own may quote what was sent.

    Raises:
        ReadError: it did raise.
    """
    try:
        return question()
    except Exception as error:  # noqa: BLE001 - wandb raises what its layers raise
        kind, text = type(error).__name__, str(error).lower()
    raise _sentence(address, kind, text)


def _sentence(address: str, kind: str, text: str) -> ReadError:
    if kind == "RunNotFoundError" or any(word in text for word in _NO_RUN):
        found, remedy = "none that this key may see", f"Check entity, project and id. {_PEOPLE}"
        return ReadError(address, expected="a run", found=found, remedy=remedy)
    if kind in _REFUSED and not any(word in text for word in _NO_ANSWER):
        found, remedy = "one that it refused, or none", "Log in again (wandb login --relogin), or set WANDB_API_KEY."
        return ReadError(address, expected="a key that wandb takes", found=found, remedy=remedy)
    found, remedy = f"none that could be used ({kind})", "Check the network, and WANDB_BASE_URL where the server is your own."
    return ReadError(address, expected="an answer of the wandb server", found=found, remedy=remedy)


def _on_terminal(text: str) -> None:
    sys.stderr.write(f"\r\033[K{text}")
    sys.stderr.flush()


def _nowhere(_text: str) -> None:
    return


READER = Reader(
    id="wandb_api", title="run on a wandb server", objection=_objection, read=_read, schemes=(SCHEME,), read_address=read_address
)
