"""The loop of a watch: look at the logs, give what came to the alerts, hand what they say to its destinations.

Nothing but the alerts' own file is written, and a look that finds again what was found before changes nothing there. So a watch needs no
memory of its own: it may be killed at any moment, and the next one reads the logs from their beginning.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np

from ingest.errors import RatiometerError
from ingest.load import id_of, ids_of
from ingest.run import ProblemKind, RawLog, ReadProblem
from monitor.alerts.deliver import DRAIN_S, Delivery, Outcome
from monitor.alerts.equip import equipped
from monitor.alerts.failure_kind import failure_kind
from monitor.alerts.machine import Notification, Phase
from monitor.alerts.policy import Policy
from monitor.alerts.resync import signal_folders
from monitor.alerts.rule_file import RuleFile
from monitor.alerts.store import AlertStore, Reached, StoreError
from monitor.alerts.unmatched import unmatched
from monitor.watch.clock import SteadyClock
from monitor.watch.event import Event, EventKind
from monitor.watch.follow import Follower, follow
from monitor.watch.options import Options
from monitor.watch.tokens import warm_up
from monitor.watch.troubles import LASTS_S, Troubles
from monitor.watch.unbegun import IDS, Unbegun
from monitor.watch.update import Update
from monitor.watch.watched import WatchedRun

_LEAST_S = 0.02  # between two looks, however long they take
_KINDS = {True: EventKind.WAITING, False: EventKind.TROUBLE}  # of what is wrong at a path at which nothing came yet, or something has
_REMADE = (
    "the file of the alerts was deleted, or replaced, while this watch used it. It is made again, and the rules are asked about the whole "
    "of each log: what fires is told again. Silences, and what was waiting to be sent, are lost"
)


class Watcher:
    """Watches the runs at some paths under a policy.

    Raises:
        SecretError, SettingsError: a destination cannot be set up.
        UnknownDialectError: there is no such dialect.
    """

    def __init__(
        self,
        paths: Sequence[str],
        policy: Policy,
        store: AlertStore,
        say: Callable[[Event], None],
        options: Options = Options(),  # noqa: B008 - frozen
    ) -> None:
        self._base, self._store, self._say, self._options = policy, store, say, options
        self._clock = SteadyClock()
        self.folders: dict[str, Path] = {}  # of each run the one in which its trainer looks for a resync signal
        self._policy = equipped(policy, options.notify, self.folders)
        self._delivery = Delivery(store, self._policy.sinks, clock=self._clock)
        self.runs: dict[str, WatchedRun] = {}
        self._known: Mapping[str, Reached] = {}
        self._rules_at = "" if options.rules is None else str(options.rules.path)
        self._followers = {path: self._follower(path) for path in paths}
        self._troubles, self._failing = Troubles(), dict[str, str]()
        self._unbegun, self._remade = Unbegun(store, self._clock), store.remade
        self._poll_s = policy.poll_s if options.poll_s is None else options.poll_s
        if options.rules is not None:
            self._event(EventKind.RULES, f"asking {options.rules}", path=str(options.rules.path))
        Thread(target=warm_up, name="first sums", daemon=True).start()

    def run(self, ended: Callable[[], bool] = lambda: False) -> None:
        """Watch until somebody says that it is over, or interrupts it."""
        while not ended():
            begun = time.monotonic()
            self.look()
            self._serve(max(_LEAST_S, self._poll_s - (time.monotonic() - begun)))

    def once(self) -> bool:
        """Look once and send what there is to be told; says whether anything fires, or has no number, by now."""
        self.look(lasts_s=0)
        end = time.monotonic() + DRAIN_S
        self._serve(0)
        while self._waiting() and time.monotonic() < end:
            self._serve(_LEAST_S)
        self._serve(0)  # what came back since the last time
        states = [state for run in self.runs for state in self._store.states(run) if state.phase in {Phase.FIRING, Phase.NAN}]
        firing = [{"rule": state.rule, "run": state.run, "phase": str(state.phase), "since": state.since} for state in states]
        text = "; ".join(f"{state.rule} {state.phase} in {state.run} since step {state.since}" for state in states) or "nothing fires"
        self._event(EventKind.LOOKED, text, firing=firing, unsent=sum(health.waiting for health in self._store.sinks()))
        return bool(states)

    def look(self, *, lasts_s: float = LASTS_S) -> None:
        """Look at every log, and give what came to the alerts.

        Args:
            lasts_s: how long something must have been wrong to be said.
        """
        if self._options.rules is not None:
            self._renew(self._options.rules)
        if self._store.remade != self._remade:
            self._begin_anew_in_a_new_file()
        for path in self._followers:
            self._follow(path, lasts_s)
        failed: list[ReadProblem] = []
        for watched in self.runs.values():
            failed += self._take(watched, now=not lasts_s)
        self._note("alerts", dict.fromkeys(failed), lasts_s=0)
        known = {*self.runs, *self._unbegun.ids} if self.runs else set()
        idle = [ReadProblem(path=self._rules_at, place="", what=what) for what in unmatched(self._base, known)]
        self._note("what fits nothing", idle, lasts_s=0)

    @property
    def wrong(self) -> tuple[str, ...]:
        """What cannot be read at present, path by path."""
        return tuple(problem.what for follower in self._followers.values() for problem in follower.troubles)

    def _follow(self, path: str, lasts_s: float) -> None:
        """Take in what came at a path; where we fail ourselves, that is said, and the path is followed from the beginning."""
        follower = self._followers[path]
        with suppress(StoreError):
            self._known = self._store.reached()  # before the look: what is known now came from files that are there now
        try:
            updates = follower.poll()
        except Exception as unforeseen:  # noqa: BLE001 - a log that we stumble over must not end the watch of the others
            self._followers[path] = self._follower(path)
            what = f"this log cannot be followed, which is a fault of ours: {type(unforeseen).__name__}: {unforeseen}"
            self._note(path, [ReadProblem(path=path, place="", what=what)], lasts_s=0)
            return
        for update in updates:
            self._take_in(update, self._known.get(update.run.id, Reached()))
            if update.finished:
                self._finish(update.run.id)
        self._note(path, follower.troubles, lasts_s=0 if follower.waiting else lasts_s, kind=_KINDS[follower.waiting])
        self._note(f"beside {path}", follower.left_out, lasts_s=lasts_s, kind=EventKind.PROBLEM)
        if lasts_s:  # one look alone says nothing of how long nothing came
            self._note_silence(path, waiting=follower.waiting)

    def _note_silence(self, path: str, *, waiting: bool) -> None:
        """Have the rules on missing data know of a path at which nothing came yet, and that something did."""
        failed = []
        try:
            told = self._unbegun.waits(path, self._policy) if waiting else self._unbegun.begins(path, self._policy, self.runs)
        except StoreError as wrong:
            told, failed = (), [ReadProblem(path=str(self._store.path), place="", what=str(wrong))]
        for each in told:
            self._event(EventKind.TOLD, _line(each), each.run, notification=each.document())
        self._note(f"silence at {path}", failed, lasts_s=0)

    def _begin_anew_in_a_new_file(self) -> None:
        """Follow all logs from their beginning, because the alerts' file was deleted with all that it knew of them."""
        self._remade = self._store.remade
        self._event(EventKind.TROUBLE, f"{self._store.path}: {_REMADE}", path=str(self._store.path))
        self._follow_anew()

    def _follow_anew(self) -> None:
        self.runs.clear()
        self._unbegun = Unbegun(self._store, self._clock)
        self._followers = {path: self._follower(path) for path in self._followers}

    def close(self) -> None:
        """Wait a moment for what is being sent."""
        self._delivery.close(2.0)

    def _take_in(self, update: Update, reached: Reached) -> None:
        run = update.run
        if run.id not in self.runs:
            self.runs[run.id] = WatchedRun(run, self._options.references)
            self._equip()
            self._event(EventKind.WATCHING, _watching(update), run.id, path=run.path)
        self.runs[run.id].add(update, reached)
        if update.restarted_from is not None:
            self._event(EventKind.RESTARTED, f"went back to step {update.restarted_from}", run.id, step=update.restarted_from)
        for problem in update.problems:
            if problem.kind is ProblemKind.LOST:
                self._event(EventKind.PROBLEM, f"{problem.path} {problem.place}: {problem.what}", run.id, rows=problem.rows)

    def _finish(self, run: str) -> None:
        if self.runs[run].finish():
            self._event(EventKind.FINISHED, "the log says that nothing more will come", run)

    def _take(self, watched: WatchedRun, *, now: bool) -> Iterator[ReadProblem]:
        """Give a run's news to the alerts; yields why they could not be taken, in which case they wait."""
        run = watched.run.id
        try:
            for told in watched.take(self._store, self._policy, self._clock):
                self._event(EventKind.TOLD, _line(told), run, notification=told.document())
        except StoreError as failed:
            yield ReadProblem(path=str(self._store.path), place="", what=str(failed))
        for rule, why in watched.never(self._policy, now=now).items():
            self._event(EventKind.NEVER, f"{rule}: {why}", run, rule=rule)

    def _renew(self, rules: RuleFile) -> None:
        """Take up what was changed in the rule file; what cannot be is said once, and the rules stay what they were."""
        policy = rules.changed()
        if policy is not None:
            try:
                self._take_up(policy)
            except RatiometerError as wrong:
                rules.refuse(str(wrong))
            else:
                rules.accept(policy)
                self._event(EventKind.RULES, f"changed: now asking {rules}", path=str(rules.path))
        what = f"not taken up, the rules are those from before: {rules.trouble}"
        self._note("rules", [ReadProblem(path=str(rules.path), place="", what=what)] if rules.trouble else [], lasts_s=0)

    def _take_up(self, policy: Policy) -> None:
        """Have another policy from now on. Other rules have to be asked about the whole log, so that it is followed from its beginning.

        Raises:
            SecretError, SettingsError: a destination cannot be set up; nothing was changed.
        """
        made = equipped(policy, self._options.notify, self.folders)
        self._delivery.renew(made.sinks)
        anew = policy.rules != self._base.rules
        self._base, self._policy = policy, made
        self._poll_s = policy.poll_s if self._options.poll_s is None else self._options.poll_s
        if anew:
            self._follow_anew()

    def _equip(self) -> None:
        """Give the trainers' signal the folders of all runs that are known by now."""
        self.folders |= signal_folders(watched.run for watched in self.runs.values())
        self._policy = equipped(self._base, self._options.notify, self.folders)
        for sink in self._policy.sinks:
            if sink.sink == "resync":
                self._delivery.put(sink)

    def _follower(self, path: str) -> Follower:
        return follow(
            path, dialect=self._options.dialect, mapping=self._options.mapping, identify=self._identify, progress=self._options.progress
        )

    def _identify(self, raw: RawLog) -> str:
        """The id of a run: its name, unless another run's alerts are kept under that."""
        place = f"{Path(raw.path).resolve() if Path(raw.path).exists() else raw.path}|{raw.name}"
        try:
            return self._store.known_as(place, *islice(ids_of(raw), IDS))
        except StoreError:
            return id_of(raw, self.runs)

    def _serve(self, seconds: float) -> None:
        try:
            for outcome in self._delivery.serve(seconds):
                self._outcome(outcome)
        except StoreError as failed:
            self._note("deliveries", [ReadProblem(path=str(self._store.path), place="", what=str(failed))], lasts_s=0)
            time.sleep(seconds)
        else:
            self._note("deliveries", (), lasts_s=0)

    def _waiting(self) -> bool:
        return self._delivery.busy or any(health.waiting for health in self._store.sinks())

    def _outcome(self, outcome: Outcome) -> None:
        """Say what came of a try; of a destination that fails again and again only what is new."""
        sink, told = outcome.queued.sink, outcome.queued.notification
        detail = {"sink": sink, "rule": told.rule, "episode": told.episode}
        if not outcome.error:
            self._failing.pop(sink, None)
            self._event(EventKind.SENT, f"{told.rule} {told.kind}: sent to {sink}", told.run, **detail)
        elif self._failing.get(sink) != (kind := failure_kind(outcome.error)):
            self._failing[sink] = kind
            again = "given up" if outcome.retry_at is None else "tried again"
            self._event(EventKind.FAILED, f"{told.rule} {told.kind}: not sent to {sink}, {outcome.error}; {again}", told.run, **detail)

    def _note(self, who: str, problems: Iterable[ReadProblem], *, lasts_s: float, kind: EventKind = EventKind.TROUBLE) -> None:
        for problem, there in self._troubles.seen(who, problems, lasts_s=lasts_s):
            text = f"{problem.path}, {problem.place}: {problem.what}" if problem.place else problem.what
            text = text if problem.path in text else f"{problem.path}: {text}"
            if there or kind is not EventKind.PROBLEM:
                rows: dict[str, Any] = {"rows": problem.rows} if kind is EventKind.PROBLEM else {}
                self._event(kind if there else EventKind.OVER, text if there else f"no longer so: {text}", path=problem.path, **rows)

    def _event(self, kind: EventKind, text: str, run: str = "", /, **detail: object) -> None:
        self._say(Event(kind=kind, at=self._clock(), text=text, run=run, detail=detail))


def _watching(update: Update) -> str:
    steps = np.unique(update.rows["step"].to_numpy())
    span = f"steps {steps[0]} to {steps[-1]}" if len(steps) else "no step yet"
    return f"watching {update.run.path} ({update.run.dialect or 'tokens only'}): {span}"


def _line(told: Notification) -> str:
    return f"{told.severity} {told.kind}: {told.text}"
