import json
import os
import shutil
import time

import pyarrow.parquet as pq
import pytest
import streamlit as st

from monitor.pages import _diagnoses, _following, _library
from monitor.pages._following import Looks, Registry, followed, recent, state
from tests.monitor.pages.conftest import write_run
from tests.monitor.pages.test_findings import html, turn_to

OLD = 1_000_000_000  # seconds since the epoch


@pytest.fixture
def growing(tmp_path, samples, monkeypatch):  # noqa: ARG001 a fixture cannot use another by mark
    """A run beside the samples, named on the command line, of which the log is six steps so far; `grow` gives it all twelve."""
    whole = write_run(tmp_path / "whole", seed=5)
    folder = tmp_path / "grows"
    folder.mkdir()
    (folder / "run.toml").write_text('name = "grows"\n')
    cut(whole / "tokens.parquet", folder / "tokens.parquet", 6)
    monkeypatch.setattr("sys.argv", ["app.py", str(folder)])
    monkeypatch.setattr(_following, "AGAIN_S", 0.0)
    monkeypatch.setattr(_following, "SHARE", 0)
    monkeypatch.setattr(_following, "READ_SHARE", 0)
    st.cache_resource.clear()
    return folder, lambda: shutil.copy(whole / "tokens.parquet", folder / "tokens.parquet")


def cut(source, target, steps):
    table = pq.read_table(source)
    pq.write_table(table.filter([step < steps for step in table["step"].to_pylist()]), target)


def until(wanted, seconds=10.0):
    """Ask again until it is so."""
    end = time.monotonic() + seconds
    while not wanted():
        assert time.monotonic() < end
        time.sleep(0.05)


def age(folder):
    for path in folder.rglob("*"):
        os.utime(path, (OLD, OLD))


def line(app):
    return [json.loads(each.proto.json) for each in app.get("bidi_component") if each.proto.component_name.endswith("ratiometer_live")]


def test_a_run_that_grows_is_shown_as_it_is_now(app, growing):
    _, grow = growing
    turn_to(app, "runs")
    assert not app.exception
    assert "step 5<small>" in html(app)
    grow()
    until(lambda: "step 11<small>" in html(app.run()))


def test_the_line_names_live_runs_and_holds_what_is_there_against_what_is_drawn(app, growing):
    folder, grow = growing
    turn_to(app, "runs")
    (told,) = line(app)
    assert [(run["label"], run["step"]) for run in told["runs"]] == [("grows", 5)]
    assert told["seen"] == told["drawn"]
    assert not told["offered"]
    age(folder)
    app.run()
    (told,) = line(app)
    assert told["runs"] == []
    grow()
    app.query_params["run"] = "grows"
    turn_to(app, "findings")
    (told,) = line(app)
    assert told["offered"]


def test_samples_are_not_looked_at_again(app):
    turn_to(app, "runs")
    assert line(app) == []


def test_a_log_that_is_old_and_stays_is_not_followed(growing):
    folder, _ = growing
    age(folder)
    source = next(each for each in _library.sources([str(folder)], folder / "none"))
    assert followed(source.where, "grows", source.key, lambda: source.key, lambda *_: 1) is None


def test_what_was_read_once_is_not_made_again(growing):
    folder, grow = growing
    source = next(each for each in _library.sources([str(folder)], folder / "none"))
    made = []

    def ask():
        return followed(source.where, "grows", (), lambda: source.key, lambda frame, *_: made.append(frame) or len(made))

    assert (ask(), ask(), len(made)) == (1, 1, 1)
    grow()
    until(lambda: state(source.where, lambda: source.key) and ask() == 2)  # a log that is read as a whole is read when it has come to rest
    assert (ask(), len(made)) == (2, 2)
    assert max(made[0]["step"].to_pylist()) == 5
    assert max(made[1]["step"].to_pylist()) == 11


def test_a_log_that_cannot_be_followed_is_none(tmp_path):
    st.cache_resource.clear()
    assert followed(str(tmp_path / "gone"), "x", (), lambda: (("a", 1, 1),), lambda *_: 1) is None


def test_files_are_looked_at_no_oftener_than_their_number_allows():
    now, looked = [0.0], []
    looks = Looks(lambda: now[0])

    def look():
        looked.append(now[0])
        now[0] += 0.5  # what a look takes
        return ()

    for _ in range(8):
        looks.key("here", look)
        now[0] += 2
    assert looked == [0.0, 10.5]


def test_no_more_sources_are_followed_than_a_bound(tmp_path):
    registry = Registry()
    for place in range(_following.MAX_FOLLOWED + 5):
        registry.of(str(tmp_path / str(place)))
    assert len(registry.followed) == _following.MAX_FOLLOWED
    assert str(tmp_path / "0") not in registry.followed


def test_recent_is_a_matter_of_the_latest_file():
    assert recent((("a", 1, 0), ("b", 1, 1000 * 10**9)), 1000.0 + _following.RECENT_S - 1)
    assert not recent((("a", 1, 0), ("b", 1, 1000 * 10**9)), 1000.0 + _following.RECENT_S + 1)


def test_a_run_that_grows_is_not_diagnosed_at_every_step(app, growing, monkeypatch):
    _, grow = growing
    made = []
    real = _diagnoses.diagnose
    monkeypatch.setattr(_diagnoses, "diagnose", lambda case, **more: made.append(case.run.name) or real(case, **more))
    app.query_params["runs"] = "grows"
    app.run()
    assert made == ["grows"]
    grow()
    until(lambda: "11" in str(line(app.run())[0]["runs"][0]["step"]))
    assert made == ["grows"]
    monkeypatch.setattr(_diagnoses, "AGAIN_S", 0.0)
    app.run()
    assert made == ["grows", "grows"]


def test_a_page_that_is_the_first_to_show_a_run_offers_no_news_that_it_has_shown(app, growing):
    folder, _ = growing
    app.query_params["run"] = folder.name
    _following._registry.clear()
    turn_to(app, "findings")
    (told,) = line(app)
    assert told["offered"]
    assert told["seen"] == told["drawn"]
