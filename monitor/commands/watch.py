"""`python -m monitor watch PATH…`: rules over runs while they train; whoever should know is told, once."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import localtime, strftime

from ingest.errors import RatiometerError
from ingest.user_mapping import read_mapping
from monitor.alerts.policy import Policy, PolicyError, RuleKind, Severity
from monitor.alerts.resync import places
from monitor.alerts.resync_endpoint import ResyncEndpoint
from monitor.alerts.rule_file import RuleFile
from monitor.alerts.store import AlertStore
from monitor.commands._command import FOUND, OK, Command, Document, dump, progress, reading_arguments
from monitor.commands._ending import Ending, ended_by_signals
from monitor.commands._references import references
from monitor.commands._terminal import printable
from monitor.watch.event import Event, EventKind
from monitor.watch.loop import Watcher
from monitor.watch.options import Options

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
    if given.once:
        with _watcher(given, policy, options) as watcher:
            return _once(watcher)
    with ended_by_signals(OK) as ending, _watcher(given, policy, options, ending) as watcher:
        watcher.run(lambda: ending.asked)
    return OK, {}, ""


@contextmanager
def _watcher(given: argparse.Namespace, policy: Policy, options: Options, ending: Ending | None = None) -> Iterator[Watcher]:
    """A watcher with all that it needs; what is being sent when it ends has a moment."""
    with ExitStack() as stack:
        store = AlertStore()
        stack.callback(store.close)
        watcher = Watcher(given.path, policy, store, _say_json if given.json else _say_text, options)
        stack.callback(watcher.close)
        resync = policy.resync
        if resync.port:
            stack.enter_context(ResyncEndpoint(places(resync, watcher.folders, watcher.runs), resync.host, resync.port))
        if ending is not None:
            stack.callback(ending.left.set)  # the first to be called
        yield watcher


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
    try:
        return replace(policy, resync=replace(policy.resync, port=given.resync_port, rules=policy.resync.rules or critical))
    except PolicyError as wrong:
        raise PolicyError("--resync-port", expected=wrong.expected, found=wrong.found, remedy=wrong.remedy) from None


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
    sys.stdout.write(f"{printable(line)}\n")
    sys.stdout.flush()


COMMAND = Command(
    name="watch", title="watch runs while they train, and tell whoever should know", arguments=_arguments, run=_run, streams=True
)
