"""What a watch says of that which it cannot read, does not follow, or waits for."""

import shutil
from unicodedata import normalize

import pytest

from monitor.alerts.policy import AlertRule, RuleKind, default_policy, read_policy, written
from monitor.alerts.store import AlertStore
from monitor.watch import loop, unbegun
from monitor.watch.event import EventKind
from tests.monitor.watch.runs import Recorder, append, ess_rows, record
from tests.monitor.watch.test_loop import ESS, Watching

QUIET = AlertRule(id="quiet", kind=RuleKind.NO_DATA, metric="*", minutes=10, cooldown_s=0)


@pytest.fixture
def store(tmp_path):
    opened = AlertStore(tmp_path / "home" / "alerts.sqlite")
    yield opened
    opened.close()


def after(watching, seconds):
    """Let time pass on the watch's clock."""
    now = watching.watcher._clock() + seconds
    watching.watcher._clock._wall += seconds
    assert watching.watcher._clock() >= now


def test_lines_that_cannot_be_read_are_told_while_the_log_grows(store, tmp_path):
    log = tmp_path / "run" / "steps.jsonl"
    log.parent.mkdir()
    append(log, *ess_rows(0, 0.9, 0.9))
    watching = Watching(store, log.parent)
    watching.look()
    assert watching.texts(EventKind.PROBLEM) == []
    with log.open("a", encoding="utf-8") as file:
        file.write('GARBAGE\n{"step": 2, "ess.lag.token": "abc"}\n')
    watching.look()
    said = watching.texts(EventKind.PROBLEM)
    assert len(said) == 2
    assert any("line 3: no JSON object" in text for text in said)
    assert any("line 4, key ess.lag.token: neither a number" in text for text in said)
    append(log, *ess_rows(3, 0.3))
    assert watching.told(watching.look()) == [("ess", "firing", 3)]
    assert watching.texts(EventKind.PROBLEM) == said  # once


@pytest.mark.parametrize("what", ["nothing", "run.toml", "empty log"])
def test_a_run_that_hangs_before_its_first_value_is_told_of_once_and_over_when_it_begins(what, store, tmp_path):
    run = tmp_path / "run"
    if what != "nothing":
        run.mkdir()
        (run / ("run.toml" if what == "run.toml" else "steps.jsonl")).write_text("", encoding="utf-8")
    watching = Watching(store, run, rules=(QUIET, ESS))
    watching.look()
    assert len(watching.texts(EventKind.WAITING)) == 1
    after(watching, 599)
    watching.look()
    assert watching.told() == []
    after(watching, 2)
    assert [event.run for event in watching.look() if event.kind is EventKind.TOLD] == ["run"]
    after(watching, 3600)
    watching.look()
    assert watching.told() == [("quiet", "no_data", None)]
    run.mkdir(exist_ok=True)
    append(run / "steps.jsonl", *ess_rows(0, 0.9))
    assert watching.told(watching.look()) == [("quiet", "resolved", 0)]
    after(watching, 601)
    assert watching.told(watching.look()) == [("quiet", "no_data", 0)]  # and from then on it is a run like any other


@pytest.mark.parametrize("again", [False, True])
def test_it_is_over_as_well_where_the_runs_have_other_names(again, store, tmp_path):
    runs = tmp_path / "runs"
    watching = Watching(store, runs, rules=(QUIET,))
    watching.look()
    after(watching, 601)
    assert watching.told(watching.look()) == [("quiet", "no_data", None)]
    for name in ("a", "b"):
        (runs / name).mkdir(parents=True)
        append(runs / name / "steps.jsonl", *ess_rows(0, 0.9))
    if again:  # the watch was killed meanwhile
        watching = Watching(store, runs, rules=(QUIET,))
    found = watching.look()
    assert watching.told(found) == [("quiet", "resolved", None)]
    assert "there is new data" in next(event.text for event in found if event.kind is EventKind.TOLD)
    after(watching, 3600)
    assert {event.run for event in watching.look() if event.kind is EventKind.TOLD} <= {"a", "b"}


def test_the_time_of_a_path_begins_with_the_watch(store, tmp_path):
    first = Watching(store, tmp_path / "run", rules=(QUIET,))
    first.look()
    second = Watching(store, tmp_path / "run", rules=(QUIET,))
    after(second, 700)
    assert second.told(second.look()) == []
    after(second, 601)
    assert second.told(second.look()) == [("quiet", "no_data", None)]
    third = Watching(store, tmp_path / "run", rules=(QUIET,))
    after(third, 1400)
    assert third.told(third.look()) == []  # it was told, and is not over


def test_one_look_says_nothing_of_how_long_nothing_came(store, tmp_path):
    watching = Watching(store, tmp_path / "run", rules=(QUIET,))
    watching.watcher.look(lasts_s=0)
    assert store.states() == ()


