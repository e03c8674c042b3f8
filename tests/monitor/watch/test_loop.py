"""The loop of a watch: whoever should know is told once, whatever happens to files, clocks, disks, destinations and the watch itself."""

import os
import threading
import time
from dataclasses import replace

import pytest

from monitor.alerts.policy import AlertRule, Policy, RuleKind
from monitor.alerts.rule_file import RuleFile
from monitor.alerts.store import AlertStore
from monitor.watch import loop, tokens
from monitor.watch.event import EventKind
from monitor.watch.loop import Options, Watcher
from tests.monitor.alerts.servers import hanging, serving
from tests.monitor.watch.runs import Recorder, append, ess_rows, record

ESS = AlertRule(id="ess", metric="ess.lag.token", threshold=0.5, cooldown_s=0.0, what="Resynchronise.")


class Watching:
    """A watch whose looks a test makes one by one."""

    def __init__(self, store, *paths, rules=(ESS,), notify=(), sinks=(), rule_file=None, **options):
        self.events = []
        self.watcher = Watcher(
            [str(path) for path in paths],
            Policy(rules=rules, sinks=sinks),
            store,
            self.events.append,
            Options(notify=notify, rules=rule_file, **options),
        )

    def look(self, *, serve=0.0):
        before = len(self.events)
        self.watcher.look()
        self.watcher._serve(serve)
        return self.events[before:]

    def told(self, events=None):
        found = [event.detail["notification"] for event in (self.events if events is None else events) if event.kind is EventKind.TOLD]
        return [(each["rule"], each["kind"], each["step"]) for each in found]

    def texts(self, kind):
        return [event.text for event in self.events if event.kind is kind]


@pytest.fixture
def store(tmp_path):
    opened = AlertStore(tmp_path / "alerts" / "alerts.sqlite")
    yield opened
    opened.close()


@pytest.fixture
def log(tmp_path):
    return tmp_path / "run" / "steps.jsonl"


def grown(log, *rows):
    log.parent.mkdir(exist_ok=True)
    append(log, *rows)


def test_a_crossing_is_told_once_and_once_when_it_is_over(store, log):
    grown(log, *ess_rows(0, 0.9, 0.9))
    watching = Watching(store, log.parent)
    assert watching.told(watching.look()) == []
    grown(log, *ess_rows(2, 0.4))
    assert watching.told(watching.look()) == [("ess", "firing", 2)]
    grown(log, *ess_rows(3, 0.3, 0.2))
    assert watching.told(watching.look()) == watching.told(watching.look()) == []
    grown(log, *ess_rows(5, 0.8))
    assert watching.told(watching.look()) == [("ess", "resolved", 5)]


def test_from_a_part_on_disk_to_the_network_within_two_seconds_at_the_default_interval(store, tmp_path):
    recorder, stop = Recorder(tmp_path / "run"), threading.Event()
    for step in range(3):
        record(recorder, step)
    with serving() as served:
        watching = Watching(store, tmp_path / "run", notify=(f"json://{served.host}",))
        assert watching.watcher._poll_s == 1.0

        def watch():
            while not stop.is_set():
                watching.watcher.look()
                watching.watcher._serve(watching.watcher._poll_s)

        thread = threading.Thread(target=watch)
        thread.start()
        time.sleep(2.2)  # its first looks
        record(recorder, 3, 0.25)
        landed = time.monotonic()
        try:
            assert served.arrived.wait(5)
            assert time.monotonic() - landed < 2
        finally:
            stop.set()
            thread.join()
        (request,) = served.requests
        body = request.json
        assert (body["rule"], body["state"], body["run"], body["step"]) == ("ess", "firing", "run", 3)
        assert body["value"] == pytest.approx(0.25, abs=1e-4)


