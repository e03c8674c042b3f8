"""What is kept of alerts survives processes that die, two side by side, and a full disk; nobody is told twice or not at all."""

import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.alerts import _outbox
from monitor.alerts.machine import Kind, Phase
from monitor.alerts.policy import Policy, Severity, SinkSettings
from monitor.alerts.store import LEASE_S, AlertStore, DiskFullError, StoreError
from tests.monitor.alerts.observed import RULE, kinds, seen

ROOT = Path(__file__).parents[3]
CHAT, LOG = SinkSettings(name="chat", sink="log"), SinkSettings(name="log", sink="log")
POLICY = Policy(rules=(RULE,), sinks=(CHAT,))
NOW = 1e9


@pytest.fixture
def path(tmp_path):
    return tmp_path / "home" / "alerts.sqlite"


@pytest.fixture
def store(path):
    opened = AlertStore(path)
    yield opened
    opened.close()


def _drained(store, now=NOW, sinks=None):
    """Everything that can be claimed, sent at once."""
    out = []
    while (row := store.claim(now, sinks=sinks)) is not None:
        store.sent(row.id, now)
        out.append(f"{row.sink} {row.notification.kind} {row.notification.step}")
    return out


# One transaction


def test_a_change_is_kept_with_its_history_and_queued_for_each_destination_once(store):
    policy = replace(POLICY, sinks=(CHAT, LOG, SinkSettings(name="calls", sink="log", least=Severity.CRITICAL)))
    told = store.take(policy, "r", seen(0.9, 0.4, 0.9), NOW)
    assert kinds(told) == ["firing 1", "resolved 2"]
    assert store.take(policy, "r", seen(0.9, 0.4, 0.9), NOW + 1) == ()
    assert sorted(_drained(store)) == ["chat firing 1", "chat resolved 2", "log firing 1", "log resolved 2"]
    assert [(past.notification.kind, past.withheld) for past in store.history()] == [(Kind.RESOLVED, ""), (Kind.FIRING, "")]
    (state,) = store.states("r")
    assert (state.phase, state.seen.last) == (Phase.OK, (2, 0.9))


def test_a_store_opened_again_goes_on_where_it_was(store, path):
    store.take(POLICY, "r", seen(0.9, 0.4), NOW)
    again = AlertStore(path)
    assert again.take(POLICY, "r", seen(0.9, 0.4), NOW) == ()
    assert kinds(again.take(POLICY, "r", seen(0.9, start=2), NOW)) == ["resolved 2"]
    again.close()


def test_what_is_not_told_is_in_the_history_with_the_reason(store):
    policy = Policy(rules=(replace(RULE, cooldown_s=600.0),), sinks=(CHAT,))
    for place, value in enumerate([0.4, 0.9, 0.4, 0.9]):
        store.take(policy, "r", seen(value, start=place), NOW + place)
    said = [(past.notification.kind, past.notification.step, past.withheld) for past in reversed(store.history("r", "ess"))]
    assert said == [
        ("firing", 0, ""),
        ("resolved", 1, ""),
        ("firing", 2, "cooldown"),
        ("resolved", 3, "its beginning was not told"),
    ]
    assert store.history("other") == store.history("r", "other") == ()
    assert len(store.history(limit=2)) == 2


def test_nothing_new_writes_nothing(store, path):
    store.take(POLICY, "r", seen(0.9, 0.4), NOW)
    before = path.with_name("alerts.sqlite-wal").stat().st_size
    for later in range(50):
        store.take(POLICY, "r", [], NOW + later)
        store.claim(NOW + later, sinks=["none"])
    assert path.with_name("alerts.sqlite-wal").stat().st_size == before


def test_a_rule_whose_terms_changed_is_looked_at_again_although_nothing_came(store):
    store.take(POLICY, "r", seen(0.4), NOW)
    assert store.take(POLICY, "r", [], NOW + 100) == ()
    reminding = replace(POLICY, rules=(replace(RULE, remind_s=10.0),))
    assert kinds(store.take(reminding, "r", [], NOW + 100)) == ["reminder 0"]