def test_an_address_waits_under_its_last_part():
    assert unbegun._place("wandb:team/project/abc") == ("wandb:team/project/abc|abc", "abc")


def test_what_is_left_out_of_a_folder_is_said_once(store, tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "LASTS_S", 0.0)
    runs = tmp_path / "runs"
    (runs / "described").mkdir(parents=True)
    (runs / "described" / "run.toml").write_text('name = "d"\n', encoding="utf-8")
    append(runs / "described" / "steps.jsonl", *ess_rows(0, 0.9))
    record(Recorder(runs / "recorded"), 0)
    append(runs / "loose.jsonl", *ess_rows(0, 0.9))
    (runs / "notes").mkdir()
    (runs / "notes" / "todo.txt").write_text("nothing to read", encoding="utf-8")
    watching = Watching(store, runs)
    for _ in range(3):
        watching.watcher.look(lasts_s=1e-9)
    (said,) = watching.texts(EventKind.PROBLEM)
    assert [event.detail for event in watching.events if event.kind is EventKind.PROBLEM] == [{"path": str(runs), "rows": 0}]
    assert "recorded" in said
    assert "loose.jsonl" in said
    assert "name each as a path of its own" in said
    assert "notes" not in said
    assert list(watching.watcher.runs) == ["d"]


def test_what_is_over_does_not_read_as_if_it_held(store, tmp_path):
    watching = Watching(store, tmp_path / "run")
    watching.look()
    (tmp_path / "run").mkdir()
    append(tmp_path / "run" / "steps.jsonl", *ess_rows(0, 0.9))
    watching.look()
    assert all(text.startswith("no longer so: ") for text in watching.texts(EventKind.OVER))
    assert watching.texts(EventKind.OVER)


def test_a_part_that_cannot_be_read_is_named(store, tmp_path):
    record(Recorder(tmp_path / "run"), 0)
    part = tmp_path / "run" / "tokens" / "step=000001" / "rank=000.parquet"
    part.parent.mkdir()
    part.write_bytes(b"PAR1 but no more")
    watching = Watching(store, tmp_path / "run")
    watching.watcher.look(lasts_s=0)
    assert any(text.startswith(f"{part}, whole file: not read") for text in watching.texts(EventKind.TROUBLE))


def test_a_home_that_is_deleted_is_said_and_made_again(store, tmp_path):
    log = tmp_path / "run" / "steps.jsonl"
    log.parent.mkdir()
    append(log, *ess_rows(0, 0.9, 0.3))
    watching = Watching(store, log.parent)
    assert watching.told(watching.look()) == [("ess", "firing", 1)]
    shutil.rmtree(store.path.parent)
    watching.look()
    watching.look()
    assert store.path.exists()
    (said,) = watching.texts(EventKind.TROUBLE)
    assert "was deleted" in said
    assert watching.told()[1:] == [("ess", "firing", 1)]
    assert [state.since for state in AlertStore(store.path).states("run")] == [1]
    before = len(watching.events)
    watching.look()
    assert len(watching.events) == before


def test_a_home_that_cannot_be_made_again_is_a_trouble_while_it_lasts(store, tmp_path):
    log = tmp_path / "run" / "steps.jsonl"
    log.parent.mkdir()
    append(log, *ess_rows(0, 0.9))
    watching = Watching(store, log.parent)
    watching.look()
    home = store.path.parent
    shutil.rmtree(home)
    home.write_text("a file in its place", encoding="utf-8")
    append(log, *ess_rows(1, 0.3))
    watching.look()
    assert "cannot be kept there" in watching.texts(EventKind.TROUBLE)[0]
    assert watching.told() == []
    home.unlink()
    watching.look()
    watching.look()
    assert watching.told() == [("ess", "firing", 1)]


def test_a_rule_file_of_an_editor_of_windows(tmp_path):
    path = tmp_path / "rules.toml"
    path.write_bytes(b"\xef\xbb\xbf" + written(default_policy()).encode())
    assert read_policy(path).rules == default_policy().rules


def test_a_rule_names_runs_of_any_script_however_they_are_typed(store, tmp_path):
    name = "ünï-日本語"
    log = tmp_path / normalize("NFD", name) / "steps.jsonl"
    log.parent.mkdir()
    append(log, *ess_rows(0, 0.3))
    rule = AlertRule(id="ess", metric="ess.lag.token", threshold=0.5, cooldown_s=0, runs=(normalize("NFD", "ünï-日*"),))
    watching = Watching(store, log.parent, rules=(rule,))
    assert watching.told(watching.look()) == [("ess", "firing", 0)]
    assert list(watching.watcher.runs) == [name]
