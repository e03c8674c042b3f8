"""Two watches of one run on one store, in any order of their looks: each change is told once, and nothing is over that is not."""

import time
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.alerts.policy import Policy
from monitor.alerts.store import AlertStore
from monitor.watch.event import EventKind
from monitor.watch.follow import follow
from monitor.watch.watched import WatchedRun
from tests.monitor.alerts.servers import serving
from tests.monitor.watch.runs import Recorder, ess_rows, record
from tests.monitor.watch.test_loop import ESS, Watching, grown


@pytest.fixture
def store(tmp_path):
    opened = AlertStore(tmp_path / "alerts" / "alerts.sqlite")
    yield opened
    opened.close()


@pytest.fixture
def log(tmp_path):
    return tmp_path / "run" / "steps.jsonl"


def while_it_looks(watching, log, meanwhile):
    """Have something happen between the moment at which a watch has read its log and the one at which the alerts hear of it."""
    follower = watching.watcher._followers[str(log.parent)]
    poll = follower.poll

    def slow():
        found = poll()
        follower.poll = poll
        meanwhile()
        return found

    follower.poll = slow


def test_what_another_watch_learns_while_this_one_reads_is_no_restart(store, log):
    grown(log, *ess_rows(0, 0.9, 0.9))
    first, second = Watching(store, log.parent), Watching(store, log.parent)
    first.look()

    def fires():
        grown(log, *ess_rows(2, 0.9, 0.3))
        assert first.told(first.look()) == [("ess", "firing", 3)]

    while_it_looks(second, log, fires)
    assert second.told(second.look()) == []
    assert second.told(second.look()) == []
    grown(log, *ess_rows(4, 0.9))
    assert second.told(second.look()) + first.told(first.look()) == [("ess", "resolved", 4)]


def test_a_second_watch_that_reads_many_parts_takes_nothing_back(store, tmp_path):
    recorder, run = Recorder(tmp_path / "run"), tmp_path / "run"
    for step in range(6):
        record(recorder, step)
    first, second = Watching(store, run), Watching(store, run)
    first.look()

    def fires():
        record(recorder, 6, 0.25)
        assert first.told(first.look()) == [("ess", "firing", 6)]

    while_it_looks(second, run / "any", fires)
    assert second.told(second.look()) == []
    assert second.told(second.look()) == []


def test_a_run_that_was_started_anew_is_taken_back_once_by_two_watches(store, log):
    grown(log, *ess_rows(0, 0.9, 0.9, 0.9, 0.3))
    Watching(store, log.parent).look()
    log.unlink()
    grown(log, *ess_rows(0, 0.9, 0.9))
    first, second = Watching(store, log.parent), Watching(store, log.parent)

    def fires_anew():
        assert [each[:2] for each in first.told(first.look())] == [("ess", "resolved")]
        grown(log, *ess_rows(2, 0.3))
        assert first.told(first.look()) == [("ess", "firing", 2)]

    while_it_looks(second, log, fires_anew)
    assert second.told(second.look()) == []
    assert second.told(second.look()) == []


def test_a_restart_that_both_see_is_taken_once(store, log):
    grown(log, *ess_rows(0, 0.9, 0.9, 0.9, 0.9))
    first, second = Watching(store, log.parent), Watching(store, log.parent)
    first.look()
    second.look()
    grown(log, *ess_rows(1, 0.9))

    def fires_anew():
        first.look()
        grown(log, *ess_rows(2, 0.3))
        assert first.told(first.look()) == [("ess", "firing", 2)]

    while_it_looks(second, log, fires_anew)
    assert second.told(second.look()) == []
    assert second.told(second.look()) == []
    grown(log, *ess_rows(1, 0.9))
    assert [each[:2] for each in second.told(second.look())] == [("ess", "resolved")], "the next restart is its own"


def test_a_run_that_began_anew_is_noticed_although_its_first_update_has_no_value(store, log):
    grown(log, *ess_rows(0, 0.9, 0.9, 0.9, 0.3))
    Watching(store, log.parent).look()
    log.unlink()
    grown(log, *ess_rows(0, 0.9))
    (update,) = follow(str(log.parent)).poll()
    watched, before = WatchedRun(update.run, ()), store.reached()["run"]
    watched.add(replace(update, rows=update.rows[:0]), before)
    assert list(watched.take(store, Policy(rules=(ESS,)), time.time)) == []
    watched.add(update, before)
    assert [told.kind for told in watched.take(store, Policy(rules=(ESS,)), time.time)] == ["resolved"]


