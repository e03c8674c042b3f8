"""From the store to real servers: once each, in order, again where it failed, and past a destination that hangs."""

import logging
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.alerts import deliver as deliver_module
from monitor.alerts.backoff import FIRST_S, MOST_S, wait_s
from monitor.alerts.deliver import Delivery, deliver, try_out
from monitor.alerts.destination import Destination
from monitor.alerts.equip import equipped
from monitor.alerts.machine import Observation
from monitor.alerts.policy import AlertRule, Policy, ResyncSettings, Severity, SinkSettings
from monitor.alerts.secrets import SecretError
from monitor.alerts.sink import SettingsError
from monitor.alerts.store import AlertStore, StoreError
from monitor.alerts.worker import MOST_HANGING, Worker
from tests.monitor.alerts.servers import hanging, refused_port, serving

PRIVATE = "xoxb-99172-QwErTyAsDf"
ROOT = Path(__file__).parents[3]
LOW = AlertRule(
    id="low", metric="ess.lag.token", threshold=0.5, severity=Severity.CRITICAL, cooldown_s=0.0, cap=1000, what="Resynchronise."
)


def policy(*addresses):
    return equipped(Policy(rules=(LOW,)), addresses, {})


def hook(name, host, **options):
    return SinkSettings(name=name, sink="webhook", options={"url": f"http://{host}/", **options})


def take(store, rules, *values, run="a", at=0.0, first=0):
    seen = [Observation(run=run, step=first + step, metric="ess.lag.token", value=value) for step, value in enumerate(values)]
    return store.take(rules, run, seen, at)


@pytest.fixture
def store(tmp_path):
    opened = AlertStore(tmp_path / "alerts.sqlite")
    yield opened
    opened.close()


def health(store, name):
    return next(each for each in store.sinks() if each.name == name)


def until(true, seconds=5.0):
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.005)
    assert true()


def served(delivery, count):
    """What comes back, until so many have; then a little longer, because no more should."""
    outcomes, end = [], time.monotonic() + 10
    while len(outcomes) < count and time.monotonic() < end:
        outcomes += delivery.serve(0.05)
    return outcomes + list(delivery.serve(0.1))


def test_from_a_value_to_a_json_body(store):
    with serving() as server:
        rules = policy(f"json://{server.host}")
        take(store, rules, 0.4)
        assert deliver(store, rules.sinks) == 0
        (got,) = server.requests
    assert (got.json["rule"], got.json["state"], got.json["run"], got.json["step"], got.json["value"]) == ("low", "firing", "a", 0, 0.4)


def test_everything_arrives_once_at_each_and_in_order(store):
    with serving() as one, serving() as two:
        rules = Policy(rules=(LOW,), sinks=(hook("one", one.host), hook("two", two.host)))
        take(store, rules, 0.4, 0.6, 0.3, 0.7)
        take(store, rules, 0.4, run="b")
        assert deliver(store, rules.sinks) == deliver(store, rules.sinks) == 0
        for server in (one, two):
            of_a = [(got.json["state"], got.json["step"]) for got in server.requests if got.json["run"] == "a"]
            assert of_a == sorted(of_a, key=lambda told: told[1])
            assert len(of_a) == len(set(of_a))
            assert len(server.requests) == len(of_a) + 1
    assert health(store, "one").failures == health(store, "one").waiting == 0


def test_what_waits_for_a_destination_that_is_no_more_waits_until_it_is_back(store):
    with serving() as server:
        rules = Policy(rules=(LOW,), sinks=(hook("one", server.host),))
        with Delivery(store, rules.sinks) as delivery:
            delivery.renew(())
            take(store, rules, 0.4)
            delivery.serve(0.3)
            assert (server.requests, health(store, "one").waiting) == ([], 1)
            delivery.renew(rules.sinks)
            assert len(served(delivery, 1)) == len(server.requests) == 1


def test_destinations_of_which_one_cannot_be_set_up_stay_as_they_were(store):
    with Delivery(store, (hook("one", "127.0.0.1:9"),)) as delivery:
        with pytest.raises(SettingsError):
            delivery.renew((hook("two", "127.0.0.1:9"), SinkSettings(name="three", sink="nonsense")))
        assert [each.name for each in delivery.destinations] == ["one"]


