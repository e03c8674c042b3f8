"""The line of work: every item once and in order, never more than its limit, and nobody who hands one over waits."""

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.record.backlog import Backlog


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 5), st.integers(0, 40))
def test_what_was_taken_is_done_once_and_in_order(limit, offered):
    done, held = [], []
    line = Backlog(limit, done.append, lambda: held.append(line.waiting))
    taken = [number for number in range(offered) if line.offer(lambda number=number: number)]
    assert line.flush(60)
    assert done == taken
    assert max(held, default=0) <= limit
    line.close()


def test_two_threads_that_hand_over_at_once_never_exceed_the_limit():
    opened, most = threading.Event(), []
    line = Backlog(3, lambda _: opened.wait(), lambda: None)

    def hand_over():
        most.extend(line.offer(lambda: 0) for _ in range(200))

    threads = [threading.Thread(target=hand_over) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(most) == 3
    assert line.waiting == 3
    opened.set()
    line.flush(60)
    assert line.waiting == 0
    line.close()


def test_an_item_that_cannot_be_made_takes_no_place():
    done = []
    line = Backlog(1, done.append, lambda: None)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            line.offer(lambda: 1 / 0)
    assert line.offer(lambda: 7)
    line.flush(60)
    assert done == [7]
    line.close()


def test_it_settles_when_nothing_waits_any_more():
    settled = threading.Event()
    line = Backlog(1, lambda _: None, settled.set)
    line.offer(lambda: 0)
    assert settled.wait(60)
    line.close()


def test_it_settles_now_and_then_while_the_line_is_never_empty(monkeypatch):
    monkeypatch.setattr("monitor.record.backlog._SETTLE_S", -1.0)
    events = []
    line = Backlog(10, lambda item: (begun.wait(), events.append(item)), lambda: events.append("settled"))
    begun = threading.Event()
    for number in range(3):
        line.offer(lambda number=number: number)
    begun.set()
    line.flush(60)
    assert events[:4] == [0, "settled", 1, "settled"]
    line.close()


def test_nothing_waits_in_a_line_that_was_never_used():
    line = Backlog(1, lambda _: None, lambda: None)
    assert line.flush(0)
    line.close()