def test_a_folder_that_does_not_exist_yet(store, log):
    watching = Watching(store, log.parent)
    watching.look()
    watching.look()
    assert len(watching.texts(EventKind.WAITING)) == 1
    grown(log, *ess_rows(0, 0.3))
    assert watching.told(watching.look()) == [("ess", "firing", 0)]
    assert len(watching.texts(EventKind.OVER)) == 1


def test_half_written_lines_tell_nothing_until_they_are_whole(store, log):
    grown(log, *ess_rows(0, 0.9))
    watching = Watching(store, log.parent)
    watching.look()
    whole = b'{"step": 1, "ess.lag.token": 0.25}\n'
    for place in range(len(whole)):
        with log.open("ab") as file:
            file.write(whole[place : place + 1])
        told = watching.told(watching.look())
        assert told == ([("ess", "firing", 1)] if place == len(whole) - 2 else [])  # the object is whole before the line is


def test_a_restarted_trainer_fires_again_at_a_step_that_has_been(store, log):
    grown(log, *ess_rows(0, 0.9, 0.9, 0.9, 0.3, 0.9, 0.9, 0.9, 0.9))
    watching = Watching(store, log.parent)
    watching.look()
    assert watching.told()[-1] == ("ess", "resolved", 4)
    grown(log, *ess_rows(2, 0.8, 0.8, 0.8))
    assert watching.told(watching.look()) == []
    assert watching.texts(EventKind.RESTARTED) == ["went back to step 2"]
    assert store.states("run")[0].seen.newest == 4
    grown(log, *ess_rows(5, 0.2))
    assert watching.told(watching.look()) == [("ess", "firing", 5)]


def test_a_restart_that_comes_to_the_same_values_fires_again(store, log):
    grown(log, *ess_rows(0, 0.9, 0.9, 0.9, 0.9, 0.3, 0.9, 0.9, 0.9))
    watching = Watching(store, log.parent)
    watching.look()
    grown(log, *ess_rows(2, 0.9))
    watching.look()
    grown(log, *ess_rows(3, 0.9, 0.3))
    assert watching.told(watching.look()) == [("ess", "firing", 4)]
    grown(log, *ess_rows(5, 0.9, 0.9))
    assert watching.told(watching.look()) == [("ess", "resolved", 5)]


def test_a_run_that_was_started_anew_while_nobody_watched(store, log):
    grown(log, *ess_rows(0, 0.9, 0.9, 0.9, 0.3))
    Watching(store, log.parent).look()
    log.unlink()
    grown(log, *ess_rows(0, 0.9, 0.9))
    watching = Watching(store, log.parent)
    assert [each[:2] for each in watching.told(watching.look())] == [("ess", "resolved")]
    grown(log, *ess_rows(2, 0.3))
    assert watching.told(watching.look()) == [("ess", "firing", 2)]


def test_a_recorder_that_resumes_takes_back_what_fired(store, tmp_path):
    recorder = Recorder(tmp_path / "run")
    for step in range(6):
        record(recorder, step, 0.25 if step == 5 else 1.0)
    watching = Watching(store, tmp_path / "run")
    assert watching.told(watching.look()) == [("ess", "firing", 5)]
    resumed = Recorder(tmp_path / "run", resume_from=3)
    record(resumed, 3)
    assert ("ess", "resolved") in [each[:2] for each in watching.told(watching.look())]
    assert watching.texts(EventKind.RESTARTED) == ["went back to step 3"]
    record(resumed, 4, 0.2)
    assert watching.told(watching.look()) == [("ess", "firing", 4)]


def test_a_log_that_is_deleted_and_written_again_from_the_start(store, log):
    grown(log, *ess_rows(0, 0.9, 0.9, 0.9, 0.3))
    watching = Watching(store, log.parent)
    watching.look()
    log.unlink()
    assert watching.told(watching.look()) == []
    grown(log, *ess_rows(0, 0.9, 0.9))
    told = watching.told(watching.look())
    assert [each[:2] for each in told] == [("ess", "resolved")]
    grown(log, *ess_rows(2, 0.1))
    assert watching.told(watching.look()) == [("ess", "firing", 2)]