def test_a_step_waits_for_nobody(store):
    with hanging() as dead:
        rules = Policy(rules=(LOW,), sinks=(hook("dead", dead.host),))
        take(store, rules, 0.4)
        with Delivery(store, rules.sinks) as delivery:
            began = time.monotonic()
            for _ in range(20):
                delivery.step()
            assert time.monotonic() - began < 1.0
            assert delivery.busy
        assert time.monotonic() - began < 2.0, "nor does closing"


def test_a_destination_that_hangs_holds_up_no_other(store):
    with hanging() as dead, serving() as alive:
        rules = Policy(rules=(LOW,), sinks=(hook("dead", dead.host), hook("alive", alive.host)))
        for number in range(5):
            take(store, rules, 0.4, run=f"r{number}")
        with Delivery(store, rules.sinks) as delivery:
            assert len(served(delivery, 5)) == len(alive.requests) == 5
            assert health(store, "dead").waiting == 5


@pytest.fixture
def slow_to_answer(monkeypatch):
    """A try is given up after a fifth of a second, and the request itself waits for a minute."""
    monkeypatch.setattr("monitor.alerts.sinks.webhook.TIMEOUT_S", 60.0)
    real = deliver_module.destination

    def impatient(*settings):
        made = real(*settings)
        return replace(made, sink=replace(made.sink, timeout_s=0.2))

    monkeypatch.setattr(deliver_module, "destination", impatient)


@pytest.mark.usefixtures("slow_to_answer")
def test_a_destination_that_hangs_is_said_to_and_left_alone(store, monkeypatch):
    monkeypatch.setattr(deliver_module, "wait_s", lambda *_: 0.0)
    with hanging() as dead:
        rules = Policy(rules=(LOW,), sinks=(hook("dead", dead.host),))
        take(store, rules, 0.4)
        with Delivery(store, rules.sinks) as delivery:
            until(lambda: delivery.serve(0.05) is None or delivery.stuck)
            assert delivery.stuck == ("dead",)
            told = health(store, "dead")
            assert (told.error, told.failures, told.waiting, told.succeeded_at) == ("no answer within 0.2 s", MOST_HANGING, 1, None)
            delivery.serve(0.5)
            assert len(dead.requests) == MOST_HANGING, "no thread after thread"
            dead.arrived.set()  # it comes back: the connections are closed, and the tries fail
            until(lambda: delivery.serve(0.05) is None or not delivery.stuck)


@pytest.mark.usefixtures("slow_to_answer")
def test_what_was_given_up_is_not_tried_again_before_its_time(store):
    with hanging() as dead:
        rules = Policy(rules=(LOW,), sinks=(hook("dead", dead.host),))
        take(store, rules, 0.4)
        with Delivery(store, rules.sinks) as delivery:
            (outcome,) = served(delivery, 1)
            assert outcome.retry_at > time.time()
            assert len(dead.requests) == 1


@pytest.mark.usefixtures("slow_to_answer")
def test_a_try_that_succeeds_after_it_was_given_up_counts(store):
    answer = threading.Event()
    with serving() as server:
        real = Destination.tell

        def late(self, *told):
            answer.wait(10)
            real(self, *told)

        rules = Policy(rules=(LOW,), sinks=(hook("late", server.host),))
        take(store, rules, 0.4)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(Destination, "tell", late)
            with Delivery(store, rules.sinks) as delivery:
                until(lambda: delivery.serve(0.05) is None or health(store, "late").failures == 1)
                answer.set()
                until(lambda: delivery.serve(0.05) is None or health(store, "late").waiting == 0)
        assert deliver(store, rules.sinks, 0.2) == 0
        assert len(server.requests) == 1


