"""From a trainer to the pages: a real watch follows a run that grows, by the rules of the Alerts page; the pages show what it stored."""

import re
import time
from dataclasses import replace

import pytest
import streamlit as st

from monitor.alerts.policy import default_policy
from monitor.pages import _following
from monitor.pages._rule_file import change
from tests.monitor.commands.test_watch import Process
from tests.monitor.pages.test_findings import figures, html, said, turn_to
from tests.monitor.watch.runs import Recorder, record

LOWER = replace(default_policy().rules[0], threshold=0.3, recover=0.35)


@pytest.fixture
def trainer(samples, tmp_path, monkeypatch):  # noqa: ARG001 a fixture cannot use another by mark
    """A run of four healthy steps, named on the dashboard's command line; records further ones."""
    recorder = Recorder(tmp_path / "exp")
    for step in range(4):
        record(recorder, step)
    monkeypatch.setattr("sys.argv", ["app.py", str(tmp_path / "exp")])
    for wait in ("AGAIN_S", "SHARE", "READ_SHARE"):
        monkeypatch.setattr(_following, wait, 0)
    st.cache_resource.clear()
    return lambda step, ess: record(recorder, step, ess)


@pytest.fixture
def page(app):
    """Opens a page, again and again until it shows what is wanted."""

    def open_page(name, wanted=lambda: True):
        app.query_params["run"] = "exp"
        turn_to(app, name)
        end = time.monotonic() + 10
        while not wanted():
            assert time.monotonic() < end, html(app) + said(app)
            time.sleep(0.1)
            app.run()
        assert not app.exception
        return app

    return open_page


def bars(app):
    (figure,) = figures(app)
    shapes = [shape for shape in figure["layout"]["shapes"] if shape.get("name") == "fires ess.lag.token"]
    return [(shape["x0"], shape["x1"]) for shape in shapes]


def test_what_a_watch_stores_is_on_the_pages(app, page, trainer, tmp_path):
    assert change(lambda now: replace(now, rules=(LOWER,))) == ""  # as the page's form does
    with Process(tmp_path / "home", tmp_path / "exp") as watch:
        assert "rules.toml" in watch.until("rules")["text"]
        watch.until("watching")
        trainer(4, 0.4)  # under the shipped threshold, and not under the one that was saved
        page("alerts", lambda: "Nothing fires in the run that is watched." in said(app))
        trainer(5, 0.2)
        assert watch.until("told")["notification"]["step"] == 5

        page("alerts", lambda: bars(app) == [(4.5, 5.5)])
        assert "<b>ess.lag.token</b> fires since step 5 in <b>exp</b>" in html(app)
        (history,) = [table.value for table in app.table if "told" in table.value.columns]
        assert [(row["step"], row["told"]) for _, row in history.iterrows()] == [("5", "on the terminal only")]
        page("runs", lambda: re.search(r"<b>exp</b>.*?ess\.lag\.token</b> <small>since step 5", html(app)))
        assert "1 has a rule that fires" in said(app)

        trainer(6, 0.9)
        assert watch.until("told")["notification"]["kind"] == "resolved"
        page("alerts", lambda: "Nothing fires in the run that is watched." in said(app))
        assert bars(app) == [(4.5, 5.5)]
        page("runs", lambda: "0 have a rule that fires" in said(app))