def test_by_default_it_lies_in_the_run_store(tmp_path, monkeypatch):
    monkeypatch.setenv("RATIOMETER_HOME", str(tmp_path / "own"))
    opened = AlertStore()
    assert opened.path == tmp_path / "own" / "alerts.sqlite"
    opened.close()


# The outbox


def test_a_row_is_held_by_who_claimed_it_until_the_lease_runs_out(store):
    store.take(POLICY, "r", seen(0.4), NOW)
    first = store.claim(NOW, lease_s=60.0)
    assert (first.sink, first.tries, first.made_at) == ("chat", 1, NOW)
    assert store.claim(NOW + 59.9) is None
    again = store.claim(NOW + 60.0)
    assert (again.id, again.tries, again.notification) == (first.id, 2, first.notification)


def test_what_is_queued_already_is_not_queued_again(store):
    (told,) = store.take(POLICY, "r", seen(0.4), NOW)
    with store._database.writing() as connection:
        _outbox.put(connection, told, ["chat", "log"], NOW)
    assert _drained(store) == ["chat firing 0", "log firing 0"]


def test_a_clock_that_was_set_back_holds_nothing(store):
    store.take(POLICY, "r", seen(0.4), NOW)
    store.claim(NOW)
    assert store.claim(NOW - 3600.0) is not None


def test_what_failed_is_handed_out_again_at_its_time_and_what_is_given_up_is_not(store):
    store.take(POLICY, "r", seen(0.4), NOW)
    store.failed(store.claim(NOW).id, "refused", NOW + 5.0, NOW)
    assert store.claim(NOW + 4.9) is None
    row = store.claim(NOW + 5.0)
    store.failed(row.id, "refused again", None, NOW + 6.0)
    assert store.claim(NOW + 1e6) is None
    (chat,) = store.sinks()
    assert (chat.name, chat.failures, chat.error, chat.failed_at, chat.succeeded_at, chat.waiting) == (
        "chat",
        2,
        "refused again",
        NOW + 6,
        None,
        0,
    )


def test_a_destination_that_works_again_has_no_failures_in_a_row(store):
    store.take(POLICY, "r", seen(0.4, 0.9), NOW)
    store.failed(store.claim(NOW).id, "refused", NOW, NOW)
    assert store.sinks()[0].waiting == 2
    store.sent(store.claim(NOW).id, NOW + 1)
    (chat,) = store.sinks()
    assert (chat.failures, chat.error, chat.succeeded_at, chat.waiting) == (0, "refused", NOW + 1, 1)


def test_nobody_hears_that_it_is_over_before_they_hear_of_it_and_no_destination_waits_for_another(store):
    policy = replace(POLICY, sinks=(CHAT, LOG))
    store.take(policy, "r", seen(0.4, 0.9), NOW)
    store.take(policy, "other", seen(0.4, run="other"), NOW)
    chat = store.claim(NOW, sinks=["chat"])
    assert [store.claim(NOW, sinks=["chat"]).notification.run, store.claim(NOW, sinks=["chat"])] == ["other", None]
    assert _drained(store, sinks=["log"]) == ["log firing 0", "log resolved 1", "log firing 0"]
    store.sent(chat.id, NOW)
    assert _drained(store, sinks=["chat"]) == ["chat resolved 1"]
    assert store.claim(NOW, sinks=[]) is None


# Silence, acknowledgement, forgetting


def test_a_silence_holds_until_its_time_and_the_latest_word_counts(store):
    store.silence("ess", "r", NOW + 100, by="me", now=NOW)
    assert store.take(POLICY, "r", seen(0.4), NOW) == ()
    assert [(each.rule, each.run, each.until, each.by) for each in store.silences(NOW)] == [("ess", "r", NOW + 100, "me")]
    store.silence("ess", "r", 0.0, by="you", now=NOW + 1)
    assert store.silences(NOW + 1) == ()
    assert kinds(store.take(POLICY, "r", [], NOW + 1)) == ["firing 0"]