def test_an_error_and_then_not(store):
    with serving(500, 500, 200) as server:
        rules = Policy(rules=(LOW,), sinks=(hook("flaky", server.host),))
        take(store, rules, 0.4, 0.6)
        clock = [1000.0]
        with Delivery(store, rules.sinks, clock=lambda: clock[0]) as delivery:
            outcomes = served(delivery, 1)
            assert [(each.error[:12], round(each.retry_at - 1000, 1) >= FIRST_S) for each in outcomes] == [("answered 500", True)]
            assert (health(store, "flaky").failures, health(store, "flaky").error[:12]) == (1, "answered 500")
            assert len(server.requests) == 1, "not before its time"
            for later, count in ((2.0, 1), (6.0, 2)):
                clock[0] = 1000.0 + later
                outcomes += served(delivery, count)
        assert [bool(each.error) for each in outcomes] == [True, True, False, False]
    assert [got.json["state"] for got in server.requests] == ["firing", "firing", "firing", "resolved"], "nothing overtakes"
    assert (health(store, "flaky").failures, health(store, "flaky").waiting) == (0, 0)


@pytest.mark.parametrize(
    ("code", "headers", "waits"),
    [(404, (), deliver_module.REFUSED_S), (500, (), FIRST_S), (429, (("Retry-After", "120"),), 120.0)],
)
def test_how_long_it_waits(store, code, headers, waits):
    with serving(code, headers=headers) as server:
        rules = Policy(rules=(LOW,), sinks=(hook("no", server.host),))
        take(store, rules, 0.4)
        with Delivery(store, rules.sinks, clock=lambda: 1000.0) as delivery:
            (outcome,) = served(delivery, 1)
    assert waits <= outcome.retry_at - 1000 <= waits * 1.5


def test_what_is_refused_for_a_day_lets_later_ones_pass(store):
    with serving(404, 404, 200) as server:
        rules = Policy(rules=(LOW,), sinks=(hook("no", server.host),))
        take(store, rules, 0.4, 0.6)
        clock = [0.0]
        with Delivery(store, rules.sinks, clock=lambda: clock[0]) as delivery:
            assert served(delivery, 1)[0].retry_at is not None
            clock[0] = deliver_module.REFUSED_FOR_S + 1
            outcomes = served(delivery, 2)
    assert [(each.error[:12], each.retry_at) for each in outcomes] == [("answered 404", None), ("", None)]
    assert [got.json["state"] for got in server.requests] == ["firing", "firing", "resolved"]


def test_where_nobody_listens(store):
    port = refused_port()
    rules = Policy(rules=(LOW,), sinks=(hook("gone", f"127.0.0.1:{port}"),))
    take(store, rules, 0.4)
    assert deliver(store, rules.sinks, 0.2) == 1
    assert health(store, "gone").error == "cannot be reached: Connection refused"


def test_each_destination_is_set_up_before_anything_is_sent(store):
    for sinks, error in (
        ((hook("x", "127.0.0.1:1", templat="x"),), SettingsError),
        ((SinkSettings(name="x", sink="apprise", options={"url": "slack://a/b/c"}),), SecretError),
    ):
        with pytest.raises(error, match="sink 'x'"):
            Delivery(store, sinks)
    assert Delivery(store, [SinkSettings(name="x", sink="nonsense", enabled=False)]).destinations == ()


def test_what_another_watch_queued_is_left_to_it(store):
    with serving() as server:
        take(store, Policy(rules=(LOW,), sinks=(hook("of-another", server.host),)), 0.4)
        assert deliver(store, (hook("mine", server.host),), 0.2) == 0
        assert not server.requests
        assert health(store, "of-another").waiting == 1


def elsewhere(path, server, code):
    """Another process with the same store, which has the destination `one`."""
    setting = f"store, sinks = AlertStore(Path({str(path)!r})), (hook('one', {server.host!r}),)"
    return subprocess.Popen([sys.executable, "-c", f"from tests.monitor.alerts.test_deliver import *; {setting}; {code}"], cwd=ROOT)


def test_two_deliveries_on_one_store_send_nothing_twice(tmp_path):
    path = tmp_path / "alerts.sqlite"
    with serving() as server:
        rules = Policy(rules=(LOW,), sinks=(hook("one", server.host),))
        first = AlertStore(path)
        for number in range(20):
            take(first, rules, 0.4, run=f"r{number}")
        other = elsewhere(path, server, "deliver(store, sinks)")
        assert deliver(first, rules.sinks) == 0
        assert other.wait(30) == 0
        assert sorted(got.json["run"] for got in server.requests) == sorted(f"r{number}" for number in range(20))