def test_a_log_that_is_rotated_goes_on_where_it_was(store, log):
    grown(log, *ess_rows(0, 0.9, 0.3))
    watching = Watching(store, log.parent)
    watching.look()
    log.rename(log.with_suffix(".jsonl.1"))
    watching.look()
    grown(log, *ess_rows(2, 0.2))
    assert watching.told(watching.look()) == []
    grown(log, *ess_rows(3, 0.9))
    assert watching.told(watching.look()) == [("ess", "resolved", 3)]
    assert watching.texts(EventKind.RESTARTED) == []


def test_a_full_disk_is_said_and_nothing_is_lost(store, log):
    """SQLite is given no page more than it has, so that it says itself that the disk is full."""
    grown(log, *ess_rows(0, 0.9))
    watching = Watching(store, log.parent, rules=(replace(ESS, cap=1000),))
    watching.look()
    pages = store._database.connection.execute("PRAGMA page_count").fetchone()[0]
    store._database.connection.execute(f"PRAGMA max_page_count = {pages}")
    step = 1
    while not watching.texts(EventKind.TROUBLE):
        assert step < 500
        grown(log, *ess_rows(step, 0.3, 0.9))
        watching.look()
        step += 2
    for _ in range(3):
        grown(log, *ess_rows(step, 0.3, 0.9))
        watching.look()
        step += 2
    assert "the disk is full" in watching.texts(EventKind.TROUBLE)[0]
    assert len(watching.texts(EventKind.TROUBLE)) == 1
    store._database.connection.execute("PRAGMA max_page_count = 1073741823")
    watching.look()
    assert len(watching.texts(EventKind.OVER)) == 1
    assert [each.notification.step for each in store.history(limit=5000)][::-1] == list(range(1, step))


def test_a_destination_that_hangs_holds_up_nobody(store, log):
    grown(log, *ess_rows(0, 0.9))
    with hanging() as silent, serving() as served:
        watching = Watching(store, log.parent, notify=(f"json://{silent.host}", f"json://{served.host}"))
        watching.look()
        grown(log, *ess_rows(1, 0.3))
        begun = time.monotonic()
        watching.look(serve=0.05)
        assert served.arrived.wait(2)
        grown(log, *ess_rows(2, 0.9))
        watching.look(serve=1.0)
        assert time.monotonic() - begun < 4
        assert [request.json["state"] for request in served.requests] == ["firing", "resolved"]


def test_a_clock_that_jumps_moves_no_interval(store, log, monkeypatch):
    rule = AlertRule(id="quiet", kind=RuleKind.NO_DATA, metric="*", minutes=10)
    grown(log, *ess_rows(0, 0.9))
    watching = Watching(store, log.parent, rules=(rule,))
    watching.look()
    grown(log, *ess_rows(1, 0.9))
    watching.look()
    true = time.time
    for jump in (3600.0, -7200.0):
        monkeypatch.setattr(time, "time", lambda jump=jump: true() + jump)
        assert watching.told(watching.look()) == []
    steady = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: steady() + 601)
    assert watching.told(watching.look()) == [("quiet", "no_data", 1)]


def test_what_we_stumble_over_ends_no_watch(store, log, tmp_path, monkeypatch):
    grown(log, *ess_rows(0, 0.9))
    other = tmp_path / "other" / "steps.jsonl"
    grown(other, *ess_rows(0, 0.3))
    watching = Watching(store, log.parent, other.parent)
    poll = loop.Follower.poll

    def stumbling(self):
        found = poll(self)
        if self.where == str(log.parent):
            raise ZeroDivisionError("of ours, when it had read on")
        return found

    monkeypatch.setattr(loop.Follower, "poll", stumbling)
    assert watching.told(watching.look()) == [("ess", "firing", 0)]
    assert "fault of ours: ZeroDivisionError" in watching.texts(EventKind.TROUBLE)[0]
    monkeypatch.setattr(loop.Follower, "poll", poll)
    watching.look()
    assert set(watching.watcher.runs) == {"run", "other"}


