"""What waits to be sent is sent: each destination on its own, again where it failed, and nobody waits for one that hangs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import Self

from monitor.alerts._settings import SinkSettings
from monitor.alerts.backoff import wait_s
from monitor.alerts.destination import Destination, destination, named_secrets
from monitor.alerts.fields import EXAMPLE
from monitor.alerts.notification import Notification
from monitor.alerts.secrets import Origin
from monitor.alerts.sink import SettingsError, SinkError
from monitor.alerts.store import AlertStore, Queued, StoreError
from monitor.alerts.worker import Result, Worker

LEASE_BEYOND_S = 5.0  # a row is held for so much longer than its destination may take
REFUSED_S = 60.0  # least wait where the destination itself refused: the same again at once is of no use
REFUSED_FOR_S = 86_400.0  # after a day of being refused, a row is given up, because later ones of its rule wait behind it
DRAIN_S = 30.0
_TICK_S = 0.05  # how closely is looked at what comes back, where somebody waits for it


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One try that came back."""

    queued: Queued
    error: str  # "" where it arrived
    retry_at: float | None  # None where it arrived, or was given up


class Delivery:
    """Hands what waits in the store to its destinations. Called from one thread, the watch's own; none of its calls waits for a network.

    Args:
        store: where notifications wait.
        sinks: the destinations, as the policy names them; those that are switched off are left out.
        origin: who wrote them.
        clock: seconds since the epoch.

    Raises:
        SettingsError, SecretError: a destination that cannot be set up.
    """

    def __init__(
        self,
        store: AlertStore,
        sinks: Iterable[SinkSettings],
        *,
        origin: Origin = Origin.FILE,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store, self._clock, self._wake, self._turn = store, clock, threading.Event(), threading.RLock()
        self._destinations: dict[str, Destination] = {}
        self._named: dict[str, SinkSettings] = {}  # all that were ever put, those too that are switched off
        self._workers: dict[str, Worker] = {}
        self._put_off: set[str] = set()  # names of destinations that are no more; what waits for them waits on
        self._held: dict[int, Queued] = {}
        self._outcomes: list[Outcome] = []  # since the last step
        self._unrecorded: list[Result] = []  # what the store could not take down yet, for instance on a full disk
        for settings in sinks:
            self.put(settings, origin)

    @property
    def destinations(self) -> tuple[Destination, ...]:
        """Every destination, in the order in which they were put."""
        return tuple(each for each in self._destinations.values() if each.name not in self._put_off)

    def put(self, settings: SinkSettings, origin: Origin = Origin.FILE) -> None:
        """Add a destination, or put it in the place of the one of its name, for instance when a new run has a folder for its signal.

        Raises:
            SettingsError, SecretError: it cannot be set up; one that was there stays as it was.
        """
        self._named = {**self._named, settings.name: settings}
        if not settings.enabled:
            return
        made = destination(settings, origin)
        with self._turn:
            self._put_off.discard(made.name)
            self._destinations[made.name] = made
            if made.name not in self._workers:
                self._workers[made.name] = Worker(partial(self._tell, made.name), made.sink.timeout_s, self._done, made.name)

    def renew(self, sinks: Iterable[SinkSettings], origin: Origin = Origin.FILE) -> None:
        """Have these destinations, and no others, from now on. What waits for one that is no more waits until it is back.

        Raises:
            SettingsError, SecretError: one of them cannot be set up; all stay as they were.
        """
        given = tuple(sinks)
        wanted = [settings for settings in given if settings.enabled]
        for settings in wanted:
            destination(settings, origin)
        self._named |= {settings.name: settings for settings in given}
        with self._turn:
            self._put_off |= self._destinations.keys() - {settings.name for settings in wanted}
        for settings in wanted:
            self.put(settings, origin)

    @property
    def busy(self) -> bool:
        """Whether something is being sent right now."""
        return any(worker.busy for worker in self._workers.values())

    @property
    def stuck(self) -> tuple[str, ...]:
        """Destinations that are left alone because too many tries never came back."""
        return tuple(name for name, worker in self._workers.items() if worker.stuck)

    def step(self) -> tuple[Outcome, ...]:
        """Hand out what is due, and return what came back since the last call. Returns at once.

        Raises:
            StoreError: the store could not be written; what came back is kept, and recorded by a later call.
        """
        with self._turn:
            while self._unrecorded:
                self._record(self._unrecorded[0])
                del self._unrecorded[0]
            for each in self.destinations:
                self._workers[each.name].give_up()
                self._hand_out(each)
            outcomes, self._outcomes = tuple(self._outcomes), []
        return outcomes

    def serve(self, seconds: float) -> tuple[Outcome, ...]:
        """Do so for some time, in place of sleeping: what comes back makes room for the next at once."""
        outcomes, end = list(self.step()), time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if self._wake.wait(left):
                self._wake.clear()
                outcomes += self.step()
        return tuple(outcomes)

    def drain(self, seconds: float = DRAIN_S) -> int:
        """Send until nothing waits for these destinations, or the time is over; returns how many still wait."""
        end = time.monotonic() + seconds
        while (waiting := self._waiting()) and time.monotonic() < end:
            self.serve(_TICK_S)
        return waiting

    def close(self, seconds: float = 0.0) -> None:
        """Wait so long for what is being sent; what does not come back in time is sent again by whoever comes next."""
        end = time.monotonic() + seconds
        while self.busy and time.monotonic() < end:
            time.sleep(_TICK_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _tell(self, name: str, notification: Notification) -> None:
        self._destinations[name].tell(notification, named_secrets(self._named.values()))

    def _waiting(self) -> int:
        return sum(health.waiting for health in self._store.sinks() if health.name in {each.name for each in self.destinations})

    def _hand_out(self, to: Destination) -> None:
        worker, now = self._workers[to.name], self._clock()  # after what failed was put off: a time before would find it due
        if worker.free and (queued := self._store.claim(now, worker.timeout_s + LEASE_BEYOND_S, (to.name,))) is not None:
            self._held[queued.id] = queued
            worker.give(queued.id, queued.notification)

    def _done(self, result: Result) -> None:
        """Take down a result, on whichever thread it comes: the watch may be busy for longer than a row is held."""
        with self._turn:
            try:
                self._record(result)
            except StoreError:
                self._unrecorded.append(result)  # the next step raises it where somebody listens
        self._wake.set()

    def _record(self, result: Result) -> None:
        """Write down what came of a try; a late one counts only where it arrived after all."""
        now = self._clock()
        if result.late:
            if result.error is None:
                self._store.sent(result.id, now)
            return
        queued, error = self._held[result.id], result.error
        retry_at = None if error is None else _retry_at(queued, error, now)
        if error is None:
            self._store.sent(result.id, now)
        else:
            self._store.failed(result.id, str(error), retry_at, now)
        del self._held[result.id]
        self._outcomes.append(Outcome(queued=queued, error="" if error is None else str(error), retry_at=retry_at))


def deliver(store: AlertStore, sinks: Iterable[SinkSettings], seconds: float = DRAIN_S) -> int:
    """Send what waits now and wait for it, for as long as that; returns how many still wait.

    Raises:
        SettingsError, SecretError: a destination that cannot be set up.
        StoreError: the store cannot be written.
    """
    with Delivery(store, sinks) as delivery:
        return delivery.drain(seconds)


def try_out(settings: SinkSettings, origin: Origin = Origin.FILE) -> str:
    """Send a test message to one destination; "" where it arrived, else the reason. Waits for no longer than a try may take.

    Raises:
        SettingsError, SecretError: it cannot be set up, or a test would do more than arrive.
    """
    tested, came = destination(settings, origin), SimpleQueue[Result]()
    if not tested.sink.on_trial:
        raise SettingsError(f"sink {settings.name!r}", expected="a kind that can be tested", found=tested.sink.id, remedy="It acts.")
    Worker(tested.tell, tested.sink.timeout_s, came.put, tested.name).give(0, EXAMPLE)
    try:
        error = came.get(timeout=tested.sink.timeout_s).error
    except Empty:
        return f"no answer within {tested.sink.timeout_s:g} s"
    return "" if error is None else str(error)


def _retry_at(queued: Queued, error: SinkError, now: float) -> float | None:
    """When a failed row is tried again; never, where it has been refused for a day."""
    if error.lasting and now - queued.made_at > REFUSED_FOR_S:
        return None
    least = max(error.retry_after_s or 0.0, REFUSED_S if error.lasting else 0.0)
    return now + max(least, wait_s(queued.tries, queued.notification.key + queued.sink))