def test_killed_while_it_sends_it_is_sent_again_and_once(tmp_path):
    path = tmp_path / "alerts.sqlite"
    with hanging() as dead, serving() as server:
        first = AlertStore(path)
        rules = Policy(rules=(LOW,), sinks=(hook("one", server.host),))
        take(first, rules, 0.4)
        killed = elsewhere(path, dead, "Delivery(store, sinks).serve(60)")
        until(lambda: dead.requests, 20)
        os.kill(killed.pid, signal.SIGKILL)
        killed.wait()
        assert deliver(first, rules.sinks, 0.3) == 1, "it is held until its lease is over"
        with Delivery(first, rules.sinks, clock=lambda: time.time() + 16) as delivery:
            served(delivery, 1)
        assert len(server.requests) == 1
        assert health(first, "one").waiting == 0


def test_a_store_that_cannot_be_written_loses_no_result(store, monkeypatch):
    with serving() as server:
        rules = Policy(rules=(LOW,), sinks=(hook("one", server.host),))
        take(store, rules, 0.4)
        with Delivery(store, rules.sinks) as delivery:
            with monkeypatch.context() as full:
                full.setattr(store, "sent", lambda *_: (_ for _ in ()).throw(StoreError("the disk is full")))
                delivery.step()
                until(lambda: server.requests and not delivery.busy)
                for _ in range(3):
                    with pytest.raises(StoreError, match="full"):
                        delivery.step()
            assert [each.error for each in delivery.step()] == [""]
        assert (len(server.requests), health(store, "one").waiting) == (1, 0)


