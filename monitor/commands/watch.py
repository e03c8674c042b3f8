"""`python -m monitor watch PATH…`: rules over runs while they train; whoever should know is told, once."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import localtime, strftime
from types import FrameType

from ingest.errors import RatiometerError
from ingest.user_mapping import read_mapping
from monitor.alerts.policy import Policy, RuleKind, Severity
from monitor.alerts.resync import places
from monitor.alerts.resync_endpoint import ResyncEndpoint
from monitor.alerts.rule_file import RuleFile
from monitor.alerts.store import AlertStore
from monitor.commands._command import FOUND, OK, Command, Document, dump, progress, reading_arguments
from monitor.commands._references import references
from monitor.watch.event import Event, EventKind
from monitor.watch.loop import Options, Watcher

_LEAST_POLL_S = 0.05


class NothingToWatch(RatiometerError):  # noqa: N818  it is an answer as much as an error
    """Nothing at any of the paths could be read in the one look that was asked for."""


def _arguments(parser: argparse.ArgumentParser) -> None:
    where = "a log, a run folder, a folder of runs, or wandb:entity/project[/run]; it may come later"
    rules = "rules, destinations and the resync signal (docs/alerts.md); else those of the Alerts page, else those that are shipped"
    port = "answer trainers that ask whether to resynchronise, on this port of this machine (docs/sinks.md)"
    parser.add_argument("path", nargs="+", metavar="PATH", help=where)
    parser.add_argument("--rules", type=Path, metavar="FILE", help=rules)
    parser.add_argument("--notify", action="append", metavar="URL", default=[], help="a destination, as often as wanted (docs/sinks.md)")
    parser.add_argument("--poll", type=_seconds, metavar="SECONDS", help="between two looks; 1 unless the rules say otherwise")
    parser.add_argument("--once", action="store_true", help="look once, tell what is to be told, and end; exit 1 where anything fires")
    parser.add_argument("--reference", nargs="+", type=Path, metavar="PATH", default=[], help="runs that some rules compare with")
    parser.add_argument("--resync-port", type=int, metavar="N", help=port)
    reading_arguments(parser)


def _run(given: argparse.Namespace) -> tuple[int, Document, str]:
    rules = RuleFile(given.rules, partial(_adapted, given))
    policy = rules.policy
    frames = tuple(frame for _, frame in references(given.reference, given).values())
    mapping = read_mapping(given.map) if given.map else None
    options = Options(
        notify=tuple(given.notify),
        references=frames,
        poll_s=given.poll,
        dialect=given.dialect,
        mapping=mapping,
        rules=rules,
        progress=progress("steps") if sys.stderr.isatty() else None,
    )
    with ExitStack() as stack:
        store = AlertStore()
        stack.callback(store.close)
        watcher = Watcher(given.path, policy, store, _say_json if given.json else _say_text, options)
        stack.callback(watcher.close)
        if policy.resync.port:
            stack.enter_context(ResyncEndpoint(places(policy.resync, watcher.folders), policy.resync.host, policy.resync.port))
        if given.once:
            return _once(watcher)
        with suppress(KeyboardInterrupt), _ended_by(signal.SIGTERM):
            watcher.run()
    return OK, {}, ""


def _once(watcher: Watcher) -> tuple[int, Document, str]:
    firing = watcher.once()
    if not watcher.runs:
        raise NothingToWatch(f"no value came from any of the paths. {' '.join(watcher.wrong)}")
    return (FOUND if firing else OK), {}, ""


def _adapted(given: argparse.Namespace, policy: Policy) -> Policy:
    """The rules as they are read; a port on the command line also says which of them ask for a resync, if none does."""
    if given.resync_port is None:
        return policy
    critical = tuple(rule.id for rule in policy.rules if rule.kind is RuleKind.METRIC and rule.severity is Severity.CRITICAL)
    return replace(policy, resync=replace(policy.resync, port=given.resync_port, rules=policy.resync.rules or critical))


def _seconds(text: str) -> float:
    seconds = float(text)
    if not _LEAST_POLL_S <= seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"at least {_LEAST_POLL_S:g} seconds")
    return seconds


def _say_text(event: Event) -> None:
    about = f"{event.run}: " if event.run and event.kind is not EventKind.TOLD else ""  # what is told names its run itself
    _print(f"{strftime('%H:%M:%S', localtime(event.at))} {about}{event.text}")


def _say_json(event: Event) -> None:
    _print(dump(event.document(), indent=None))


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


@contextmanager
def _ended_by(number: signal.Signals) -> Iterator[None]:
    """Let a signal end the loop as Ctrl-C does, so that what is being sent has a moment."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(number, _interrupt)
    try:
        yield
    finally:
        signal.signal(number, before)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


COMMAND = Command(
    name="watch", title="watch runs while they train, and tell whoever should know", arguments=_arguments, run=_run, streams=True
)
