"""What the alerts say, for pages: where every rule stands in the store, and when the rules would have fired over a run that is shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import streamlit as st

from ingest.run import Run
from monitor.alerts.backtest import Backtest, backtested
from monitor.alerts.machine import Phase
from monitor.alerts.notification import Kind, Notification
from monitor.alerts.policy import Policy, written
from monitor.alerts.rule import Severity
from monitor.alerts.state import State
from monitor.alerts.store import FILE, AlertStore, Past, Silence, SinkHealth, StoreError
from monitor.pages._library import Failure, guarded
from monitor.pages._results import Shown
from monitor.store import home

MAX_BACKTESTS = 256
FEW_BACK = 8  # rows of one rule in one run that are looked at
MOST_HISTORY = 500  # rows; the page shows fewer, shades need the pairs

Stamp = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, kw_only=True)
class Standing:
    """What the store says now."""

    states: tuple[State, ...] = ()
    silences: tuple[Silence, ...] = ()
    sinks: tuple[SinkHealth, ...] = ()
    history: tuple[Past, ...] = ()  # the newest first
    arrivals: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # key of a notification -> destinations that have it, of how many
    said: Mapping[tuple[str, str], Notification] = field(default_factory=dict)  # (rule, run) -> how what lasts there was told
    watched: bool = False  # whether anything was ever written there
    trouble: str = ""

    def of(self, run: str) -> tuple[State, ...]:
        """The states of one run."""
        return tuple(state for state in self.states if state.run == run)


@dataclass(frozen=True, kw_only=True)
class Firing:
    """Steps at which a rule fires."""

    rule: str
    run: str  # id
    metric: str
    severity: Severity
    first: int
    last: int | None  # the last step of it; None while it lasts


def store_path() -> Path:
    """Where the alerts are kept."""
    return home() / FILE


def stamp() -> Stamp:
    """Size and modification time of the store's files, which change whenever something is written."""
    files = (store_path(), store_path().with_name(f"{FILE}-wal"))
    stats = [(str(file), file.stat()) for file in files if file.exists()]
    return tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats)


def opened() -> AlertStore:
    """The store, open; made where there is none.

    Raises:
        StoreError: it cannot be opened.
    """
    path = store_path()
    return _opened(str(path), path.stat().st_ino if path.exists() else 0)


@st.cache_resource(max_entries=4, show_spinner=False, on_release=AlertStore.close)
def _opened(path: str, inode: int) -> AlertStore:
    del inode  # another file of the same name is another store
    return AlertStore(Path(path))


def standing(now: float) -> Standing:
    """What the store says; where there is none, nothing is made."""
    if not store_path().exists():
        return Standing()
    try:
        store = opened()
        states, history = store.states(), store.history(limit=MOST_HISTORY)
        return Standing(
            states=states,
            silences=store.silences(now),
            sinks=store.sinks(),
            history=history,
            arrivals=store.arrivals(history),
            said=_said(store, states, history),
            watched=bool(states),
        )
    except StoreError as broken:
        return Standing(trouble=str(broken))


def _said(store: AlertStore, states: Sequence[State], history: Sequence[Past]) -> dict[tuple[str, str], Notification]:
    """What the store knows of each rule that fires: a watch may have it from another file than the pages' own."""
    recent: dict[tuple[str, str], Notification] = {}
    for past in history:  # the newest first
        told = past.notification
        if told.kind is not Kind.RESOLVED:
            recent.setdefault((told.rule, told.run), told)
    found = {}
    for state in states:
        if state.phase not in {Phase.FIRING, Phase.NAN} and not state.episode:
            continue
        told_before = recent.get((state.rule, state.run)) or _before(store, state)
        if told_before is not None:
            found[state.rule, state.run] = told_before
    return found


def _before(store: AlertStore, state: State) -> Notification | None:
    """The same from further back."""
    pasts = (past.notification for past in store.history(run=state.run, rule=state.rule, limit=FEW_BACK))
    return next((told for told in pasts if told.kind is not Kind.RESOLVED), None)


def tested(policy: Policy, one: Shown, run: Run, references: Sequence[Shown]) -> Backtest | Failure:
    """When the rules would have fired over a run, found out once per content."""
    content = (one.who.id, one.key, tuple((each.who.id, each.key) for each in references))
    return _tested(written(policy), content, policy, one, run, references)


@st.cache_resource(max_entries=MAX_BACKTESTS, show_spinner=False)
def _tested(rules: str, content: object, _policy: Policy, _one: Shown, _run: Run, _references: Sequence[Shown]) -> Backtest | Failure:
    del rules, content  # the cache's key
    frames = [each.frame for each in _references]
    return guarded(_one.who.label, lambda: backtested(_policy, _one.frame, _run, frames), "looking back over")


def firings(told: Standing, run: Run, back: Backtest | Failure) -> tuple[Firing, ...]:
    """The firing intervals of a run: what the backtest finds, and what the history has beside it (values that are others by now)."""
    found = {} if isinstance(back, Failure) else {(one.rule, one.first): one for one in _of_backtest(back)}
    history = _of_history([past for past in told.history if past.notification.run == run.id])
    return tuple(({(one.rule, one.first): one for one in history} | found).values())


def _of_backtest(back: Backtest) -> tuple[Firing, ...]:
    return tuple(
        Firing(
            rule=one.rule,
            run=one.run,
            metric=one.metric,
            severity=one.severity,
            first=one.first,
            last=None if one.resolved is None else max(one.first, one.resolved - 1),
        )
        for one in back.episodes
        if one.kind is Kind.FIRING
    )


def _of_history(pasts: Sequence[Past]) -> tuple[Firing, ...]:
    """Pairs of beginning and end, by episode."""
    found: dict[str, Firing] = {}
    for past in sorted(pasts, key=lambda one: one.id):
        said = past.notification
        if said.kind is Kind.FIRING and said.step is not None:
            begun = _first_of(said.episode, said.step)
            found[said.episode] = Firing(rule=said.rule, run=said.run, metric=said.metric, severity=said.severity, first=begun, last=None)
        elif said.kind is Kind.RESOLVED and said.episode in found:
            begun = found[said.episode].first
            end = begun if said.step is None else max(begun, said.step - 1)
            found[said.episode] = replace(found[said.episode], last=end)
    return tuple(found.values())


def _first_of(episode: str, step: int) -> int:
    """The first step of an episode, which its id ends with; the step at which it was told where it does not."""
    ending = episode.rsplit(":", 1)[-1].partition("+")[0]
    return min(int(ending), step) if ending.isdigit() else step