def test_secrets_are_nowhere_but_at_the_destination(tmp_path, monkeypatch, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    store = AlertStore(tmp_path / "alerts.sqlite")
    (tmp_path / "private").write_text(f"json://me:{PRIVATE}@127.0.0.1:{refused_port()}/{PRIVATE}")
    (tmp_path / "private").chmod(0o600)
    with serving(500, body=f"you sent {PRIVATE}".encode()) as server:
        monkeypatch.setenv("HOOK", f"http://{server.host}/{PRIVATE}?q={PRIVATE}")
        monkeypatch.setenv("AUTH", f"Bearer {PRIVATE}")
        sinks = (
            SinkSettings(name="web", sink="webhook", options={"url": "env:HOOK", "headers": {"Authorization": "env:AUTH"}}),
            SinkSettings(name="file", sink="apprise", options={"url": f"file:{tmp_path / 'private'}"}),
        )
        take(store, Policy(rules=(LOW,), sinks=sinks), 0.4, 0.6)
        with Delivery(store, sinks) as delivery:
            outcomes = served(delivery, 2)
            assert server.requests[0].headers["Authorization"] == f"Bearer {PRIVATE}"
            assert PRIVATE in server.requests[0].path
            shown = [each.shown for each in delivery.destinations]
            told = f"{outcomes} {delivery.destinations} {vars(delivery)} {shown} {store.sinks()} {store.history()}"
    assert {each.queued.sink for each in outcomes} == {"web", "file"}
    assert "you sent ***" in told
    for text in (told, caplog.text, *capfd.readouterr()):
        assert PRIVATE not in text
    store.close()
    dumped = "\n".join(sqlite3.connect(tmp_path / "alerts.sqlite").iterdump())
    assert "you sent ***" in dumped
    for file in tmp_path.iterdir():
        assert file.name == "private" or PRIVATE.encode() not in file.read_bytes(), file.name


def test_trying_out(tmp_path):
    with serving() as server:
        assert try_out(hook("one", server.host)) == ""
        assert server.requests[0].json["rule"] == "test"
    assert try_out(hook("gone", f"127.0.0.1:{refused_port()}")) == "cannot be reached: Connection refused"
    with pytest.raises(SettingsError, match="can be tested, found resync"):
        try_out(SinkSettings(name="r", sink="resync", options={"spare": str(tmp_path)}))
    assert not list(tmp_path.iterdir())


def test_a_thread_that_dies_is_a_failure():
    came = SimpleQueue()

    def leave(_):
        raise SystemExit(PRIVATE)

    worker = Worker(leave, 5.0, came.put)
    worker.give(7, None)
    result = came.get(timeout=5)
    assert (result.id, str(result.error), result.late) == (7, "SystemExit", False)
    until(lambda: worker.free)


def test_a_worker_does_one_thing_at_a_time():
    go, came = threading.Event(), SimpleQueue()
    worker = Worker(lambda _: go.wait(5), 5.0, came.put)
    assert worker.free
    worker.give(1, None)
    worker.give_up()
    assert not worker.free
    assert came.empty()
    go.set()
    assert came.get(timeout=5).error is None
    until(lambda: worker.free)


def test_a_result_that_is_being_written_down_is_not_given_up():
    slow, came = threading.Event(), []

    def record(result):
        slow.wait(5)
        came.append(result)

    worker = Worker(lambda _: None, 0.0, record)
    worker.give(1, None)
    until(lambda: worker._back)
    worker.give_up()
    assert worker.busy, "whoever waits for it finds it recorded"
    slow.set()
    until(lambda: worker.free)
    assert [result.error for result in came] == [None]


def test_what_came_back_is_written_down_while_the_watch_is_busy(store):
    with serving() as server:
        rules = Policy(rules=(LOW,), sinks=(hook("one", server.host),))
        take(store, rules, 0.4)
        with Delivery(store, rules.sinks) as delivery:
            delivery.step()
            until(lambda: health(store, "one").waiting == 0)  # nobody calls it meanwhile
            assert [each.error for each in delivery.step()] == [""]


@given(st.integers(1, 10_000), st.text())
def test_waits_double_up_to_a_cap(tries, key):
    now, later = wait_s(tries, key), wait_s(tries + 1, key)
    assert FIRST_S <= now <= MOST_S
    assert later == MOST_S or now * 4 / 3 <= later <= now * 3
    assert now == wait_s(tries, key)
    assert now == MOST_S or FIRST_S * 2 ** (tries - 1) <= now < FIRST_S * 2 ** (tries - 1) * 1.5


def test_a_destination_is_replaced_while_it_runs(store):
    with serving() as old, serving() as new:
        rules = Policy(rules=(LOW,), sinks=(hook("one", old.host),))
        with Delivery(store, rules.sinks) as delivery:
            take(store, rules, 0.4)
            served(delivery, 1)
            delivery.put(hook("one", new.host))
            with pytest.raises(SettingsError):
                delivery.put(hook("one", new.host, nonsense="x"))
            delivery.put(hook("two", new.host))
            assert [each.name for each in delivery.destinations] == ["one", "two"]
            take(store, rules, 0.4, run="b")
            served(delivery, 1)
        assert [[got.json["run"] for got in server.requests] for server in (old, new)] == [["a"], ["b"]]


def test_two_come_back_at_different_moments():
    waits = [wait_s(5, str(number)) for number in range(200)]
    assert len(set(waits)) == 200
    assert max(waits) - min(waits) > 0.4 * min(waits)


def test_the_destinations_of_a_watch(tmp_path, monkeypatch):
    monkeypatch.setenv("HOOK", "json://127.0.0.1:9/")
    mine = hook("mine", "127.0.0.1:1")
    rules = Policy(rules=(LOW,), sinks=(mine,), resync=ResyncSettings(rules=("lo*",)))
    made = equipped(rules, ["json://127.0.0.1:9000", "env:HOOK", "json://127.0.0.1:9000"], {"a": tmp_path})
    assert [each.sink for each in made.sinks] == ["webhook", "apprise", "apprise", "resync"]
    assert made.sinks[0] == mine
    assert made.sinks[3].options == {"folders": {"a": str(tmp_path)}}
    assert made.sinks_for("low", Severity.WARNING) == tuple(each.name for each in made.sinks)
    assert made.sinks_for("other", Severity.WARNING) == tuple(each.name for each in made.sinks[:3])
    assert equipped(Policy(rules=(LOW,)), [], {}) == Policy(rules=(LOW,))