def test_an_acknowledged_episode_is_not_reminded_of(store):
    policy = Policy(rules=(replace(RULE, remind_s=10.0),))
    store.take(policy, "r", seen(0.4), NOW)
    assert kinds(store.take(policy, "r", [], NOW + 10)) == ["reminder 0"]
    assert store.acknowledge("ess:r:0", by="me", now=NOW + 11)
    assert store.take(policy, "r", [], NOW + 100) == ()
    assert not store.acknowledge("ess:r:7", by="me", now=NOW)
    assert not store.acknowledge("", by="me", now=NOW)


def test_an_episode_can_be_acknowledged_while_there_is_no_number(store):
    store.take(POLICY, "r", seen(0.4, float("nan")), NOW)
    assert store.acknowledge("ess:r:0", by="me", now=NOW)
    assert store.acknowledge("ess:r:nan:1", by="me", now=NOW)


def test_a_run_that_is_forgotten_begins_anew(store):
    store.take(POLICY, "r", seen(0.4), NOW)
    store.take(POLICY, "other", seen(0.4, run="other"), NOW)
    store.forget("r")
    assert [state.run for state in store.states()] == ["other"]
    assert kinds(store.take(POLICY, "r", seen(0.4), NOW)) == ["firing 0"]
    assert len(_drained(store)) == 2


# Processes that die


def _command(code, *arguments):
    prelude = "from pathlib import Path; import os, signal, sys; from monitor.alerts import _outbox\n"
    prelude += "from tests.monitor.alerts.test_store import AlertStore, NOW, POLICY, seen\n"
    return [sys.executable, "-c", prelude + textwrap.dedent(code), *map(str, arguments)]


def _returned(code, *arguments):
    return subprocess.run(_command(code, *arguments), cwd=ROOT, check=False).returncode


def test_a_process_killed_between_sending_and_recording_sends_at_most_once_more(store, path, tmp_path):
    store.take(POLICY, "r", seen(0.4), NOW)
    sent = tmp_path / "sent"
    code = """
        row = AlertStore(Path(sys.argv[1])).claim(NOW)
        with open(sys.argv[2], "a") as file:
            file.write(row.notification.key + "\\n")
        os.kill(os.getpid(), signal.SIGKILL)
    """
    assert _returned(code, path, sent) == -signal.SIGKILL
    assert store.claim(NOW + LEASE_S - 1) is None
    row = store.claim(NOW + LEASE_S)
    store.sent(row.id, NOW + LEASE_S)
    assert [*sent.read_text().split(), row.notification.key] == ["ess:r:0:firing"] * 2
    assert store.claim(NOW + 1e6) is None


def test_a_process_killed_while_it_writes_has_written_nothing(store, path):
    code = """
        _outbox.put = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        AlertStore(Path(sys.argv[1])).take(POLICY, "r", seen(0.4), NOW)
    """
    assert _returned(code, path) == -signal.SIGKILL
    assert (store.states(), store.history(), store.claim(NOW)) == ((), (), None)
    assert kinds(store.take(POLICY, "r", seen(0.4), NOW)) == ["firing 0"]


def test_two_processes_on_one_store_tell_and_send_everything_once(path):
    code = """
        store = AlertStore(Path(sys.argv[1]))
        print("ready", flush=True)
        sys.stdin.readline()
        for step in range(60):
            store.take(POLICY, "r", seen(0.4 if step % 2 else 0.9, start=step), NOW)
            row = store.claim(NOW)
            if row is not None:
                print(row.notification.key, flush=True)
                store.sent(row.id, NOW)
        while (row := store.claim(NOW)) is not None:
            print(row.notification.key, flush=True)
            store.sent(row.id, NOW)
    """
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    both = [subprocess.Popen(_command(code, path), cwd=ROOT, **pipes) for _ in range(2)]
    assert [process.stdout.readline() for process in both] == ["ready\n"] * 2
    for process in both:
        process.stdin.write("go\n")
        process.stdin.flush()
    sent = [key for process in both for key in process.communicate(timeout=120)[0].split()]
    assert [process.returncode for process in both] == [0, 0]
    expected = [f"ess:r:{step}:{kind}" for step in range(1, 60, 2) for kind in ("firing", "resolved")][:-1]
    assert Counter(sent) == Counter(expected)