WATCH = st.integers(0, 2)
LOOKS = st.lists(st.tuples(WATCH, WATCH, st.integers(0, 2), st.integers(0, 2)), max_size=8)  # who, who meanwhile, steps before, meanwhile


@settings(max_examples=60, deadline=None)
@given(values=st.lists(st.sampled_from([0.3, 0.9]), min_size=1, max_size=10), looks=LOOKS)
def test_whoever_looks_whenever_what_is_told_is_what_is_so(tmp_path_factory, values, looks):
    folder = tmp_path_factory.mktemp("two")
    log = folder / "run" / "steps.jsonl"
    store = AlertStore(folder / "alerts.sqlite")
    watches, told, left = [Watching(store, log.parent) for _ in range(3)], [], list(enumerate(values))

    def steps(count):
        for step, value in left[:count]:
            grown(log, *ess_rows(step, value))
        del left[:count]

    for who, meanwhile, before, then in looks:
        one, other = watches[who], watches[meanwhile]
        steps(before)

        def others_look(other=other, then=then):
            steps(then)
            told.extend(other.told(other.look()))

        if one is not other:
            while_it_looks(one, log, others_look)
        told.extend(one.told(one.look()))
    steps(len(left))
    for watch in watches:
        told.extend(watch.told(watch.look()))
    store.close()
    kinds = [kind for _, kind, _ in told]
    assert all(one != other for one, other in pairwise(kinds)), "one after the other"
    assert kinds[:1] in ([], ["firing"])
    assert (kinds[-1:] == ["firing"]) == (values[-1] < 0.5)
    assert not any("went back" in event.text for watch in watches for event in watch.events)


# Who is told of what a watch without destinations has found


def looked_at_in_a_shell(store, log):
    watching = Watching(store, log.parent)
    told = watching.told(watching.look())
    watching.watcher.close()
    return told


def test_what_a_look_in_a_shell_has_said_is_still_told_to_the_pager(store, log):
    with serving() as pager:
        notify = (f"http://{pager.host}",)
        grown(log, *ess_rows(0, 0.9))
        Watching(store, log.parent, notify=notify).look(serve=0.2)
        grown(log, *ess_rows(1, 0.3))
        assert looked_at_in_a_shell(store, log) == [("ess", "firing", 1)]
        for _ in range(2):
            watching = Watching(store, log.parent, notify=notify)
            assert watching.told(watching.look(serve=0.5)) == [], "it did not change"
        assert [(request.json["state"], request.json["step"]) for request in pager.requests] == [("firing", 1)]
        assert watching.texts(EventKind.SENT) == []
        grown(log, *ess_rows(2, 0.9))
        watching.look(serve=0.5)
        assert [request.json["state"] for request in pager.requests] == ["firing", "resolved"]


def test_what_is_over_by_then_is_told_to_nobody(store, log):
    with serving() as pager:
        grown(log, *ess_rows(0, 0.9, 0.3))
        looked_at_in_a_shell(store, log)
        grown(log, *ess_rows(2, 0.9))
        watching = Watching(store, log.parent, notify=(f"http://{pager.host}",))
        assert watching.told(watching.look(serve=0.5)) == [("ess", "resolved", 2)]
        assert pager.requests == []


def test_what_somebody_has_acknowledged_or_silenced_is_not_told(store, log):
    with serving() as pager:
        grown(log, *ess_rows(0, 0.9, 0.3))
        looked_at_in_a_shell(store, log)
        store.silence("ess", "run", 4e9, by="me", now=1.0)
        Watching(store, log.parent, notify=(f"http://{pager.host}",)).look(serve=0.3)
        store.silence("ess", "run", 0.0, by="me", now=1.0)
        assert store.acknowledge("ess:run:1", by="me", now=1.0)
        Watching(store, log.parent, notify=(f"http://{pager.host}",)).look(serve=0.3)
        assert pager.requests == []


def test_the_log_of_the_process_is_nobody_who_was_told(store, log):
    with serving() as pager:
        grown(log, *ess_rows(0, 0.9, 0.3))
        Watching(store, log.parent, notify=("log:",)).look(serve=0.3)
        Watching(store, log.parent, notify=(f"http://{pager.host}",)).look(serve=0.5)
        assert [request.json["step"] for request in pager.requests] == [1]
