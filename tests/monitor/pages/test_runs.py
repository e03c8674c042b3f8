import math
import re

import numpy as np
import pytest

from monitor.pages import _diagnoses
from monitor.pages._live import Live
from monitor.pages._status import POINTS, course, standing
from monitor.pages._times import ago, span
from tests.monitor.pages.conftest import STEPS
from tests.monitor.pages.frames import frame
from tests.monitor.pages.test_findings import html, turn_to


@pytest.fixture
def runs(app):
    """The table of runs."""
    turn_to(app, "runs")
    assert not app.exception
    return app


def row(app, name):
    return next(each for each in re.split(r"<div class='run'>", html(app)) if f"<b>{name}</b>" in each)


def test_a_row_says_how_far_and_how_low_and_that_nothing_else_is_known(runs):
    broken = row(runs, "v1_broken")
    assert f"step {STEPS - 1}" in broken
    assert "sample" in broken
    assert re.search(r"▼ 0\.\d+</b> at step (4|5|9) <small>token</small>", broken)
    assert "not watched" in broken
    assert "not diagnosed yet" in broken
    assert "▼" not in row(runs, "v1_fixed")


def test_what_stands_in_for_the_lag_is_named(runs):
    assert "<small>token (total)</small>" in row(runs, "total_only")


def test_the_most_urgent_is_first_until_another_order_is_chosen(runs):
    def order():
        return re.findall(r"<div class='run'><div data-of='run'>.*?<b>(.*?)</b>", html(runs))

    assert order()[-1] in {"v1_fixed", "v0_reference_seed0", "v0_reference_seed1"}
    assert {*order()[:2]} == {"v1_broken", "total_only"}
    runs.selectbox(key="order").set_value("as they were added").run()
    assert order() == ["total_only", "v0_reference_seed0", "v0_reference_seed1", "v1_broken", "v1_fixed"]


def test_a_diagnosis_that_was_made_is_shown_and_an_older_one_says_so(runs, monkeypatch):
    turn_to(runs, "compare")
    turn_to(runs, "runs")
    assert "not diagnosed yet" not in row(runs, "v1_broken")
    assert "as of step" not in row(runs, "v1_broken")
    known = _diagnoses._shelves().latest
    old = known.get("v1_broken")
    monkeypatch.setattr(known, "get", lambda _: _diagnoses.Dated(told=old.told, key="older", last_step=7, at=0.0))
    runs.run()
    assert "as of step 7" in row(runs, "v1_broken")


def test_a_hostile_name_is_text(app, samples):
    (samples / "v1_broken" / "run.toml").write_text('name = "<img src=x onerror=alert(1)>"\n')
    turn_to(app, "runs")
    assert not app.exception
    assert "<img" not in html(app)
    assert "&lt;img src=x" in html(app)


def test_the_course_keeps_a_dip_of_one_step():
    values = np.full(10_000, 0.9)
    values[7321] = 0.1
    drawn = course(np.arange(10_000.0), values)
    assert len(drawn) == POINTS
    assert min(drawn, key=lambda point: point[1]) == (pytest.approx(0.732, abs=1e-3), 0.1)


@pytest.mark.parametrize(
    ("values", "wanted"), [([], ()), ([math.nan], ()), ([0.4], ((0.0, 0.4),)), ([math.nan, 0.4, 0.2], ((0.0, 0.4), (1.0, 0.2)))]
)
def test_a_course_of_few_values(values, wanted):
    assert course(np.arange(len(values), dtype=float), np.array(values, float)) == wanted


def test_a_status_without_an_ess_says_nothing_of_it():
    told = standing(frame(reward__mean=[1.0, 2.0, 3.0]))
    assert (told.last_step, told.steps, told.lowest, told.course) == (2, 3, (), ())


def test_the_lowest_is_where_it_is():
    told = standing(frame(ess__lag__token=[0.9, math.nan, 0.3], ess__total__sequence=[0.5, 0.2, 0.4]))
    assert [(low.level, low.ratio, low.value, low.step) for low in told.lowest] == [("token", "lag", 0.3, 2), ("sequence", "total", 0.2, 1)]


@pytest.mark.parametrize(
    ("seconds", "said"), [(0, "0 s"), (119, "119 s"), (120, "2 min"), (7199, "120 min"), (7200, "2 h"), (172800, "2 d")]
)
def test_spans(seconds, said):
    assert span(seconds) == said


def test_what_lies_ahead_is_now():
    assert ago(10.0, 5.0) == "now"
    assert ago(None, 5.0) == "never"


def test_a_run_that_is_live_has_its_age_in_one_place_only(runs, monkeypatch):
    monkeypatch.setattr(Live, "grows", lambda _, run: "v1_fixed" in run)
    runs.run()
    assert "<small><span class='live'>live</span></small>" in row(runs, "v1_fixed")
    assert "<small>sample</small>" in row(runs, "v1_broken")