@settings(max_examples=50, deadline=None)
@given(
    values=st.lists(st.sampled_from([0.4, 0.9, float("nan")]), min_size=1, max_size=12),
    crashes=st.sets(st.integers(0, 30), max_size=6),
    again=st.integers(0, 12),
)
def test_whatever_dies_whenever_everything_is_queued_once(tmp_path_factory, values, crashes, again):
    whole, cut = (AlertStore(tmp_path_factory.mktemp("alerts") / "alerts.sqlite") for _ in range(2))
    whole.take(POLICY, "r", seen(*values), NOW)
    calls = iter(range(1000))

    def put(connection, *given):
        if next(calls) in crashes:
            raise KeyboardInterrupt
        was(connection, *given)

    was = _outbox.put
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(_outbox, "put", put)
        place = 0
        while place < len(values):
            try:
                cut.take(POLICY, "r", seen(*values[: place + 1])[max(0, place - again) :], NOW)
                place += 1
            except KeyboardInterrupt:
                continue
    assert _drained(cut) == _drained(whole)
    whole.close()
    cut.close()


# A disk that is full, and other files than ours


def _pages(store, most):
    store._database.connection.execute(f"PRAGMA max_page_count = {most}").fetchone()


def _until_full(store, runs):
    taken = []
    for run in runs:
        try:
            store.take(POLICY, run, seen(0.4, run=run), NOW)
        except DiskFullError as full:
            return taken, str(full)
        taken.append(run)
    raise AssertionError("it never filled")


def test_a_full_disk_says_so_and_loses_nothing(store):
    store.take(POLICY, "r", seen(0.9, 0.4), NOW)
    before = store.states()
    _pages(store, 1)  # SQLite takes the pages there are for the least
    many = [f"run{place}" for place in range(200)]
    taken, said = _until_full(store, many)
    assert "the disk is full. Nothing was lost" in said
    assert {state.run for state in store.states()} == {"r", *taken}
    assert store.states("r") == before
    _pages(store, 10**6)
    told = [store.take(POLICY, run, seen(0.4, run=run), NOW) for run in many]
    assert [bool(each) for each in told] == [run not in taken for run in many]
    assert len(_drained(store)) == 201


def test_no_space_from_the_system_is_a_full_disk_too(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(DiskFullError):
        AlertStore(tmp_path / "new" / "alerts.sqlite")


def test_another_file_is_refused_and_left_alone(tmp_path):
    other = tmp_path / "alerts.sqlite"
    other.write_bytes(b"not a database at all" * 99)
    with pytest.raises(StoreError, match="not a file of alerts, or damaged"):
        AlertStore(other)
    assert other.read_bytes() == b"not a database at all" * 99


def test_a_folder_that_cannot_be_made_is_said(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot be kept there"):
        AlertStore(tmp_path / "file" / "alerts.sqlite")


def test_a_file_of_a_later_version_is_refused(path):
    AlertStore(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(StoreError, match="later version"):
        AlertStore(path)


def test_a_process_that_holds_the_file_for_long_is_said(store, path):
    store._database.connection.execute("PRAGMA busy_timeout = 10")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="another process has held it"):
        store.take(POLICY, "r", seen(0.4), NOW)
    other.execute("ROLLBACK")
    other.close()
    assert kinds(store.take(POLICY, "r", seen(0.4), NOW)) == ["firing 0"]
    assert os.access(path, os.W_OK)