def test_runs_of_one_name_are_kept_apart_also_by_the_next_watch(store, tmp_path):
    paths = [tmp_path / name / "run" / "steps.jsonl" for name in "ab"]
    for path, value in zip(paths, (0.9, 0.3), strict=True):
        path.parent.mkdir(parents=True)
        append(path, *ess_rows(0, value))
    first = Watching(store, *(path.parent for path in paths))
    first.look()
    ids = {watched.run.path: name for name, watched in first.watcher.runs.items()}
    assert len(set(ids.values())) == 2
    again = Watching(store, paths[1].parent)
    assert again.told(again.look()) == []
    assert set(again.watcher.runs) == {ids[str(paths[1].parent)]}


def test_a_run_that_ends_is_said_once_and_not_missed(store, tmp_path):
    from tests import wandb_files

    rule = AlertRule(id="quiet", kind=RuleKind.NO_DATA, metric="*", minutes=10)
    path = tmp_path / "run-abc.wandb"
    path.write_bytes(wandb_files.file([wandb_files.run("abc", name="v1"), *wandb_files.steps(3)]))
    watching = Watching(store, path, rules=(rule,))
    watching.look()
    path.write_bytes(
        wandb_files.file([wandb_files.run("abc", name="v1"), *wandb_files.steps(3), *wandb_files.steps(1, start=3), wandb_files.END])
    )
    watching.look()
    watching.look()
    assert len(watching.texts(EventKind.FINISHED)) == 1


def test_never_firing_rules_are_said_when_the_log_has_shown_what_it_has(store, log):
    rules = (ESS, AlertRule(id="kl", metric="kl.total.k3", threshold=1.0))
    grown(log, *ess_rows(0, 0.9))
    watching = Watching(store, log.parent, rules=rules)
    watching.look()
    assert watching.texts(EventKind.NEVER) == []
    grown(log, *ess_rows(1, 0.9, 0.9, 0.9, 0.9))
    watching.look()
    watching.look()
    assert [text.partition(":")[0] for text in watching.texts(EventKind.NEVER)] == ["kl"]


def written_rules(path, threshold, more=""):
    """A rule file that has settled."""
    path.write_text(f'{more}[[rule]]\nid = "ess"\nmetric = "ess.lag.token"\nthreshold = {threshold}\ncooldown_s = 0\n')
    before = time.time() - 10
    os.utime(path, (before, before))


def watching_by(store, path, log, **options):
    rules = RuleFile(path)
    return Watching(store, log.parent, rules=rules.policy.rules, rule_file=rules, **options)


def test_rules_that_are_changed_are_asked_about_the_whole_log_at_the_next_look(store, log, tmp_path):
    path = tmp_path / "rules.toml"
    written_rules(path, 0.5)
    grown(log, *ess_rows(0, 0.9, 0.7, 0.7))
    watching = watching_by(store, path, log)
    assert watching.told(watching.look()) == []
    written_rules(path, 0.8)
    assert watching.told(watching.look()) == [("ess", "firing", 1)]
    assert watching.look() == []
    grown(log, *ess_rows(3, 0.9))
    assert watching.told(watching.look()) == [("ess", "resolved", 3)]
    assert [text.split(":")[0] for text in watching.texts(EventKind.RULES)] == [f"asking 1 rule of {path}", "changed"]


