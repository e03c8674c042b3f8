"""What does a new value cost the alerts, and does it grow with the run? Writes a section of docs/benchmarks.md.

    python -m tests.benchmarks.alerts [--write]

Values are seeded noise that crosses its threshold now and then. Of each row the smallest CPU time of several rounds is taken; a commit
waits for the disk, so its wall time is given too.
"""

from __future__ import annotations

import argparse
import platform
import random
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from monitor.alerts.machine import Observation, State, update
from monitor.alerts.policy import AlertRule, Comparison, Policy, Relation, SinkSettings, default_policy
from monitor.alerts.store import AlertStore
from tests.benchmarks import page

ROUNDS = 200
LENGTHS = (10, 100, 2_000, 10_000)
METRICS = ("ess.lag.token", "ess.lag.sequence", "log_ratio.discrepancy.abs_mean", "ratio.total.mean", "version_lag.max")
ABSOLUTE = AlertRule(id="ess", metric="ess.lag.token", threshold=0.5, recover=0.55, hold=2)
ON_FLOOR = replace(ABSOLUTE, relation=Relation.FLOOR, comparison=Comparison.ABOVE, threshold=3.0, recover=2.0)
NOW = 1e9


def main() -> None:
    """Measure, print the section; `--write` puts it where it belongs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    text = section()
    if arguments.write:
        page.put(text)
    sys.stdout.write(text)


def section() -> str:
    """The section, from one run."""
    rows = [
        "",
        "## Alerts",
        "",
        f"Written by `python -m tests.benchmarks.alerts --write`: CPU time of one thread, least or median of {ROUNDS} rounds.",
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}. The columns are the steps that the run had before.",
        "",
        f"| what | {' | '.join(f'{length:,}' for length in LENGTHS)} |",
        f"|---|{'---|' * len(LENGTHS)}",
        _row("one value, one rule (`machine.update`), µs", [_update(ABSOLUTE, length) for length in LENGTHS]),
        _row("the same, a rule on its own floor, µs", [_update(ON_FLOOR, length) for length in LENGTHS]),
        _row("the state as JSON and back, µs", [_json(ABSOLUTE, length) for length in LENGTHS]),
        _row("the same, a rule on its own floor, µs", [_json(ON_FLOOR, length) for length in LENGTHS]),
        _row("size of the state, bytes", [len(_state(ABSOLUTE, length).to_json()) for length in LENGTHS]),
        _row("the same, a rule on its own floor, bytes", [len(_state(ON_FLOOR, length).to_json()) for length in LENGTHS]),
        *_store_rows(),
        "",
    ]
    return "\n".join(rows)


def _store_rows() -> list[str]:
    new, wall, idle, again = zip(*(_store(length) for length in LENGTHS), strict=True)
    return [
        _row("one step, the shipped rules, committed (`AlertStore.take`), µs", new),
        _row("the same, wall time with the disk, µs", wall),
        _row("a poll that finds nothing new, µs", idle),
        _row("the whole log given again, ms", [1e-3 * each for each in again]),
    ]


def _row(what: str, numbers: object) -> str:
    return f"| {what} | {' | '.join(f'{number:,.0f}' for number in numbers)} |"  # type: ignore[attr-defined]


def _values(length: int, start: int = 0, metrics: tuple[str, ...] = METRICS[:1]) -> list[Observation]:
    rng = random.Random(20261130 + start)  # noqa: S311 - numbers for a benchmark
    return [
        Observation(run="r", step=step, metric=metric, value=min(1.0, rng.gauss(0.8, 0.12)), standard_error=0.01)
        for step in range(start, start + length)
        for metric in metrics
    ]


def _state(rule: AlertRule, length: int) -> State:
    return update(State(rule=rule.id, run="r"), rule, _values(length), NOW)[0]


def _update(rule: AlertRule, length: int) -> float:
    state, one = _state(rule, length), _values(1, length)
    return _least(lambda: update(state, rule, one, NOW))


def _json(rule: AlertRule, length: int) -> float:
    state = _state(rule, length)
    return _least(lambda: State.from_json(state.to_json()))


def _store(length: int) -> tuple[float, float, float, float]:
    """µs of a new step (CPU, wall), of a poll without news, of the whole log given again."""
    policy = Policy(rules=default_policy().rules, sinks=(SinkSettings(name="log", sink="log"),))
    with tempfile.TemporaryDirectory() as folder:
        store = AlertStore(Path(folder) / "alerts.sqlite")
        log = _values(length, metrics=METRICS)
        store.take(policy, "r", log, NOW)
        cpu, wall = [], []
        for place in range(ROUNDS):
            batch = _values(1, length + place, METRICS)
            before, before_wall = time.thread_time(), time.perf_counter()
            store.take(policy, "r", batch, NOW + place)
            cpu.append(time.thread_time() - before)
            wall.append(time.perf_counter() - before_wall)
        idle = _least(lambda: store.take(policy, "r", [], NOW + ROUNDS))
        again = _least(lambda: store.take(policy, "r", log, NOW + ROUNDS), 5)
        store.close()
    return 1e6 * sorted(cpu)[ROUNDS // 2], 1e6 * sorted(wall)[ROUNDS // 2], idle, again


def _least(job: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Smallest CPU time in µs."""
    best = float("inf")
    for _ in range(rounds):
        before = time.thread_time()
        job()
        best = min(best, time.thread_time() - before)
    return 1e6 * best


if __name__ == "__main__":
    main()