def test_rules_that_cannot_be_are_said_once_and_those_from_before_stay_in_force(store, log, tmp_path):
    path = tmp_path / "rules.toml"
    written_rules(path, 0.5)
    grown(log, *ess_rows(0, 0.9))
    watching = watching_by(store, path, log)
    watching.look()
    written_rules(path, '"low"')
    for _ in range(3):
        watching.look()
    (said,) = watching.texts(EventKind.TROUBLE)
    assert "line 4" in said
    grown(log, *ess_rows(1, 0.4))
    assert watching.told(watching.look()) == [("ess", "firing", 1)]
    written_rules(path, 0.5)
    watching.look()
    assert len(watching.texts(EventKind.OVER)) == 1


def test_a_destination_that_cannot_be_set_up_keeps_the_rules_from_before(store, log, tmp_path, monkeypatch):
    path = tmp_path / "rules.toml"
    written_rules(path, 0.5)
    grown(log, *ess_rows(0, 0.9, 0.7))
    watching = watching_by(store, path, log)
    watching.look()
    sink = '[[sink]]\nname = "team"\nsink = "webhook"\nurl = "env:RATIOMETER_MISSING"\n'
    written_rules(path, 0.8, sink)
    watching.look()
    assert watching.told(watching.look()) == []
    (said,) = watching.texts(EventKind.TROUBLE)
    assert "RATIOMETER_MISSING" in said
    monkeypatch.setenv("RATIOMETER_MISSING", "http://127.0.0.1:9")
    assert watching.told(watching.look()) == [("ess", "firing", 1)]


def test_destinations_that_are_changed_are_told_from_then_on_and_no_others(store, log, tmp_path):
    path = tmp_path / "rules.toml"
    with serving() as old, serving() as new:
        sink = '[[sink]]\nname = "{}"\nsink = "webhook"\nurl = "http://{}"\n'
        written_rules(path, 0.5, sink.format("old", old.host))
        grown(log, *ess_rows(0, 0.9))
        watching = Watching(store, log.parent, rules=(rules := RuleFile(path)).policy.rules, rule_file=rules, sinks=rules.policy.sinks)
        watching.look()
        written_rules(path, 0.5, sink.format("new", new.host))
        watching.look()
        grown(log, *ess_rows(1, 0.4))
        watching.look(serve=1.0)
        assert [request.json["step"] for request in new.requests] == [1]
        assert old.requests == []
        assert len(watching.texts(EventKind.WATCHING)) == 1  # only who is told has changed: the log is not read again


def test_the_first_look_at_many_parts_says_how_far_it_is(store, tmp_path, monkeypatch):
    monkeypatch.setattr(tokens, "_AT_ONCE", 2)
    recorder, told = Recorder(tmp_path / "run"), []
    for step in range(5):
        record(recorder, step)
    watching = Watching(store, tmp_path / "run", progress=lambda *far: told.append(far))
    watching.look()
    assert told == [("run", 0, 5), ("run", 2, 5), ("run", 4, 5), ("run", 5, 5)]
    record(recorder, 5)
    watching.look()
    assert len(told) == 4


def test_globs_that_fit_nothing_are_said_once_and_so_is_that_they_do(store, log, tmp_path):
    path = tmp_path / "rules.toml"
    written_rules(path, 0.5, '[resync]\nrules = ["ess.lag.tokn"]\n')
    grown(log, *ess_rows(0, 0.9))
    rules = RuleFile(path)
    watching = Watching(store, tmp_path, rules=(replace(ESS, runs=("exp-*",)),), rule_file=rules)
    watching.watcher._base = replace(watching.watcher._base, resync=rules.policy.resync)
    for _ in range(3):
        watching.look()
    said = watching.texts(EventKind.TROUBLE)
    assert len(said) == 2
    assert "[resync]: no trainer is asked for 'ess.lag.tokn'" in said[0]
    assert "rule ess: its runs (exp-*) fit none" in said[1]
    grown(tmp_path / "exp-1" / "steps.jsonl", *ess_rows(0, 0.9))
    watching.watcher._followers[str(tmp_path)]._due = 0.0  # it searches for new runs now
    watching.look()
    (over,) = watching.texts(EventKind.OVER)
    assert "rule ess" in over
